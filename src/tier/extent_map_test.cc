// SPDX-License-Identifier: Apache-2.0
#include "tier/extent_map.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr Bytes kChunk = 1024;
constexpr Bytes kGranule = 64;

class ExtentMapTest : public ::testing::Test {
 protected:
  Placement Place(Bytes bytes, Bytes align = kGranule, std::optional<std::size_t> spare = {}) {
    const std::optional<Placement> place = map_.Find(bytes, align, spare);
    EXPECT_TRUE(place.has_value());
    map_.Take(place->at, bytes);
    return *place;
  }
  ExtentMap map_{16 * kChunk, kChunk, kGranule};
};

TEST_F(ExtentMapTest, TheFirstBlockGoesToTheLowestAddress) {
  const Placement place = Place(64);
  EXPECT_EQ(place.at, 0U);
  EXPECT_EQ(place.fresh.first, 0U);
  EXPECT_EQ(place.fresh.count, 1U);
  EXPECT_FALSE(map_.empty());
  EXPECT_EQ(map_.Give(0, 64).count, 1U);
  EXPECT_TRUE(map_.empty());
}

TEST_F(ExtentMapTest, MappedChunksAreFilledBeforeNewOnesAreTaken) {
  Place(512);
  EXPECT_EQ(Place(512).at, 512U);
  EXPECT_EQ(Place(128).fresh.count, 1U);
}

TEST_F(ExtentMapTest, TheSmallestHoleThatFitsIsTaken) {
  Place(256);                         // 0
  const Bytes small = Place(128).at;  // 256
  Place(64);
  const Bytes large = Place(256).at;  // 448
  Place(320);                         // The chunk is full.
  map_.Give(large, 256);
  map_.Give(small, 128);
  EXPECT_EQ(Place(128).at, small);
  EXPECT_EQ(Place(128).at, large);
}

TEST_F(ExtentMapTest, BlocksFollowOneAnotherOverChunkBorders) {
  // 0.625 chunks each: eight blocks fit five chunks without a gap.
  std::size_t chunks = 0;
  for (Bytes i = 0; i < 8; ++i) {
    const Placement place = Place(640);
    EXPECT_EQ(place.at, i * 640);
    chunks += place.fresh.count;
  }
  EXPECT_EQ(chunks, 5U);
}

TEST_F(ExtentMapTest, WholeChunksDoNotBorrowFromTheirNeighbours) {
  Place(128);
  const Placement place = Place(2 * kChunk);
  EXPECT_EQ(place.at, kChunk);
  EXPECT_EQ(place.fresh.count, 2U);
}

TEST_F(ExtentMapTest, ABlockThatLeftLeavesExactlyItsPlace) {
  Place(640);
  const Placement big = Place(1664);  // 640 to 2304: the end of chunk 0, all of 1, a bit of 2.
  Place(640);
  EXPECT_EQ(big.at, 640U);
  EXPECT_EQ(map_.Give(big.at, 1664).count, 1U);  // Only chunk 1 has no other block.
  const Placement again = Place(1664);
  EXPECT_EQ(again.at, 640U);
  EXPECT_EQ(again.fresh.first, 1U);
  EXPECT_EQ(again.fresh.count, 1U);
}

TEST_F(ExtentMapTest, AMappedSpareIsPreferred) {
  EXPECT_EQ(Place(64, kGranule, 5).at, 5 * kChunk);
  EXPECT_EQ(Place(kChunk, kGranule, 7).at, 7 * kChunk);
}

TEST_F(ExtentMapTest, AlignedBlocksAreAligned) {
  Place(64);
  EXPECT_EQ(Place(512, 512).at, 512U);
  EXPECT_EQ(Place(256, 256).at, 256U);
  EXPECT_EQ(Place(1024, 1024).at, 1024U);
}

TEST_F(ExtentMapTest, NoAddressesIsAnAnswer) {
  EXPECT_FALSE(map_.Find(17 * kChunk, kGranule, {}));
  Place(16 * kChunk);
  EXPECT_FALSE(map_.Find(64, kGranule, {}));
}

// Compared with a bitmap of granules.
TEST_F(ExtentMapTest, AgreesWithANaiveMapOfGranules) {
  std::mt19937_64 random(7);
  const std::size_t granules = 16 * kChunk / kGranule;
  std::vector<bool> used(granules);
  struct Block {
    Bytes at, bytes;
  };
  std::vector<Block> blocks;
  const auto needed = [&](std::size_t chunk) {
    const auto first = used.begin() + static_cast<long>(chunk * kChunk / kGranule);
    return std::find(first, first + kChunk / kGranule, true) != first + kChunk / kGranule;
  };
  for (int step = 0; step < 30'000; ++step) {
    std::vector<bool> before(16);
    for (std::size_t c = 0; c < 16; ++c) before[c] = needed(c);
    ChunkRun changed;
    if (random() % 2 == 0) {
      const Bytes bytes = (1 + random() % (random() % 4 == 0 ? 60 : 6)) * kGranule;
      const Bytes align = bytes <= kChunk && random() % 3 == 0 ? std::bit_ceil(bytes) : kGranule;
      const std::optional<Placement> place = map_.Find(bytes, align, {});
      if (!place) continue;
      ASSERT_EQ(place->at % align, 0U);
      for (Bytes g = place->at / kGranule; g < (place->at + bytes) / kGranule; ++g) {
        ASSERT_FALSE(used[g]);
        used[g] = true;
      }
      map_.Take(place->at, bytes);
      blocks.push_back({place->at, bytes});
      changed = place->fresh;
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block gone = blocks.back();
      blocks.pop_back();
      for (Bytes g = gone.at / kGranule; g < (gone.at + gone.bytes) / kGranule; ++g)
        used[g] = false;
      changed = map_.Give(gone.at, gone.bytes);
    }
    // Exactly the chunks named have changed between needed and not needed.
    for (std::size_t c = 0; c < 16; ++c) {
      ASSERT_EQ(needed(c) != before[c], changed.Contains(c)) << "step " << step << " chunk " << c;
    }
  }
  for (const Block& block : blocks) map_.Give(block.at, block.bytes);
  EXPECT_TRUE(map_.empty());
}

}  // namespace
}  // namespace spillway
