// SPDX-License-Identifier: Apache-2.0
// A whole run as a JSON document. docs/reference/step-graph.md defines the format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/step_graph_types.h"

namespace spillway {

// A parsed document, for StepGraph::Load. It refers to no graph yet.
struct GraphDocument {
  struct Binding {
    std::string agent;
    std::string key;
    KeyKind kind = KeyKind::kFixed;
    std::string parent;
  };
  std::string run;
  RunSpec spec;
  std::vector<StepSpec> steps;
  std::vector<EdgeSpec> edges;
  std::vector<Binding> bindings;
};

// Parses a document. Any mistake that can be found without a graph is an error here. It names the
// place ("edges[3].prob") and what would be right.
Result<GraphDocument> ParseGraphDocument(std::string_view json);

}  // namespace spillway
