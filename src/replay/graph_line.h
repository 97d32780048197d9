// SPDX-License-Identifier: Apache-2.0
// The step-graph lines of a scenario: {"op":"graph","do":...} and {"op":"steps"}.
// docs/reference/scenario.md defines the format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/step_graph.h"

namespace spillway {

// One parsed {"op":"graph"} line.
struct GraphLine {
  std::string what;  // begin, step, edge, bind, start, finish, skip, fail, loop, end
  std::string run;
  std::string client;
  StepSpec step{};
  EdgeSpec edge{};
  std::string agent;
  std::string key;
  KeyKind kind = KeyKind::kFixed;
  std::string id;
  std::optional<std::vector<std::string>> taken;
  OnFail on_fail = OnFail::kSkip;
};

// Parses a whole line whose op is "graph". A malformed line is an error; a line that the graph
// refuses is not: Tell returns that.
Result<GraphLine> ParseGraphLine(std::string_view text);

// Gives the line to the graph as input.
Status Tell(StepGraph* graph, const GraphLine& line, TimePoint now);

}  // namespace spillway
