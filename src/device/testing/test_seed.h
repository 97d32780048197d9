// SPDX-License-Identifier: Apache-2.0
// Random tests print their seed and accept one.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace spillway::testing {

// SPILLWAY_TEST_SEED, or otherwise `otherwise`.
inline std::uint64_t TestSeed(std::uint64_t otherwise) {
  const char* told = std::getenv("SPILLWAY_TEST_SEED");
  return told == nullptr ? otherwise : std::strtoull(told, nullptr, 10);
}

}  // namespace spillway::testing
