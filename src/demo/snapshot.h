// One moment of one card, as a person watches it: what render.h draws and
// plain.h writes. Filled from what a daemon says of itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "demo/event_log.h"
#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway::demo {

struct MemoryView {
  Bytes total = 0;
  Bytes free = 0;
  Bytes ours_backed = 0;  // Chunks with nothing but what has a verified copy below.
  Bytes ours_unbacked = 0;
  Bytes others = 0;

  Bytes ours() const { return ours_backed + ours_unbacked; }
};

struct AgentRow {
  std::string name;
  std::string state;
  Tokens tokens = 0;
  double cached = 0;  // Share of its context found when its last turn began.
};

// Another process on the card.
struct NeighbourRow {
  int pid = 0;
  std::string what;  // "holds 120 MiB, had it after 3 ms"
};

struct Snapshot {
  std::string title;    // "spillwayd --demo"
  std::string caption;  // One sentence on what is going on.
  std::string card;
  Duration at{};                   // Since the beginning.
  std::optional<Duration> length;  // Empty: no end is set.
  Mode mode = Mode::kRelaxed;
  Level level = Level::kRelaxed;
  Duration level_for{};
  bool blocked = false;
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Thresholds thresholds;
  MemoryView memory;
  Stats stats;
  std::vector<EventGroup> events;  // Newest last.
  std::string agents_title;
  std::vector<AgentRow> agents;
  std::vector<NeighbourRow> neighbours;
  std::vector<std::string> notes;  // A line each, most important first.
};

}  // namespace spillway::demo
