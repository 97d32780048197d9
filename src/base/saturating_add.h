// SPDX-License-Identifier: Apache-2.0
// Arithmetic on times that does not overflow, since TimePoint::max() means "never".
#pragma once

#include <chrono>

#include "spillway/units.h"

namespace spillway {

constexpr TimePoint SaturatingAdd(TimePoint now, Duration by) {
  return by > TimePoint::max() - now ? TimePoint::max() : now + by;
}

// Limits a wait to a year. Clocks add the wait to the current time, which must
// not overflow, either.
constexpr Duration BoundedWait(Duration wait) {
  constexpr Duration kYear = std::chrono::hours(24 * 365);
  return wait < kYear ? wait : kYear;
}

}  // namespace spillway
