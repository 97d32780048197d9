// SPDX-License-Identifier: Apache-2.0
// Keys that were made to collide: however many there are, no operation looks at more of
// them than fit into one bucket of each table.
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/sanitized.h"
#include "cache/direct.h"
#include "cache/parts.h"
#include "spillway/testing.h"

namespace spillway {
namespace {

constexpr std::size_t kKeys = kSanitized ? 6'000 : 60'000;
// Two buckets with their chains. All keys in one chain would be a thousand times that.
constexpr std::size_t kWalkMost = 64;

// Keys of 32 bytes whose first word cancels the first word of the secret: the second may
// be anything, and the hash by that secret stays the same.
std::string MadeToCollide(const std::byte* secret, std::uint64_t number) {
  std::string key(32, 'k');
  std::memcpy(key.data(), secret, 8);
  std::memcpy(key.data() + 8, &number, sizeof number);
  return key;
}

class FloodTest : public ::testing::Test {
 protected:
  void Open(HashSeed seed) {
    Options options;
    options.capacity = 64 * kMiB;
    options.pressure = std::make_shared<testing::ManualPressure>(64 * kMiB);
    options.entries_max = 1 << 17;
    auto parts = OpenParts(options);
    ASSERT_TRUE(parts) << parts.error().message;
    parts->hash_seed = seed;
    auto core = Core::Open(options, std::move(*parts));
    ASSERT_TRUE(core) << core.error().message;
    cache_ = Core::Wrap(std::move(*core));
  }
  const Index& index() const { return Core::Of(*cache_)->engine().store().index(); }

  std::size_t Hashes(const std::byte* secret) const {
    std::set<std::uint64_t> hashes;
    for (std::size_t i = 0; i < kKeys; ++i) hashes.insert(index().HashOf(MadeToCollide(secret, i)));
    return hashes.size();
  }
  // What clients may do with them.
  void UseThem(const std::byte* secret) {
    Direct direct(cache_.get());
    const auto key = [&](std::size_t number) { return MadeToCollide(secret, number); };
    for (std::size_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(direct.Set(key(i), "value", {}).status) << i;
      if (i % 5000 == 0) {
        ASSERT_LE(index().longest_walk(), kWalkMost) << i;
      }
    }
    EXPECT_EQ(cache_->size(), kKeys);
    for (std::size_t i = 0; i < kKeys; ++i) ASSERT_TRUE(direct.Contains(key(i))) << i;
    for (std::size_t i = kKeys; i < kKeys + 1000; ++i) ASSERT_FALSE(direct.Contains(key(i))) << i;
    for (std::size_t i = 0; i < kKeys; i += 7) {
      ASSERT_TRUE(direct.Set(key(i), "another value", {}).status) << i;
    }
    for (std::size_t i = 0; i < kKeys; i += 3) ASSERT_TRUE(direct.Erase(key(i))) << i;
    for (std::size_t i = 0; i < kKeys; ++i) ASSERT_EQ(direct.Contains(key(i)), i % 3 != 0) << i;
    EXPECT_LE(index().longest_walk(), kWalkMost);
  }

  std::unique_ptr<Cache> cache_;
};

TEST_F(FloodTest, KeysMadeForTheSeedInForceWalkABoundedChain) {
  std::random_device random;  // real world: any seed will do
  const HashSeed seed{random(), random()};
  SCOPED_TRACE(::testing::Message() << "seed " << seed.low << ", " << seed.high);
  Open(seed);
  const KeyHasher hasher(seed);
  ASSERT_EQ(Hashes(hasher.secret()), 1U);  // Else this test shows nothing.
  UseThem(hasher.secret());
  EXPECT_GT(index().in_second(), kKeys / 2);
}

// What the seed is for: keys that collide by the public secret do not collide by another.
TEST_F(FloodTest, KeysMadeForThePublicHashStayInTheFirstTable) {
  const KeyHasher unseeded{HashSeed{}};
  Open({});
  ASSERT_EQ(Hashes(unseeded.secret()), 1U);  // Else this test shows nothing.
  Open({1, 2});
  EXPECT_EQ(Hashes(unseeded.secret()), kKeys);
  UseThem(unseeded.secret());
  EXPECT_EQ(index().in_second(), 0U);
}

}  // namespace
}  // namespace spillway
