// The plan part: how long one reclaim plan over many entries takes, and what a
// reader feels meanwhile.
#pragma once

#include "bench/support/report.h"

namespace spillway::bench {

void MeasurePlans(const Settings& settings, Report* report);

}  // namespace spillway::bench
