// SPDX-License-Identifier: Apache-2.0
// The contract of every Tier, as tests. An implementation instantiates them:
//
//   struct MyWorld {
//     static constexpr bool kKeepsBytes = true;  // Reads give what was written.
//     explicit MyWorld(Bytes capacity);          // A multiple of 256 KiB.
//     Tier& tier();
//     Bytes chunk_bytes() const;                 // 0: memory comes by the byte.
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, TierContract, MyWorld);
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/testing/test_seed.h"
#include "tier/tier.h"

namespace spillway::testing {

template <typename World>
class TierContract : public ::testing::Test {
 protected:
  static constexpr Bytes kCapacity = 4 * kMiB;

  struct Block {
    std::byte* at = nullptr;
    std::string value;
  };

  Tier& tier() { return world_.tier(); }

  Block Store(std::string value) {
    const Result<std::byte*> at = tier().Allocate(value.size());
    EXPECT_TRUE(at) << at.error().message;
    EXPECT_TRUE(tier().Write(*at, Source(value)));
    return {*at, std::move(value)};
  }
  void Drop(const Block& block) { tier().Free(block.at, block.value.size()); }
  void ExpectIntact(const Block& block) {
    if (!World::kKeepsBytes) return;
    std::string got(block.value.size(), '?');
    ASSERT_TRUE(tier().Read(block.at, got.size(), Sink(got.data(), got.size())));
    ASSERT_TRUE(got == block.value) << "a block of " << got.size() << " bytes has changed";
  }
  static std::string RandomValue(std::mt19937_64& random, Bytes bytes) {
    std::string value(bytes, '\0');
    std::uint64_t state = random();
    for (char& c : value) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      c = static_cast<char>(state >> 56);
    }
    return value;
  }
  // Mostly small, sometimes large.
  static Bytes RandomSize(std::mt19937_64& random) {
    const Bytes limit = Bytes{1} << (random() % 19);
    return random() % (limit + 1);
  }

  World world_{kCapacity};
};

TYPED_TEST_SUITE_P(TierContract);

TYPED_TEST_P(TierContract, AnEmptyTierHasAllocatedNothing) {
  EXPECT_EQ(this->tier().name(), "device");
  EXPECT_EQ(this->tier().capacity(), this->kCapacity);
  EXPECT_EQ(this->tier().allocated(), 0U);
  EXPECT_EQ(this->tier().held(), 0U);
}

TYPED_TEST_P(TierContract, CountsExactlyTheBytesAskedFor) {
  Bytes sum = 0;
  std::vector<typename TestFixture::Block> blocks;
  for (const Bytes bytes : {0U, 1U, 7U, 8U, 63U, 64U, 65U, 1000U, 4096U, 100'000U}) {
    blocks.push_back(this->Store(std::string(bytes, 'x')));
    sum += bytes;
    EXPECT_EQ(this->tier().allocated(), sum);
    EXPECT_GE(this->tier().held(), sum);
  }
  for (const auto& block : blocks) {
    this->Drop(block);
    sum -= block.value.size();
    EXPECT_EQ(this->tier().allocated(), sum);
  }
  EXPECT_EQ(this->tier().held(), 0U);
}

TYPED_TEST_P(TierContract, BlocksOf64BytesAndMoreAreAlignedTo64) {
  std::vector<typename TestFixture::Block> blocks;
  for (Bytes bytes = 64; bytes < 70'000; bytes += bytes < 700 ? 1 : 977) {
    blocks.push_back(this->Store(std::string(bytes, 'x')));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().at) % 64, 0U) << bytes;
    if (blocks.size() > 20) {
      this->Drop(blocks.front());
      blocks.erase(blocks.begin());
    }
  }
  for (const auto& block : blocks) this->Drop(block);
}

TYPED_TEST_P(TierContract, OneBlockMayFillAllOfIt) {
  for (int round = 0; round < 2; ++round) {
    const Result<std::byte*> all = this->tier().Allocate(this->kCapacity);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(this->tier().allocated(), this->kCapacity);
    const Result<std::byte*> more = this->tier().Allocate(1);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, Code::kNoMemory);
    EXPECT_EQ(this->tier().allocated(), this->kCapacity);
    this->tier().Free(*all, this->kCapacity);
    // Again, after small blocks were allocated and freed everywhere.
    std::vector<typename TestFixture::Block> blocks;
    for (Bytes i = 0; i < 300; ++i) blocks.push_back(this->Store(std::string(i * 37 % 9000, 'x')));
    for (const auto& block : blocks) this->Drop(block);
    EXPECT_EQ(this->tier().held(), 0U);
  }
}

