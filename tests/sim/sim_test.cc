// SPDX-License-Identifier: Apache-2.0
// The simulator, a short run: worlds in which all must be well, and planted bugs each
// of which it must find. SPILLWAY_SIM_SEEDS runs more worlds.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/testing/sanitized.h"
#include "sim/runner.h"

namespace spillway::sim {
namespace {

std::uint64_t SeedsOr(std::uint64_t usual) {
  const char* wanted = std::getenv("SPILLWAY_SIM_SEEDS");
  return wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 10);
}

std::string Describe(const Failure& failure, std::uint64_t events) {
  return "seed " + std::to_string(failure.seed) + " event " + std::to_string(failure.event) +
         ", invariant " + std::to_string(failure.invariant) + ": " + failure.what +
         "\nreplay: spillway_sim --seed " + std::to_string(failure.seed) + " --events " +
         std::to_string(events);
}

TEST(Simulator, FindsNothingWrong) {
  RunOptions options;
  options.seeds = SeedsOr(kSanitized ? 40 : 300);
  options.events = 20000;
  const RunResult result = RunSeeds(options);
  for (const Failure& failure : result.failures) ADD_FAILURE() << Describe(failure, options.events);
  EXPECT_EQ(result.seeds, options.seeds);
  // The worlds are not trivial, and some were run twice.
  EXPECT_GE(result.large * 10, result.seeds);
  EXPECT_GT(result.twice, 0U);
  if (!kSanitized) {
    // The long run misses none.
    EXPECT_LE(result.coverage.MissingPairs(), 4U) << result.coverage.Print();
  }
}

TEST(Simulator, DrawsTheSameEventsFromTheSameSeed) {
  for (const std::uint64_t seed : {3U, 8U, 21U}) {
    Failure failure;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint64_t other = 0;
    std::size_t most_live = 0;
    ASSERT_TRUE(RunOne(seed, 5000, Mutant::kNone, false, &failure, &first, &most_live))
        << failure.what;
    ASSERT_TRUE(RunOne(seed + 1, 5000, Mutant::kNone, false, &failure, &other, &most_live))
        << failure.what;
    ASSERT_TRUE(RunOne(seed, 5000, Mutant::kNone, false, &failure, &second, &most_live))
        << failure.what;
    EXPECT_EQ(first, second);
    EXPECT_NE(first, other);
  }
}

class PlantedBug : public testing::TestWithParam<int> {};

TEST_P(PlantedBug, IsSeen) {
  RunOptions options;
  options.mutant = static_cast<Mutant>(GetParam());
  options.seeds = 150;
  options.events = 3000;
  options.jobs = 1;
  options.stop_at_failure = true;
  options.quiet = true;
  const RunResult result = RunSeeds(options);
  ASSERT_FALSE(result.failures.empty())
      << Name(options.mutant) << " lived through " << result.seeds << " seeds";
  const Failure& failure = result.failures.front();
  RecordProperty("seeds", std::to_string(failure.seed));
  RecordProperty("caught_by", failure.what);
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedBug, testing::Range(1, static_cast<int>(kFirstTierMutant)),
                         [](const testing::TestParamInfo<int>& bug) {
                           return std::string(Name(static_cast<Mutant>(bug.param)));
                         });

// At least one planted bug for each line of what must hold.
TEST(PlantedBugs, CoverEveryInvariant) {
  for (int line = 1; line <= 10; ++line) {
    bool covered = false;
    for (int i = 1; i < static_cast<int>(kFirstTierMutant); ++i) {
      covered = covered || InvariantOf(static_cast<Mutant>(i)) == line;
    }
    EXPECT_TRUE(covered) << "line " << line;
  }
}

}  // namespace
}  // namespace spillway::sim
