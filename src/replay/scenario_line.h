// One line of a scenario: a JSON object that says when and what. The format is
// docs/reference/scenario.md's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "replay/graph_line.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

struct ScenarioLine {
  enum class Op : std::uint8_t {
    kSet,
    kGet,
    kDelete,
    kClear,
    kPressure,
    kTick,
    kOrder,
    kGraph,
    kSteps
  };

  std::string_view name;  // The op as it was written. Static.
  Op op = Op::kTick;
  std::optional<Duration> at;  // Empty: no time passes.

  std::string key;                 // set, get, delete
  Tokens tokens = 0;               // set
  std::optional<Bytes> bytes;      // set; empty: by the tokens
  std::string agent;               // set
  std::string parent;              // set
  std::optional<double> pressure;  // pressure; empty: unknown
  std::string run;                 // steps
  GraphLine graph{};               // graph
};

// Everything that can be wrong with a line on its own is an error here, and
// its message says what would be right.
Result<ScenarioLine> ParseScenarioLine(std::string_view text);

}  // namespace spillway
