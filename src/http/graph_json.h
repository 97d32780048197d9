// SPDX-License-Identifier: Apache-2.0
// The step graph for display: live runs with steps and edges, which steps run now and next, where
// their contexts are, and which contexts are being copied.
#pragma once

#include "http/api_json.h"
#include "spillway/cache.h"

namespace spillway::http {

Json GraphJson(const Cache& cache);

}  // namespace spillway::http
