// SPDX-License-Identifier: Apache-2.0
#include "tier/arena_tier.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "device/cpu/cpu_device.h"
#include "device/host/host_pages.h"
#include "device/host/host_pool.h"
#include "device/testing/fake_device.h"
#include "tier/testing/tier_contract.h"

namespace spillway {
namespace testing {
namespace {

struct FakeWorld {
  static constexpr bool kKeepsBytes = true;
  explicit FakeWorld(Bytes capacity, Bytes chunk_bytes = 0, Bytes granule_min = 0)
      : device({.total = capacity, .chunk_bytes = chunk_bytes}),
        arena(ArenaTier::Open(
                  &device,
                  {.capacity = capacity, .keep_one_empty = false, .granule_min = granule_min})
                  .value()) {}
  Tier& tier() { return *arena; }
  Bytes chunk_bytes() const { return device.chunk_bytes(); }
  FakeDevice device;
  std::unique_ptr<ArenaTier> arena;
};
// Like the simulator's tier: the smallest chunks.
struct SmallChunkWorld : FakeWorld {
  explicit SmallChunkWorld(Bytes capacity) : FakeWorld(capacity, 4 * kKiB) {}
};
struct WholePagesWorld : FakeWorld {
  explicit WholePagesWorld(Bytes capacity) : FakeWorld(capacity, 64 * kKiB, 4 * kKiB) {}
};
struct CpuWorld {
  static constexpr bool kKeepsBytes = true;
  explicit CpuWorld(Bytes capacity)
      : device(CpuDevice::Open({.name = "", .total = capacity, .chunk_bytes = {}}).value()),
        arena(ArenaTier::Open(device.get(), {.capacity = capacity, .keep_one_empty = false})
                  .value()) {}
  Tier& tier() { return *arena; }
  Bytes chunk_bytes() const { return device->chunk_bytes(); }
  std::unique_ptr<CpuDevice> device;
  std::unique_ptr<ArenaTier> arena;
};
// Like the host tier.
struct HostWorld {
  static constexpr bool kKeepsBytes = true;
  explicit HostWorld(Bytes capacity)
      : pool(HostPool::Open({.capacity = capacity, .chunk_bytes = 64 * kKiB}).value()),
        arena(ArenaTier::Open(
                  pool.get(),
                  {.capacity = capacity, .keep_one_empty = false, .granule_min = kHostPage})
                  .value()) {}
  Tier& tier() { return *arena; }
  Bytes chunk_bytes() const { return pool->chunk_bytes(); }
  std::unique_ptr<HostPool> pool;
  std::unique_ptr<ArenaTier> arena;
};
using Worlds = ::testing::Types<FakeWorld, SmallChunkWorld, WholePagesWorld, CpuWorld, HostWorld>;
INSTANTIATE_TYPED_TEST_SUITE_P(Arena, TierContract, Worlds);

}  // namespace
}  // namespace testing

namespace {

using testing::FakeDevice;
using testing::FakeDeviceOptions;

constexpr Bytes kChunk = 64 * kKiB;

class ArenaTierTest : public ::testing::Test {
 protected:
  explicit ArenaTierTest(bool keep_one_empty = false) : keep_one_empty_(keep_one_empty) {}
  std::byte* Allocate(Bytes bytes) { return tier_->Allocate(bytes).value(); }

