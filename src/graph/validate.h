// What looks like a mistake in a run: allowed, and probably not meant.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/run_graph.h"
#include "spillway/step_graph_types.h"

namespace spillway {

// Of a settled run; `names` by step.
std::vector<Finding> ValidateRun(const RunGraph& graph, std::span<const std::string* const> names);

}  // namespace spillway
