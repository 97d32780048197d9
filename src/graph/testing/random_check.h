// One random graph lives a random life, and after each thing that happens the
// real graph must answer as the naive one does.
#pragma once

#include <cstdint>
#include <string>

namespace spillway::testing {

struct RandomCheck {
  std::string wrong;  // Empty: they agreed, always.
  std::uint64_t comparisons = 0;
};

RandomCheck CheckRandomGraph(std::uint64_t seed);

}  // namespace spillway::testing
