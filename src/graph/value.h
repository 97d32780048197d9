// What the graph knows of one visit of one step: how far, how soon, how likely.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "spillway/units.h"

namespace spillway {

// Distances and times that never come. Times that do are at most kFar, so that
// adding up a million steps can't overflow.
inline constexpr std::int32_t kNeverSteps = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kNeverNs = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kFarNs = 100'000'000'000'000'000;  // Three years.

struct Value {
  std::int32_t steps = kNeverSteps;  // -1: done.
  bool skipped = false;              // Its branch was not taken.
  std::int64_t start = kNeverNs;     // From now on, in ns.
  std::int64_t finish = kNeverNs;
  double p = 0;
  double conf = 1;

  bool comes() const { return steps != kNeverSteps; }
  friend bool operator==(const Value&, const Value&) = default;

  static Value Never() { return {}; }
  static Value Skipped() { return {.skipped = true}; }
};

inline std::int64_t Later(std::int64_t start, std::int64_t ns) {
  return start == kNeverNs ? kNeverNs : std::min(start + ns, kFarNs);
}

}  // namespace spillway
