// SPDX-License-Identifier: Apache-2.0
// A cache's statistics as metrics. Labels never contain keys, agents or other text from clients, so
// the number of series is bounded.
#pragma once

#include "http/exposition.h"
#include "spillway/stats.h"

namespace spillway::http {

void AddCacheMetrics(const Stats& stats, Exposition* to);

}  // namespace spillway::http