TYPED_TEST_P(TierContract, WhatIsTooLargeIsRefusedAndNothingChanges) {
  for (const Bytes bytes : {this->kCapacity + 1, Bytes{1} << 40, ~Bytes{0}}) {
    EXPECT_FALSE(this->tier().Allocate(bytes));
    EXPECT_EQ(this->tier().allocated(), 0U);
    EXPECT_EQ(this->tier().held(), 0U);
  }
}

TYPED_TEST_P(TierContract, FragmentsBecomeOneValue) {
  const Result<std::byte*> at = this->tier().Allocate(11);
  ASSERT_TRUE(at);
  EXPECT_TRUE(this->tier().Write(
      *at, Source(std::vector<Fragment>{{"hello ", 6, Place::kHost}, {"world", 5, Place::kHost}})));
  this->ExpectIntact({*at, "hello world"});
  this->tier().Free(*at, 11);
}

// Random sequences: blocks do not overlap, keep their bytes, and all memory is
// returned with the last of them.
TYPED_TEST_P(TierContract, HoldsWhateverComesAndGoes) {
  const std::uint64_t seed = TestSeed(1);
  SCOPED_TRACE("SPILLWAY_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::map<std::uintptr_t, typename TestFixture::Block> blocks;
  Bytes sum = 0;
  for (int step = 0; step < 6'000; ++step) {
    // Fills and drains in waves.
    const bool grows = random() % 100 < (step / 1'000 % 2 == 0 ? 70U : 30U);
    if (grows) {
      const Bytes bytes = this->RandomSize(random);
      if (bytes == 0) continue;
      const Result<std::byte*> at = this->tier().Allocate(bytes);
      if (!at) {
        ASSERT_EQ(at.error().code, Code::kNoMemory);
        // Only when the tier is rather full: slack is bounded.
        ASSERT_GT(sum + bytes, this->kCapacity / 2) << at.error().message;
      } else {
        typename TestFixture::Block block{*at, this->RandomValue(random, bytes)};
        ASSERT_TRUE(this->tier().Write(*at, Source(block.value)));
        const auto [there, inserted] =
            blocks.emplace(reinterpret_cast<std::uintptr_t>(*at), std::move(block));
        ASSERT_TRUE(inserted);
        if (there != blocks.begin()) {
          ASSERT_LE(std::prev(there)->first + std::prev(there)->second.value.size(), there->first);
        }
        if (std::next(there) != blocks.end()) {
          ASSERT_LE(there->first + bytes, std::next(there)->first);
        }
        sum += bytes;
      }
    } else if (!blocks.empty()) {
      auto victim = std::next(blocks.begin(), static_cast<long>(random() % blocks.size()));
      this->ExpectIntact(victim->second);
      this->Drop(victim->second);
      sum -= victim->second.value.size();
      blocks.erase(victim);
    }
    ASSERT_EQ(this->tier().allocated(), sum);
    ASSERT_GE(this->tier().held(), sum);
    ASSERT_LE(this->tier().held(), this->kCapacity);
  }
  for (const auto& [address, block] : blocks) {
    this->ExpectIntact(block);
    this->Drop(block);
  }
  EXPECT_EQ(this->tier().allocated(), 0U);
  EXPECT_EQ(this->tier().held(), 0U);
}

TYPED_TEST_P(TierContract, AFreshBlockIsNotCleanAndABackedOneIs) {
  Tier& tier = this->tier();
  std::byte* const one = tier.Allocate(1000).value();
  std::byte* const two = tier.Allocate(1000).value();
  EXPECT_EQ(tier.clean(), 0U);
  tier.SetClean(one, 1000, true);
  tier.SetClean(two, 1000, true);
  EXPECT_EQ(tier.clean(), tier.held());
  tier.SetClean(two, 1000, false);
  EXPECT_LT(tier.clean(), tier.held());
  tier.Free(two, 1000, false);
  EXPECT_EQ(tier.clean(), tier.held());
  tier.Free(one, 1000, true);
  EXPECT_EQ(tier.clean(), 0U);
  // The same place again is a new, dirty block.
  std::byte* const again = tier.Allocate(1000).value();
  EXPECT_EQ(tier.clean(), 0U);
  tier.Free(again, 1000);
  // An empty block has no memory that could be clean or dirty.
  std::byte* const empty = tier.Allocate(0).value();
  tier.SetClean(empty, 0, true);
  EXPECT_EQ(tier.clean(), 0U);
  tier.Free(empty, 0, true);
}

// A clean block covers some chunks entirely, and shares its first and last.
TYPED_TEST_P(TierContract, OneBlockThatIsNotBackedKeepsItsChunksFromBeingClean) {
  if (this->world_.chunk_bytes() == 0) return;  // Without chunks nothing is shared.
  Tier& tier = this->tier();
  const Bytes chunk = this->world_.chunk_bytes();
  const Bytes large = 3 * chunk - chunk / 2;
  std::byte* const one = tier.Allocate(large).value();
  std::byte* const two = tier.Allocate(large).value();
  ASSERT_EQ(tier.held(), 5 * chunk);
  tier.SetClean(one, large, true);
  EXPECT_EQ(tier.clean(), 2 * chunk);
  tier.SetClean(two, large, true);
  EXPECT_EQ(tier.clean(), 5 * chunk);
  tier.SetClean(one, large, false);
  EXPECT_EQ(tier.clean(), 2 * chunk);
  tier.Free(one, large, false);
  EXPECT_EQ(tier.clean(), 3 * chunk);
  tier.Free(two, large, true);
  EXPECT_EQ(tier.clean(), 0U);
}

// Random sequences: clean() is what the blocks say, chunk by chunk.
TYPED_TEST_P(TierContract, CountsCleanMemoryWhateverComesAndGoes) {
  const std::uint64_t seed = TestSeed(2);
  SCOPED_TRACE("SPILLWAY_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  struct Held {
    Bytes bytes = 0;
    bool clean = false;
  };
  std::map<std::uintptr_t, Held> blocks;
  const Bytes chunk = this->world_.chunk_bytes();
  const auto clean = [&] {
    Bytes sum = 0;
    std::map<std::uintptr_t, bool> chunks;
    for (const auto& [at, held] : blocks) {
      if (chunk == 0) {
        sum += held.clean ? held.bytes : 0;
        continue;
      }
      for (std::uintptr_t c = at / chunk; c <= (at + held.bytes - 1) / chunk; ++c) {
        bool& all = chunks.try_emplace(c, true).first->second;
        all = all && held.clean;
      }
    }
    for (const auto& [c, all] : chunks) sum += all ? chunk : 0;
    return sum;
  };
  Tier& tier = this->tier();
  Bytes cleanest = 0;
  for (int step = 0; step < 5'000; ++step) {
    // Few and many blocks, hardly any and nearly all of them clean, in waves.
    const bool grows = random() % 100 < (step / 500 % 2 == 0 ? 60U : 45U);
    const bool backs = random() % 100 < (step / 1'000 % 2 == 0 ? 95U : 30U);
    auto some = blocks.begin();
    if (!blocks.empty()) some = std::next(some, static_cast<long>(random() % blocks.size()));
    if (random() % 3 != 0 && !blocks.empty()) {
      if (some->second.clean != backs) {
        tier.SetClean(reinterpret_cast<std::byte*>(some->first), some->second.bytes, backs);
        some->second.clean = backs;
      }
    } else if (grows || blocks.empty()) {
      const Bytes bytes = this->RandomSize(random);
      const Result<std::byte*> at = tier.Allocate(bytes);
      if (at && bytes > 0) blocks[reinterpret_cast<std::uintptr_t>(*at)] = {bytes, false};
    } else {
      tier.Free(reinterpret_cast<std::byte*>(some->first), some->second.bytes, some->second.clean);
      blocks.erase(some);
    }
    ASSERT_EQ(tier.clean(), clean()) << "step " << step;
    ASSERT_LE(tier.clean(), tier.held());
    cleanest = std::max(cleanest, tier.clean());
  }
  EXPECT_GT(cleanest, 0U);
  for (const auto& [at, held] : blocks) {
    tier.Free(reinterpret_cast<std::byte*>(at), held.bytes, held.clean);
  }
  EXPECT_EQ(tier.clean(), 0U);
  EXPECT_EQ(tier.held(), 0U);
}

REGISTER_TYPED_TEST_SUITE_P(TierContract, AnEmptyTierHasAllocatedNothing,
                            CountsExactlyTheBytesAskedFor, BlocksOf64BytesAndMoreAreAlignedTo64,
                            OneBlockMayFillAllOfIt, WhatIsTooLargeIsRefusedAndNothingChanges,
                            FragmentsBecomeOneValue, HoldsWhateverComesAndGoes,
                            AFreshBlockIsNotCleanAndABackedOneIs,
                            OneBlockThatIsNotBackedKeepsItsChunksFromBeingClean,
                            CountsCleanMemoryWhateverComesAndGoes);

}  // namespace spillway::testing
