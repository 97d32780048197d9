// SPDX-License-Identifier: Apache-2.0
#include "base/hash_seed.h"

#include <random>

namespace spillway {

HashSeed RandomHashSeed() {
  std::random_device random;  // real world: an attacker must not know keys that collide
  const auto word = [&] { return std::uint64_t{random()} << 32 | random(); };
  HashSeed seed;
  seed.low = word();
  seed.high = word();
  return seed;
}

const HashSeed& ProcessSeed() {
  static const HashSeed kSeed = RandomHashSeed();
  return kSeed;
}

}  // namespace spillway
