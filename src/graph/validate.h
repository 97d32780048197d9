// SPDX-License-Identifier: Apache-2.0
// Finds likely mistakes in a run: things that are allowed but probably not intended.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/run_graph.h"
#include "spillway/step_graph_types.h"

namespace spillway {

// Requires a settled run. `names` are by StepIndex.
std::vector<Finding> ValidateRun(const RunGraph& graph, std::span<const std::string* const> names);

}  // namespace spillway
