// The step graph's lines of a scenario: {"op":"graph","do":...} and
// {"op":"steps"}. The format is docs/reference/scenario.md's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/step_graph.h"

namespace spillway {

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

// From the text of a whole line, whose op is "graph". What is wrong with the line
// itself is an error; what the graph does not like is its answer's.
Result<GraphLine> ParseGraphLine(std::string_view text);

Status Tell(StepGraph* graph, const GraphLine& line, TimePoint now);

}  // namespace spillway