  const bool keep_one_empty_;
  FakeDevice device_{{.total = 64 * kChunk, .chunk_bytes = kChunk}};
  std::unique_ptr<ArenaTier> tier_ =
      ArenaTier::Open(&device_, {.capacity = {}, .keep_one_empty = keep_one_empty_}).value();
};

TEST_F(ArenaTierTest, TakesMemoryWithTheFirstBlockAndReturnsItWithTheLast) {
  EXPECT_EQ(device_.counts().mapped, 0U);
  std::byte* one = Allocate(100);
  std::byte* two = Allocate(100);
  EXPECT_EQ(device_.counts().mapped, kChunk);
  EXPECT_EQ(tier_->held(), kChunk);
  tier_->Free(one, 100);
  EXPECT_EQ(device_.counts().mapped, kChunk);
  tier_->Free(two, 100);
  EXPECT_EQ(device_.counts().mapped, 0U);
  EXPECT_EQ(tier_->held(), 0U);
}

TEST_F(ArenaTierTest, AFailureInTheMiddleOfABlockUnwindsAll) {
  std::byte* resident = Allocate(1000);
  for (std::uint64_t n = 1; n <= 5; ++n) {
    device_.FailMapAt(n);
    const Result<std::byte*> refused = tier_->Allocate(5 * kChunk);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kNoMemory);
    EXPECT_EQ(tier_->held(), kChunk);
    EXPECT_EQ(device_.counts().mapped, kChunk);
    EXPECT_EQ(tier_->allocated(), 1000U);
  }
  device_.ClearMapFault();
  std::byte* block = Allocate(5 * kChunk);
  EXPECT_EQ(tier_->held(), 6 * kChunk);
  tier_->Free(block, 5 * kChunk);
  tier_->Free(resident, 1000);
  EXPECT_EQ(device_.counts().mapped, 0U);
}

TEST_F(ArenaTierTest, NeighboursThatTakeTheCardAreNoMemoryAndComeAndGo) {
  device_.SetForeign(63 * kChunk);
  std::byte* one = Allocate(kChunk);
  EXPECT_EQ(tier_->Allocate(kChunk).error().code, Code::kNoMemory);
  EXPECT_EQ(tier_->Allocate(1).error().code, Code::kNoMemory);
  EXPECT_EQ(tier_->held(), kChunk);
  device_.SetForeign(62 * kChunk);
  std::byte* two = Allocate(kChunk);
  tier_->Free(one, kChunk);
  tier_->Free(two, kChunk);
}

// Whatever it says comes true, and asking changes nothing.
TEST_F(ArenaTierTest, SaysWhetherABlockWouldFitInPlaceOfAnother) {
  const auto tier =
      ArenaTier::Open(&device_, {.capacity = 4 * kChunk, .keep_one_empty = keep_one_empty_})
          .value();
  std::mt19937 random(7);
  struct Block {
    std::byte* at = nullptr;
    Bytes bytes = 0;
  };
  std::vector<Block> blocks;
  int fitted = 0;
  int refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    const Bytes bytes = 1 + random() % (Bytes{1} << (4 + random() % 15));
    if (blocks.empty() || random() % 2 == 0) {
      if (const auto at = tier->Allocate(bytes)) blocks.push_back({*at, bytes});
      if (blocks.size() < 12) continue;
    }
    const std::size_t which = random() % blocks.size();
    const Block old = blocks[which];
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
    const Bytes held = tier->held();
    device_.SetForeign((60 + random() % 3) * kChunk);
    const bool takes = tier->TakesInPlaceOf(old.at, old.bytes, bytes);
    EXPECT_EQ(tier->held(), held);
    tier->Free(old.at, old.bytes);
    const auto at = tier->Allocate(bytes);
    ASSERT_EQ(!!at, takes) << "step " << step << ": " << bytes << " in place of " << old.bytes;
    if (at) blocks.push_back({*at, bytes});
    ++(takes ? fitted : refused);
  }
  EXPECT_GT(fitted, 100);
  EXPECT_GT(refused, 100);
  for (const Block& block : blocks) tier->Free(block.at, block.bytes);
}

TEST_F(ArenaTierTest, CapacityIsWhatWasAskedForOrAllWholeChunksOfTheCard) {
  FakeDevice odd({.total = 10 * kChunk + 777, .chunk_bytes = kChunk});
  EXPECT_EQ(ArenaTier::Open(&odd).value()->capacity(), 10 * kChunk);
  EXPECT_EQ(ArenaTier::Open(&odd, {.capacity = kGiB, .keep_one_empty = {}}).value()->capacity(),
            10 * kChunk);
  const auto tier =
      ArenaTier::Open(&odd, {.capacity = 2 * kChunk + 5, .keep_one_empty = {}}).value();
  EXPECT_EQ(tier->capacity(), 2 * kChunk + 5);
  std::byte* all = tier->Allocate(2 * kChunk + 5).value();
  EXPECT_EQ(tier->held(), 3 * kChunk);
  EXPECT_EQ(tier->Allocate(2 * kChunk + 6).error().code, Code::kTooLarge);
  tier->Free(all, 2 * kChunk + 5);
}

