// One moment of one card, as a person watches it: what render.h draws and
// plain.h writes. Filled from what a daemon says of itself, by the demo and by
// `spillway top`; what is not known is left out, and not drawn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/stats.h"
#include "spillway/units.h"
#include "view/event_log.h"

namespace spillway::view {

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
  std::string found;  // Of its context when its last turn began: "67 %", "12|292".
};

// Another process on the card.
struct NeighbourRow {
  int pid = 0;
  std::string what;  // "holds 120 MiB, had it after 3 ms"
};

// A tier below the device, or whatever else has a size and is filled.
struct TierRow {
  std::string name;
  Bytes held = 0;
  Bytes capacity = 0;  // 0: no bound is set.
  std::optional<std::uint64_t> entries;
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Level level = Level::kRelaxed;
  std::string note;
};

// What goes on, each second.
struct Flows {
  double down = 0;  // Bytes.
  double up = 0;
  double dropped = 0;  // Entries.
  double demoted = 0;
  double expired = 0;
  double destroyed = 0;
  double gets = 0;
  double sets = 0;
};

struct ContextRow {
  std::string key;  // As it is: any bytes.
  std::string agent;
  Tokens tokens = 0;
  Bytes bytes = 0;
  std::string tier;
  bool backed = false;
  Duration idle{};
  std::uint64_t uses = 0;
  std::uint64_t leases = 0;
};

// Some of the contexts, in an order.
struct ContextsView {
  std::vector<ContextRow> rows;
  std::size_t offset = 0;    // Of the first row among those that match.
  std::size_t matching = 0;  // The filter.
  std::size_t total = 0;
  std::string sort;
  bool desc = false;
  std::string search;
  std::size_t chosen = 0;  // Of the rows.
};

struct Snapshot {
  std::string title;    // "spillwayd --demo"
  std::string where;    // Which daemon it is, if that is not plain: "127.0.0.1:7380"
  std::string banner;   // What is wrong with what is shown; empty: nothing.
  bool daemon = true;   // False: there is none, and only `tiers` are known.
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
  bool neighbours_known = true;    // Who else is on the card.
  std::vector<std::string> notes;  // A line each, most important first.
  std::vector<TierRow> tiers;      // Below the device.
  std::optional<Flows> flows;
  std::optional<ContextsView> contexts;
  std::string page_title;         // Of a page that is shown instead of contexts and events,
  std::vector<std::string> page;  // if this has lines.
  std::string keys;               // The last line: what can be typed.
};

// What a daemon's figures say of the card and the tiers below it.
void Show(const Stats& stats, Snapshot* snapshot);

}  // namespace spillway::view
