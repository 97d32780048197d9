// SPDX-License-Identifier: Apache-2.0
#include "base/key_hasher.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/hash.h"

namespace spillway {
namespace {

// Values from another program: CPython 3.11 hashes bytes with SipHash-1-3, and
// with PYTHONHASHSEED=0 the key is zero.
TEST(SipHash13, AgreesWithAnother) {
  EXPECT_EQ(SipHash13({}, "a"), 0x407448d2b89b1813ULL);
  EXPECT_EQ(SipHash13({}, "abcdefg"), 0x6db12aae9070f506ULL);
  EXPECT_EQ(SipHash13({}, "abcdefgh"), 0x3f7b849c0b8e35eaULL);
  EXPECT_EQ(SipHash13({}, "hello world, this is a key"), 0x6acf81a8f89d8534ULL);
}

TEST(KeyHasher, WithoutASeedTheFirstHashIsXxh3) {
  const KeyHasher hasher({});
  std::string key;
  for (int i = 0; i < 600; ++i) {
    key += static_cast<char>(i * 37);
    EXPECT_EQ(HashBytes(key, hasher.secret()), HashBytes(key)) << key.size();
  }
}

TEST(KeyHasher, BothHashesChangeWithEachBitOfTheSeed) {
  std::set<std::uint64_t> first;
  std::set<std::uint64_t> second;
  for (int bit = 0; bit < 128; ++bit) {
    HashSeed seed;
    (bit < 64 ? seed.low : seed.high) = std::uint64_t{1} << (bit % 64);
    const KeyHasher hasher(seed);
    first.insert(HashBytes("key", hasher.secret()));
    second.insert(hasher.Second("key"));
  }
  EXPECT_EQ(first.size(), 128U);
  EXPECT_EQ(second.size(), 128U);
}

TEST(HashSeed, IsDrawnAnewEachTime) { EXPECT_NE(RandomHashSeed(), RandomHashSeed()); }

}  // namespace
}  // namespace spillway