TEST_F(ArenaTierTest, ATierWithoutMemoryDoesNotOpen) {
  FakeDevice tiny({.total = kChunk - 1, .chunk_bytes = kChunk});
  EXPECT_EQ(ArenaTier::Open(&tiny).error().code, Code::kInvalidArgument);
  EXPECT_EQ(ArenaTier::Open(&device_, {.capacity = 0, .keep_one_empty = {}}).error().code,
            Code::kInvalidArgument);
  device_.SetReserveFails(true);
  EXPECT_EQ(ArenaTier::Open(&device_).error().code, Code::kNoMemory);
}

TEST_F(ArenaTierTest, PhysicalMemoryIsBoundedByTheCapacityToo) {
  const auto tier =
      ArenaTier::Open(&device_, {.capacity = 4 * kChunk, .keep_one_empty = false}).value();
  std::vector<std::byte*> blocks;
  // Just over half a chunk: at least seven blocks fit into four chunks.
  for (;;) {
    const Result<std::byte*> block = tier->Allocate(kChunk / 2 + 1);
    if (!block) break;
    blocks.push_back(*block);
    ASSERT_LE(tier->held(), 4 * kChunk);
  }
  EXPECT_GE(blocks.size(), 7U);
  for (std::byte* block : blocks) tier->Free(block, kChunk / 2 + 1);
  EXPECT_EQ(tier->held(), 0U);
}

TEST_F(ArenaTierTest, ATinyTierHoldsManySizesAtOnce) {
  const auto tier = ArenaTier::Open(&device_, {.capacity = kChunk, .keep_one_empty = {}}).value();
  std::vector<std::pair<std::byte*, Bytes>> blocks;
  Bytes sum = 0;
  for (Bytes bytes = 1; bytes < 8'000; bytes += bytes / 3 + 1) {
    const Result<std::byte*> block = tier->Allocate(bytes);
    ASSERT_TRUE(block) << bytes << " after " << sum;
    blocks.emplace_back(*block, bytes);
    sum += bytes;
  }
  EXPECT_GT(sum, kChunk / 3);
  for (const auto& [block, bytes] : blocks) tier->Free(block, bytes);
}

TEST_F(ArenaTierTest, SmallBlocksFillTheirChunksWell) {
  // One size at a time; each fills the whole tier.
  for (const Bytes bytes : {8U, 16U, 48U, 64U, 128U, 512U, 1000U, 2000U, 4000U, 8000U, 16'000U}) {
    std::vector<std::byte*> blocks;
    while (const Result<std::byte*> block = tier_->Allocate(bytes)) blocks.push_back(*block);
    EXPECT_GE(blocks.size() * bytes * 100, tier_->capacity() * 80) << bytes;
    for (std::byte* block : blocks) tier_->Free(block, bytes);
    EXPECT_EQ(tier_->held(), 0U);
  }
}

TEST_F(ArenaTierTest, HolesAreReusedLowestFirstSoThatHighChunksEmpty) {
  // 256 slots of 4 KiB in 16 chunks. Every other one is freed, then half of
  // those are allocated again: they fit into the low chunks.
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 256; ++i) blocks.push_back(Allocate(4096));
  std::vector<std::byte*> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 == 0) {
      tier_->Free(blocks[i], 4096);
    } else {
      kept.push_back(blocks[i]);
    }
  }
  std::byte* highest = *std::ranges::max_element(kept);
  for (int i = 0; i < 64; ++i) {
    std::byte* back = Allocate(4096);
    EXPECT_LT(back, highest);
    kept.push_back(back);
  }
  EXPECT_EQ(tier_->held(), 16 * kChunk);
  for (std::byte* block : kept) tier_->Free(block, 4096);
}

