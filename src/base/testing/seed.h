// SPDX-License-Identifier: Apache-2.0
// The seed of a random test: printed before it is used, since a test that
// crashes prints nothing afterwards. SPILLWAY_SEED sets another one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace spillway::testing {

inline std::uint64_t Seed(std::uint64_t otherwise) {
  const char* const given = std::getenv("SPILLWAY_SEED");
  const std::uint64_t seed = given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
  std::printf("seed %llu (SPILLWAY_SEED sets another)\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace spillway::testing
