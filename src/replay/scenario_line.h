// SPDX-License-Identifier: Apache-2.0
// One line of a scenario: a JSON object with a time and an operation. docs/reference/scenario.md
// defines the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "replay/graph_line.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// A parsed line. Only the fields of its op are set.
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

  std::string_view name;  // The op as written. A static string.
  Op op = Op::kTick;
  std::optional<Duration> at;  // Empty: no time passes.

  std::string key;                 // set, get, delete
  Tokens tokens = 0;               // set
  std::optional<Bytes> bytes;      // set; empty: derived from the tokens
  std::string agent;               // set
  std::string parent;              // set
  std::optional<double> pressure;  // pressure; empty: unknown
  std::string run;                 // steps
  GraphLine graph{};               // graph
};

// Parses a line. All mistakes that can be found without the cache's state are errors here; the
// message says what would be valid.
Result<ScenarioLine> ParseScenarioLine(std::string_view text);

}  // namespace spillway