TEST_F(ArenaTierTest, SameCallsGiveSameOffsets) {
  FakeDevice other_device({.total = 64 * kChunk, .chunk_bytes = kChunk});
  const auto other =
      ArenaTier::Open(&other_device, {.capacity = {}, .keep_one_empty = false}).value();
  std::mt19937_64 random(3);
  std::vector<std::pair<Bytes, Bytes>> blocks;  // Offset and size.
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 5 < 3) {
      const Bytes bytes = 1 + random() % (random() % 8 == 0 ? 100'000 : 2'000);
      const Result<std::byte*> here = tier_->Allocate(bytes);
      const Result<std::byte*> there = other->Allocate(bytes);
      ASSERT_EQ(here.has_value(), there.has_value());
      if (!here) continue;
      ASSERT_EQ(*here - tier_->base(), *there - other->base());
      blocks.emplace_back(static_cast<Bytes>(*here - tier_->base()), bytes);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [offset, bytes] = blocks.back();
      blocks.pop_back();
      tier_->Free(const_cast<std::byte*>(tier_->base()) + offset, bytes);
      other->Free(const_cast<std::byte*>(other->base()) + offset, bytes);
    }
  }
  EXPECT_EQ(device_.counts().maps, other_device.counts().maps);
}

// Every n-th MapChunk fails, for several n: in any case the tier holds what its
// blocks need and returns all of it at the end.
TEST_F(ArenaTierTest, SurvivesADeviceThatRefusesEveryNthChunk) {
  for (const std::uint64_t n : {1U, 2U, 3U, 7U, 50U}) {
    std::mt19937_64 random(n);
    std::vector<std::pair<std::byte*, Bytes>> blocks;
    Bytes sum = 0;
    for (int step = 0; step < 3'000; ++step) {
      if (random() % 2 == 0) {
        if (step % static_cast<int>(n) == 0) device_.FailMapAt(1 + random() % 3);
        const Bytes bytes = 1 + random() % (5 * kChunk);
        const Bytes held = tier_->held();
        const Result<std::byte*> block = tier_->Allocate(bytes);
        if (block) {
          blocks.emplace_back(*block, bytes);
          sum += bytes;
        } else {
          ASSERT_EQ(tier_->held(), held);
        }
      } else if (!blocks.empty()) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        tier_->Free(blocks.back().first, blocks.back().second);
        sum -= blocks.back().second;
        blocks.pop_back();
      }
      ASSERT_EQ(tier_->allocated(), sum);
      ASSERT_EQ(tier_->held(), device_.counts().mapped);
    }
    for (const auto& [block, bytes] : blocks) tier_->Free(block, bytes);
    ASSERT_EQ(tier_->held(), 0U);
    ASSERT_EQ(device_.counts().mapped, 0U);
  }
}

// Tiers of several sizes: blocks of pages come from slabs or not, and slabs are
// smaller than a page or not.
TEST_F(ArenaTierTest, WithAGranuleBlocksOfHalfOfItAndMoreOwnTheirPagesWhole) {
  for (const Bytes capacity : {Bytes{256 * kKiB}, 4 * kMiB, 256 * kMiB}) {
    for (const Bytes granule : {Bytes{512}, 4 * kKiB, kChunk}) {
      FakeDevice device({.total = capacity, .chunk_bytes = kChunk, .poison = false});
      const auto tier =
          ArenaTier::Open(&device,
                          {.capacity = {}, .keep_one_empty = false, .granule_min = granule})
              .value();
      std::mt19937_64 random(capacity + granule);
      std::map<std::byte*, Bytes> blocks;
      for (int step = 0; step < 4'000; ++step) {
        const Bytes bytes = 1 + random() % (Bytes{1} << (random() % 18));
        const Result<std::byte*> at = tier->Allocate(bytes);
        if (at) blocks.emplace(*at, bytes);
        if (!at || step % 3 == 0) {
          const auto some = std::next(blocks.begin(), static_cast<long>(random() % blocks.size()));
          tier->Free(some->first, some->second);
          blocks.erase(some);
        }
      }
      const std::byte* free_from = nullptr;
      for (const auto& [at, bytes] : blocks) {
        ASSERT_GE(at, free_from) << bytes;
        free_from = at + bytes;
        if (bytes <= granule / 2) continue;
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % granule, 0U) << bytes;
        free_from = at + (bytes + granule - 1) / granule * granule;
      }
      for (const auto& [at, bytes] : blocks) tier->Free(at, bytes);
      EXPECT_EQ(tier->held(), 0U);
    }
  }
}

