// SPDX-License-Identifier: Apache-2.0
// The seed of a cache's hash of keys. Programs draw it at random, so that an
// attacker cannot construct keys that collide; simulators and tests fix it.
// Nothing that leaves the process depends on it. All zero is plain XXH3.
#pragma once

#include <cstdint>

namespace spillway {

struct HashSeed {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const HashSeed&, const HashSeed&) = default;
};

// Drawn from the system's source of randomness.
HashSeed RandomHashSeed();
// One random seed, the same for the life of the process.
const HashSeed& ProcessSeed();

}  // namespace spillway
