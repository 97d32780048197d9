// SPDX-License-Identifier: Apache-2.0
#include "replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/order/lru_lfu.h"
#include "replay/plot.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One request each second; the first id is the session's name.
Trace Make(const std::vector<std::vector<std::uint64_t>>& chains) {
  TraceBuilder builder(1);
  std::int64_t at = 0;
  for (const auto& chain : chains) {
    TraceRequest request;
    request.at_ms = at += 1000;
    request.session = chain.empty() ? 0 : chain[0];
    request.tokens = chain.size() * 10;
    builder.Add(request, builder.StreamOf("").number, 0, chain, 0);
  }
  Trace trace = builder.Finish();
  trace.block_tokens = 10;
  return trace;
}

TEST(Replay, CountsLeadingRunsOnly) {
  // Capacity 3. The third request finds 1 2 and misses 9; the fourth misses 5.
  const Trace trace = Make({{1, 2}, {5}, {1, 2, 9}, {5}, {1, 2}});
  LruBlocks lru(3);
  const ReplayResult result = Replay(trace, MakeFlags(trace, {}, 1), {}, &lru, {});
  EXPECT_EQ(result.requests, 5U);
  EXPECT_EQ(result.references, 9U);
  EXPECT_EQ(result.input_tokens, 90U);
  EXPECT_EQ(result.hit_tokens, 40U);  // 1 2, then 1 2: 9 was evicted for 5.
  EXPECT_EQ(result.entered, 5U);
  const double two = PrefillSeconds(20);
  EXPECT_DOUBLE_EQ(result.saved_s, 2 * two);
  EXPECT_DOUBLE_EQ(result.most_saved_s, 2 * two + PrefillSeconds(10));
  EXPECT_DOUBLE_EQ(result.input_s, 2 * two + 2 * PrefillSeconds(10) + PrefillSeconds(30));
  EXPECT_DOUBLE_EQ(result.waited_ratio(), 1 - 2 * two / result.input_s);
}

TEST(Replay, AHitIsNeverLongerThanTheInput) {
  Trace trace = Make({{1, 2}, {1, 2}});
  trace.requests[1].tokens = 13;
  LruBlocks lru(3);
  EXPECT_EQ(Replay(trace, MakeFlags(trace, {}, 1), {}, &lru, {}).hit_tokens, 13U);
}

TEST(Replay, PrefillCostGrowsWithLength) {
  EXPECT_EQ(PrefillSeconds(0), 0);
  EXPECT_NEAR(PrefillSeconds(1000), 1000 * 16.06e9 / 400e12, 0.001);
  const double early = PrefillSeconds(1000) - PrefillSeconds(0);
  const double late = PrefillSeconds(61'600) - PrefillSeconds(60'600);
  EXPECT_NEAR(late / early, 3, 0.1);
}

TEST(Replay, NextUsesNameTheRequest) {
  const Trace trace = Make({{1, 2}, {5}, {1, 2, 9}, {5}, {1}});
  EXPECT_THAT(NextUses(trace),
              ElementsAre(2, 2, 3, 4, kNeverAgain, kNeverAgain, kNeverAgain, kNeverAgain));
}

TEST(Replay, CapacitiesAsPeopleWriteThem) {
  Trace trace;
  trace.unique_blocks = 182'790;
  trace.block_tokens = 512;
  EXPECT_EQ(*ParseCapacity("1%", trace), 1828U);
  EXPECT_EQ(*ParseCapacity("2.5%", trace), 4570U);
  EXPECT_EQ(*ParseCapacity("2M-tokens", trace), 3906U);
  EXPECT_EQ(*ParseCapacity("1Mi-tokens", trace), 2048U);
  EXPECT_EQ(*ParseCapacity("4096", trace), 4096U);
  EXPECT_EQ(*ParseCapacity("4k-blocks", trace), 4000U);
  EXPECT_EQ(*ParseCapacity("0.0001%", trace), 1U);
  for (const char* bad :
       {"", "x", "0", "-5", "5%%", "101%", "5 %", "2T", "2M-token", "1e300", "nan"}) {
    const auto capacity = ParseCapacity(bad, trace);
    ASSERT_FALSE(capacity) << bad;
    EXPECT_THAT(capacity.error().message, HasSubstr("expected a share (5%)"));
  }
}

TEST(Flags, EndMarksTheLastRequestOfEachSession) {
  const Trace trace = Make({{1, 2}, {5}, {1, 2, 9}, {5}, {1}});
  const auto flags = MakeFlags(trace, *ParseFlags("end"), 1);
  EXPECT_FALSE(flags[0].done);
  EXPECT_FALSE(flags[2].done);
  EXPECT_TRUE(flags[3].done);
  EXPECT_TRUE(flags[4].done);
  EXPECT_EQ(flags[4].again, -1);
}

TEST(Flags, BitsLookAtTheLastBlockButOne) {
  const Trace trace = Make({{1, 2}, {5}, {1, 2, 9}, {5}, {1}, {}});
  const auto right = MakeFlags(trace, *ParseFlags("bit:0"), 1);
  EXPECT_EQ(right[0].again, 1);   // 1 is used again.
  EXPECT_EQ(right[1].again, 1);   // 5 is used again.
  EXPECT_EQ(right[2].again, 0);   // 2 is not used again.
  EXPECT_EQ(right[4].again, 0);   // 1 is not used any more.
  EXPECT_EQ(right[5].again, -1);  // The request has no block.
  const auto wrong = MakeFlags(trace, *ParseFlags("bit:1"), 1);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(wrong[i].again, 1 - right[i].again) << i;
}

TEST(Flags, WrongBitsAreAsManyAsAskedForAndFollowTheSeed) {
  std::vector<std::vector<std::uint64_t>> chains(20'000, {1, 2});
  const Trace trace = Make(chains);
  const auto count = [&](std::uint64_t seed) {
    std::vector<std::int8_t> bits;
    int wrong = 0;
    for (const RequestFlags& flags : MakeFlags(trace, *ParseFlags("bit:0.1"), seed)) {
      bits.push_back(flags.again);
      wrong += flags.again == 0;
    }
    EXPECT_NEAR(wrong, 2000, 150);
    return bits;
  };
  EXPECT_EQ(count(1), count(1));
  EXPECT_NE(count(1), count(2));
}

TEST(Flags, BadOnesSayWhatWouldBeRight) {
  for (const char* bad : {"ends", "bit", "bit:", "bit:2", "bit:-1", "bit:0.1x", "bit:nan"}) {
    const auto flags = ParseFlags(bad);
    ASSERT_FALSE(flags) << bad;
    EXPECT_THAT(flags.error().message, HasSubstr("expected end, or bit:E with E from 0 to 1"));
  }
}

TEST(Plot, DrawsALineForEachAndEscapesNames) {
  const std::string svg = PlotHitRatios("a<b & c", {{"lru", {{2e6, 0.5}, {1e6, 0.25}}}, {"x", {}}});
  EXPECT_THAT(svg, HasSubstr("a&lt;b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("points='60.0,200.0 560.0,40.0'"));  // In order of capacity.
  EXPECT_THAT(svg, HasSubstr(">lru</text>"));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

}  // namespace
}  // namespace spillway
