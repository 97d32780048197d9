// SPDX-License-Identifier: Apache-2.0
// The simulator of the daemon, shortly: worlds in which every reply must be right, and
// planted bugs each of which it must see. SPILLWAY_SIM_SEEDS runs more worlds.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/testing/sanitized.h"
#include "serversim/mutants.h"

namespace spillway::serversim {
namespace {

std::uint64_t SeedsOr(std::uint64_t usual) {
  const char* wanted = std::getenv("SPILLWAY_SIM_SEEDS");
  return wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 10);
}

TEST(ServerSimulator, FindsNothingWrong) {
  sim::RunOptions options;
  options.seeds = SeedsOr(kSanitized ? 10 : 50);
  options.events = 4000;
  const sim::RunResult result = serversim::RunSeeds(options);
  for (const sim::Failure& failure : result.failures) {
    ADD_FAILURE() << "seed " << failure.seed << " event " << failure.event << ", invariant "
                  << failure.invariant << ": " << failure.what << "\nreplay: server_sim --seed "
                  << failure.seed << " --events " << options.events;
  }
  EXPECT_EQ(result.seeds, options.seeds);
  EXPECT_GT(result.twice, 0U);  // Some were lived through twice.
}

TEST(ServerSimulator, DrawsTheSameEventsFromTheSameSeed) {
  for (const std::uint64_t seed : {3U, 8U}) {
    sim::Failure failure;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint64_t other = 0;
    ASSERT_TRUE(RunOne(seed, 3000, Mutant::kNone, false, {}, &failure, &first)) << failure.what;
    ASSERT_TRUE(RunOne(seed + 1, 3000, Mutant::kNone, false, {}, &failure, &other)) << failure.what;
    ASSERT_TRUE(RunOne(seed, 3000, Mutant::kNone, false, {}, &failure, &second)) << failure.what;
    EXPECT_EQ(first, second);
    EXPECT_NE(first, other);
  }
}

class PlantedServerBug : public testing::TestWithParam<PlantedBug> {};

TEST_P(PlantedServerBug, IsSeen) {
  sim::RunOptions options;
  options.mutant = GetParam().mutant;
  options.seeds = GetParam().seeds;
  options.events = 4000;
  options.jobs = 1;
  options.stop_at_failure = true;
  options.quiet = true;
  const sim::RunResult result = serversim::RunSeeds(options);
  ASSERT_FALSE(result.failures.empty())
      << GetParam().name << " lived through " << result.seeds << " seeds";
  // And it is that bug: without it the seed is well.
  sim::Failure failure;
  std::uint64_t fingerprint = 0;
  EXPECT_TRUE(RunOne(result.failures.front().seed, options.events, Mutant::kNone, false, {},
                     &failure, &fingerprint))
      << failure.what;
  RecordProperty("seeds", std::to_string(result.failures.front().seed));
  RecordProperty("caught_by", result.failures.front().what);
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedServerBug, testing::ValuesIn(PlantedBugs()),
                         [](const testing::TestParamInfo<PlantedBug>& bug) {
                           return std::string(bug.param.name);
                         });

}  // namespace
}  // namespace spillway::serversim
