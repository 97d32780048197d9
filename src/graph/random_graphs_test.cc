// SPDX-License-Identifier: Apache-2.0
// Random graphs, compared with the naive implementation. `make graph-check GRAPHS=100000` tries as
// many as given.
#include <cstdlib>

#include <gtest/gtest.h>

#include "graph/testing/random_check.h"

namespace spillway {
namespace {

TEST(RandomGraphs, AgreeWithANaiveFixpointAfterEveryEvent) {
  const char* given = std::getenv("SPILLWAY_SEED");
  const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  std::uint64_t comparisons = 0;
  for (std::uint64_t seed = first; seed < first + 2000; ++seed) {
    const testing::RandomCheck check = testing::CheckRandomGraph(seed);
    ASSERT_EQ(check.wrong, "") << "seed " << seed << " (SPILLWAY_SEED starts there)";
    comparisons += check.comparisons;
  }
  EXPECT_GT(comparisons, 100'000U);
}

}  // namespace
}  // namespace spillway
