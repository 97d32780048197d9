// SPDX-License-Identifier: Apache-2.0
// Builds a random graph and makes random calls; after each call the real graph must answer like the
// naive one.
#pragma once

#include <cstdint>
#include <string>

namespace spillway::testing {

struct RandomCheck {
  std::string wrong;  // Empty: they always agreed.
  std::uint64_t comparisons = 0;
};

RandomCheck CheckRandomGraph(std::uint64_t seed);

}  // namespace spillway::testing
