// SPDX-License-Identifier: Apache-2.0
// The plan part: how long one reclaim plan over many entries takes, and how it affects a concurrent
// reader.
#pragma once

#include "bench/support/report.h"

namespace spillway::bench {

void MeasurePlans(const Settings& settings, Report* report);

}  // namespace spillway::bench
