// The step graph as somebody draws it: runs, their steps and edges, who runs, who is
// next, where their contexts are and which of these are on their way.
#pragma once

#include "http/api_json.h"
#include "spillway/cache.h"

namespace spillway::http {

Json GraphJson(const Cache& cache);

}  // namespace spillway::http
