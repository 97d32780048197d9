// A cache's stats as metrics. No key, agent or other word of a client's stands in
// a label: what is counted is bounded.
#pragma once

#include "http/exposition.h"
#include "spillway/stats.h"

namespace spillway::http {

void AddCacheMetrics(const Stats& stats, Exposition* to);

}  // namespace spillway::http
