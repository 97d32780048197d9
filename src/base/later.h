// Time that does not wrap around: "for ever" is a time, too.
#pragma once

#include "spillway/units.h"

namespace spillway {

constexpr TimePoint Later(TimePoint now, Duration by) {
  return by > TimePoint::max() - now ? TimePoint::max() : now + by;
}

}  // namespace spillway
