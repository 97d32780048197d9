// SPDX-License-Identifier: Apache-2.0
// The simulator of several tiers, a short run: worlds in which all must be well, and
// planted bugs each of which it must find. SPILLWAY_SIM_SEEDS runs more worlds.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/testing/sanitized.h"
#include "tiersim/mutants.h"

namespace spillway::tiersim {
namespace {

std::uint64_t SeedsOr(std::uint64_t usual) {
  const char* wanted = std::getenv("SPILLWAY_SIM_SEEDS");
  return wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 10);
}

TEST(TierSimulator, FindsNothingWrong) {
  sim::RunOptions options;
  options.seeds = SeedsOr(kSanitized ? 60 : 600);
  options.events = 4000;
  const sim::RunResult result = tiersim::RunSeeds(options);
  for (const sim::Failure& failure : result.failures) {
    ADD_FAILURE() << "seed " << failure.seed << " event " << failure.event << ", invariant "
                  << failure.invariant << ": " << failure.what
                  << "\nreplay: spillway_tiersim --seed " << failure.seed << " --events "
                  << options.events;
  }
  EXPECT_EQ(result.seeds, options.seeds);
  EXPECT_GT(result.twice, 0U);  // Some were run twice.
}

TEST(TierSimulator, DrawsTheSameEventsFromTheSameSeed) {
  for (const std::uint64_t seed : {3U, 8U, 21U}) {
    sim::Failure failure;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint64_t other = 0;
    ASSERT_TRUE(RunOne(seed, 3000, Mutant::kNone, false, &failure, &first)) << failure.what;
    ASSERT_TRUE(RunOne(seed + 1, 3000, Mutant::kNone, false, &failure, &other)) << failure.what;
    ASSERT_TRUE(RunOne(seed, 3000, Mutant::kNone, false, &failure, &second)) << failure.what;
    EXPECT_EQ(first, second);
    EXPECT_NE(first, other);
  }
}

class PlantedTierBug : public testing::TestWithParam<int> {};

TEST_P(PlantedTierBug, IsSeen) {
  sim::RunOptions options;
  options.mutant = static_cast<Mutant>(GetParam());
  options.seeds = 600;
  options.events = 2000;
  options.jobs = 1;
  options.stop_at_failure = true;
  options.quiet = true;
  const sim::RunResult result = tiersim::RunSeeds(options);
  ASSERT_FALSE(result.failures.empty())
      << Name(options.mutant) << " lived through " << result.seeds << " seeds";
  RecordProperty("seeds", std::to_string(result.failures.front().seed));
  RecordProperty("caught_by", result.failures.front().what);
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedTierBug,
                         testing::Range(static_cast<int>(kFirstTierMutant),
                                        static_cast<int>(kFirstIndexMutant)),
                         [](const testing::TestParamInfo<int>& bug) {
                           return std::string(Name(static_cast<Mutant>(bug.param)));
                         });

}  // namespace
}  // namespace spillway::tiersim
