// Time as an argument. The real clock is monotonic: a step of the wall clock
// evicts nothing.
#pragma once

#include <memory>

#include "spillway/export.h"
#include "spillway/units.h"

namespace spillway {

class SPILLWAY_API Clock {
 public:
  virtual ~Clock();

  // Never falls. Callable from any thread.
  virtual TimePoint Now() const = 0;

  // Now, rounded down to the tick in which last-use stamps are kept. The real
  // clock's tick is 100 ms and costs a few nanoseconds; a clock moved by hand
  // is exact.
  virtual TimePoint Coarse() const { return Now(); }
};

// The machine's monotonic clock.
SPILLWAY_API std::shared_ptr<Clock> SystemClock();

}  // namespace spillway
