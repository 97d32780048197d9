// What the cache did and why. Every removal appears exactly once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway {

// Seen by a listener (Options::on_event) on the engine's strand: be quick, do
// not call the cache from it. The views die with the call.
struct Event {
  TimePoint at;
  std::string_view key;
  std::uint64_t generation = 0;
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Level level = Level::kRelaxed;  // The level at that moment.
  std::string_view policy;        // The policy in force ("documented").
  std::string_view order;  // The order it ranked by ("lru", "heavy"); empty if none was asked.
  std::string_view tier;   // Where it left ("device").
  Bytes bytes = 0;
  Tokens tokens = 0;
};

// A change of level (Options::on_level), heard under the same rules.
struct LevelChange {
  TimePoint at;
  Level from = Level::kRelaxed;
  Level to = Level::kRelaxed;
  double pressure = 0;    // That of the sample, or of what has left since.
  std::string_view tier;  // Whose ("device").
};

// A departure, kept: what Apply and Reclaim return.
struct Departure {
  std::string key;
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Bytes bytes = 0;
  Tokens tokens = 0;
};

}  // namespace spillway
