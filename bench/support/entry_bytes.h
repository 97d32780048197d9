// SPDX-License-Identifier: Apache-2.0
// The bytes part: the host memory that an entry costs besides its value.
#pragma once

#include "bench/support/report.h"

namespace spillway::bench {

void MeasureEntryBytes(const Settings& settings, Report* report);

}  // namespace spillway::bench
