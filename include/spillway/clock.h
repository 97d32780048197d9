// SPDX-License-Identifier: Apache-2.0
// Time as an argument. The system clock is monotonic: setting the wall clock expires no entry.
#pragma once

#include <memory>

#include "spillway/export.h"
#include "spillway/units.h"

namespace spillway {

// Tells the time to a cache (Options::clock). Implementations must be safe to call from any thread.
class SPILLWAY_API Clock {
 public:
  virtual ~Clock();

  // The current time. Never decreases.
  virtual TimePoint Now() const = 0;

  // The current time, rounded down to a tick. Last-use stamps use this resolution. The system
  // clock's tick is 100 ms, and reading it costs a few nanoseconds; manual clocks are exact.
  virtual TimePoint Coarse() const { return Now(); }
};

// The machine's monotonic clock.
SPILLWAY_API std::shared_ptr<Clock> SystemClock();

}  // namespace spillway
