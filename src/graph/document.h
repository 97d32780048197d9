// A whole run as a JSON document. docs/reference/step-graph.md has the format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/step_graph_types.h"

namespace spillway {

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

// Everything that can be wrong with it on its own is an error here, which names
// the place ("edges[3].prob") and what would be right.
Result<GraphDocument> ParseGraphDocument(std::string_view json);

}  // namespace spillway
