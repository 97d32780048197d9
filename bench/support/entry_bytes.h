// The bytes part: what an entry costs in host memory beside its value.
#pragma once

#include "bench/support/report.h"

namespace spillway::bench {

void MeasureEntryBytes(const Settings& settings, Report* report);

}  // namespace spillway::bench
