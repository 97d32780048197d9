// SPDX-License-Identifier: Apache-2.0
#include "base/key_hasher.h"

#include <bit>
#include <cstring>

#include "base/hash.h"

namespace spillway {

namespace {

struct SipState {
  std::uint64_t a;
  std::uint64_t b;
  std::uint64_t c;
  std::uint64_t d;

  void Round() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  void Take(std::uint64_t word) {
    d ^= word;
    Round();
    a ^= word;
  }
};

// Little-endian words; on other machines the hash differs, but is as good.
std::uint64_t WordAt(const char* from, std::size_t bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, bytes);
  return word;
}

}  // namespace

std::uint64_t SipHash13(HashSeed key, std::string_view bytes) {
  SipState state{key.low ^ 0x736f6d6570736575ULL, key.high ^ 0x646f72616e646f6dULL,
                 key.low ^ 0x6c7967656e657261ULL, key.high ^ 0x7465646279746573ULL};
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state.Take(WordAt(bytes.data() + at, 8));
  const std::uint64_t length = std::uint64_t{bytes.size()} << 56;
  state.Take(length | (at < bytes.size() ? WordAt(bytes.data() + at, bytes.size() - at) : 0));
  state.c ^= 0xff;
  for (int i = 0; i < 3; ++i) state.Round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

KeyHasher::KeyHasher(HashSeed seed) {
  static_assert(kSecretBytes == sizeof(XXH3_kSecret));
  if (seed == HashSeed{}) {
    std::memcpy(secret_.data(), XXH3_kSecret, kSecretBytes);
    return;
  }
  // Each word is the seeded hash of the word's number.
  const auto word = [&](std::uint64_t number) {
    return SipHash13(seed, {reinterpret_cast<const char*>(&number), sizeof number});
  };
  std::uint64_t number = 0;
  for (std::size_t at = 0; at < kSecretBytes; at += 8) {
    const std::uint64_t made = word(number++);
    std::memcpy(&secret_[at], &made, sizeof made);
  }
  second_.low = word(number++);
  second_.high = word(number++);
}

}  // namespace spillway
