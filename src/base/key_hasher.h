// SPDX-License-Identifier: Apache-2.0
// Two hashes of a key, both made from one seed.
//
// The first is XXH3 with a secret of 192 random bytes. All words that a key is
// mixed with are unknown, so keys constructed to cancel the words of the public
// secret have no effect. (XXH3's own seed is one number added to all words, so
// the distances between them stay known.) A hit computes only this hash. It is
// fast, and gives no guarantee beyond that.
//
// The second is SipHash-1-3, designed for keys that an attacker chooses, at four
// times the cost. It is computed only if too many keys collide by the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/hash_seed.h"

namespace spillway {

// SipHash with one round per word and three final rounds.
std::uint64_t SipHash13(HashSeed key, std::string_view bytes);

class KeyHasher {
 public:
  static constexpr std::size_t kSecretBytes = 192;

  explicit KeyHasher(HashSeed seed);

  // The secret for HashBytes, which computes the first hash.
  const std::byte* secret() const { return secret_.data(); }
  std::uint64_t Second(std::string_view key) const { return SipHash13(second_, key); }

 private:
  alignas(64) std::array<std::byte, kSecretBytes> secret_{};
  HashSeed second_;
};

}  // namespace spillway
