// Counters of a daemon, over all the lives it had: those of one that was killed
// are added to those of the next.
#pragma once

#include <cstdint>

#include "demo/metrics_page.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Totals {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t sets = 0;
  std::uint64_t dropped = 0;
  std::uint64_t destroyed = 0;  // No tier has it any more, though nobody erased it.
  Bytes ahead = 0;              // Brought up ahead of a step.

  Totals& operator+=(const Totals& other);
};

Totals TotalsOf(const Stats& stats);
// The same from its /metrics.
Totals TotalsOf(const MetricsPage& page);

}  // namespace spillway::demo
