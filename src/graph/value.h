// SPDX-License-Identifier: Apache-2.0
// The prediction for one visit of one step: how many steps away, how soon, how likely.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "spillway/units.h"

namespace spillway {

// kNever: distances and times of steps that never run. Finite times are at most kFarNs, so that
// adding a million steps cannot overflow.
inline constexpr std::int32_t kNeverSteps = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kNeverNs = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kFarNs = 100'000'000'000'000'000;  // Three years.

// The prediction itself. Times are relative to RunGraph::as_of.
struct Value {
  std::int32_t steps = kNeverSteps;  // -1: done.
  bool skipped = false;              // Its branch was not taken.
  std::int64_t start = kNeverNs;     // In ns from now.
  std::int64_t finish = kNeverNs;
  double p = 0;
  double conf = 1;

  bool comes() const { return steps != kNeverSteps; }
  friend bool operator==(const Value&, const Value&) = default;

  static Value Never() { return {}; }
  static Value Skipped() { return {.skipped = true}; }
};

// start + ns, without overflow.
inline std::int64_t SaturatingAdd(std::int64_t start, std::int64_t ns) {
  return start == kNeverNs ? kNeverNs : std::min(start + ns, kFarNs);
}

}  // namespace spillway
