// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/page_allocator.h"

#include <random>

#include <gtest/gtest.h>

#include "tier/disk/backing.h"

namespace spillway {
namespace {

constexpr Bytes kP = 4096;
std::optional<Bytes> Nothing(const Extent&) { return 0; }

TEST(PageAllocator, PutsABlobIntoTheShortestSpanThatTakesIt) {
  PageAllocator allocator(100 * kP);
  ASSERT_TRUE(allocator.Take({10 * kP, kP}));
  ASSERT_TRUE(allocator.Take({14 * kP, kP}));  // Spans of 10, 3 and 85 pages.
  EXPECT_EQ(allocator.Find(2 * kP, Nothing), (Extent{11 * kP, 2 * kP}));
  EXPECT_EQ(allocator.Find(4 * kP, Nothing), (Extent{0, 4 * kP}));
  EXPECT_EQ(allocator.Find(11 * kP, Nothing), (Extent{15 * kP, 11 * kP}));
  EXPECT_EQ(allocator.Find(86 * kP, Nothing), std::nullopt);
}

TEST(PageAllocator, PrefersWhatCostsNothing) {
  PageAllocator allocator(100 * kP);
  ASSERT_TRUE(allocator.Take({10 * kP, kP}));
  const auto cost = [](const Extent& extent) -> std::optional<Bytes> {
    return extent.at == 0 ? 7 : 0;
  };
  EXPECT_EQ(allocator.Find(2 * kP, cost), (Extent{11 * kP, 2 * kP}));
  const auto never = [](const Extent&) -> std::optional<Bytes> { return std::nullopt; };
  EXPECT_EQ(allocator.Find(2 * kP, never), std::nullopt);
}

TEST(PageAllocator, TakesOnlyWhatIsFree) {
  PageAllocator allocator(10 * kP);
  EXPECT_FALSE(allocator.Take({8 * kP, 3 * kP}));
  EXPECT_FALSE(allocator.Take({0, 0}));
  EXPECT_FALSE(allocator.Take({kP, ~Bytes{0}}));
  ASSERT_TRUE(allocator.Take({3 * kP, 2 * kP}));
  EXPECT_FALSE(allocator.Take({4 * kP, kP}));
  EXPECT_FALSE(allocator.Take({2 * kP, 2 * kP}));
  EXPECT_EQ(allocator.free(), 8 * kP);
}

TEST(PageAllocator, NeverGivesAPageTwiceAndEndsAsItBegan) {
  std::mt19937_64 random(3);
  constexpr Bytes kPages = 200;
  PageAllocator allocator(kPages * kP);
  std::vector<bool> used(kPages);
  std::vector<Extent> blocks;
  const auto mark = [&](const Extent& extent, bool now) {
    for (Bytes page = extent.at / kP; page < extent.end() / kP; ++page) {
      ASSERT_NE(used[page], now);
      used[page] = now;
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const auto extent = allocator.Find((1 + random() % 20) * kP, Nothing);
      if (!extent) continue;
      ASSERT_TRUE(allocator.Take(*extent));
      ASSERT_NO_FATAL_FAILURE(mark(*extent, true));
      blocks.push_back(*extent);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_NO_FATAL_FAILURE(mark(blocks.back(), false));
      allocator.Give(blocks.back());
      blocks.pop_back();
    }
    const auto taken = static_cast<Bytes>(std::count(used.begin(), used.end(), true));
    ASSERT_EQ(allocator.free(), (kPages - taken) * kP);
  }
  for (const Extent& block : blocks) allocator.Give(block);
  ASSERT_EQ(allocator.spans().size(), 1U);
  EXPECT_EQ(allocator.free(), kPages * kP);
}

TEST(Backing, KnowsWhichChunksLackSpace) {
  Backing backing(10 * kP, 4 * kP);  // Chunks of 4, 4 and 2 pages.
  EXPECT_EQ(backing.Lacking({3 * kP, 2 * kP}), (std::vector<Extent>{{0, 8 * kP}}));
  EXPECT_EQ(backing.LackingBytes({9 * kP, kP}), 2 * kP);
  backing.Set({4 * kP, 4 * kP}, true);
  EXPECT_EQ(backing.Lacking({3 * kP, 6 * kP}),
            (std::vector<Extent>{{0, 4 * kP}, {8 * kP, 2 * kP}}));
  EXPECT_EQ(backing.clean(), 4 * kP);
  backing.Set({8 * kP, 2 * kP}, true);
  EXPECT_EQ(backing.clean(), 6 * kP);
}

TEST(Backing, OnlyChunksWithoutABlobAreIdle) {
  PageAllocator allocator(10 * kP);
  Backing backing(10 * kP, 4 * kP);
  backing.Set({0, 10 * kP}, true);
  ASSERT_TRUE(allocator.Take({3 * kP, kP}));
  EXPECT_EQ(backing.Idle(allocator), (std::vector<Extent>{{4 * kP, 6 * kP}}));
  ASSERT_TRUE(allocator.Take({9 * kP, kP}));
  EXPECT_EQ(backing.Idle(allocator), (std::vector<Extent>{{4 * kP, 4 * kP}}));
  backing.Set({4 * kP, 4 * kP}, false);
  EXPECT_TRUE(backing.Idle(allocator).empty());
}

}  // namespace
}  // namespace spillway
