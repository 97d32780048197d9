// SPDX-License-Identifier: Apache-2.0
// What the cache did and why. Every removal of a copy from a tier is reported by exactly one event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway {

// What the cache reports to Options::on_event. The listener runs on the engine's strand, so it must
// return quickly and must not call the cache. The string views are valid only during the call.
struct Event {
  TimePoint at;
  std::string_view key;
  std::uint64_t generation = 0;
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Level level = Level::kRelaxed;  // At the time of the event.
  std::string_view policy;        // The policy in use ("documented").
  // The eviction order the entry was chosen by ("lru", "heavy"). Empty: no order was used.
  std::string_view order;
  std::string_view tier;  // The tier the entry was in ("device").
  Bytes bytes = 0;
  Tokens tokens = 0;
};

// A change of level, reported to Options::on_level. The rules for Event listeners apply.
struct LevelChange {
  TimePoint at;
  Level from = Level::kRelaxed;
  Level to = Level::kRelaxed;
  // The pressure that caused the change: a sample, or a sample corrected by later evictions.
  double pressure = 0;
  std::string_view tier;  // The tier whose level changed ("device").
};

// One entry that was evicted, with its own copy of the key: what Apply and Reclaim return.
struct Eviction {
  std::string key;
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Bytes bytes = 0;
  Tokens tokens = 0;
};

}  // namespace spillway