TEST_F(ArenaTierTest, ThePaddingOfALastPageIsInItsChunks) {
  const auto tier =
      ArenaTier::Open(&device_, {.capacity = 2 * kChunk + 5, .granule_min = 4 * kKiB}).value();
  std::byte* all = tier->Allocate(2 * kChunk + 5).value();
  EXPECT_EQ(tier->allocated(), 2 * kChunk + 5);
  EXPECT_EQ(tier->held(), 3 * kChunk);
  tier->Free(all, 2 * kChunk + 5);
  for (const Bytes granule : {Bytes{5000}, 2 * kChunk}) {
    EXPECT_EQ(ArenaTier::Open(&device_, {.granule_min = granule}).error().code,
              Code::kInvalidArgument);
  }
  EXPECT_EQ(tier->Allocate(~Bytes{0}).error().code, Code::kTooLarge);  // No overflow.
}

class KeepingArenaTierTest : public ArenaTierTest {
 protected:
  KeepingArenaTierTest() : ArenaTierTest(true) {}
};

TEST_F(KeepingArenaTierTest, OneEntryThatComesAndGoesMapsOnce) {
  for (int i = 0; i < 100; ++i) tier_->Free(Allocate(100), 100);
  EXPECT_EQ(device_.counts().maps, 1U);
  EXPECT_EQ(tier_->held(), kChunk);
  for (int i = 0; i < 100; ++i) tier_->Free(Allocate(kChunk), kChunk);
  EXPECT_EQ(device_.counts().maps, 1U);
}

TEST_F(KeepingArenaTierTest, TheSpareIsNotCleanButFree) {
  std::byte* one = Allocate(kChunk);
  tier_->SetClean(one, kChunk, true);
  EXPECT_EQ(tier_->clean(), kChunk);
  tier_->Free(one, kChunk, true);
  EXPECT_EQ(tier_->held(), kChunk);
  EXPECT_EQ(tier_->clean(), 0U);
  std::byte* two = Allocate(kChunk);
  EXPECT_EQ(tier_->clean(), 0U);
  tier_->SetClean(two, kChunk, true);
  EXPECT_EQ(tier_->clean(), kChunk);
  tier_->Free(two, kChunk, true);
}

TEST_F(KeepingArenaTierTest, NeverMoreThanOneIsKept) {
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(Allocate(kChunk));
  for (std::byte* block : blocks) tier_->Free(block, kChunk);
  EXPECT_EQ(tier_->held(), kChunk);
}

TEST_F(KeepingArenaTierTest, TheSpareGoesWhenItsMemoryIsNeededElsewhere) {
  tier_->Free(Allocate(kChunk), kChunk);
  ASSERT_EQ(tier_->held(), kChunk);
  std::byte* all = Allocate(tier_->capacity());
  EXPECT_EQ(tier_->held(), tier_->capacity());
  tier_->Free(all, tier_->capacity());
  EXPECT_EQ(tier_->held(), kChunk);
  // The spare is chunk 0. A neighbour leaves room for one chunk, and two are needed.
  device_.SetForeign(62 * kChunk);
  std::byte* two = Allocate(2 * kChunk);
  EXPECT_EQ(tier_->held(), 2 * kChunk);
  tier_->Free(two, 2 * kChunk);
}

TEST_F(KeepingArenaTierTest, ByDefaultOnlyPrivateCardsKeepOne) {
  for (const bool shared : {false, true}) {
    FakeDevice device(FakeDeviceOptions{.total = kMiB, .chunk_bytes = kChunk, .shared = shared});
    const auto tier = ArenaTier::Open(&device).value();
    tier->Free(tier->Allocate(100).value(), 100);
    EXPECT_EQ(tier->held(), shared ? 0 : kChunk);
  }
}

using ArenaTierDeathTest = ArenaTierTest;

TEST_F(ArenaTierDeathTest, FreeingTwiceStopsTheProgram) {
  std::byte* one = Allocate(100);
  Allocate(100);
  tier_->Free(one, 100);
  EXPECT_DEATH(tier_->Free(one, 100), "");
  std::byte* large = Allocate(kChunk);
  tier_->Free(large, kChunk);
  EXPECT_DEATH(tier_->Free(large, kChunk), "");
  EXPECT_DEATH(tier_->Free(one + 3, 100), "");
}

}  // namespace
}  // namespace spillway
