// Time that does not wrap around: "for ever" is a time, too.
#pragma once

#include <chrono>

#include "spillway/units.h"

namespace spillway {

constexpr TimePoint Later(TimePoint now, Duration by) {
  return by > TimePoint::max() - now ? TimePoint::max() : now + by;
}

// No wait is longer: a year. Clocks add what they are told to wait to what they
// show, and must not wrap around either.
constexpr Duration BoundedWait(Duration wait) {
  constexpr Duration kYear = std::chrono::hours(24 * 365);
  return wait < kYear ? wait : kYear;
}

}  // namespace spillway
