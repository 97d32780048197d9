// SPDX-License-Identifier: Apache-2.0
// The state of one card at one moment, for display: render.h draws it, plain.h prints it. `spillway
// top` fills it from a daemon's answers. Unknown parts are empty and not drawn.
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

// How the card's memory is used.
struct MemoryView {
  Bytes total = 0;
  Bytes free = 0;
  Bytes ours_clean = 0;  // Chunks that hold only clean bytes (a lower tier has a verified copy).
  Bytes ours_dirty = 0;
  Bytes others = 0;

  Bytes ours() const { return ours_clean + ours_dirty; }
};

// A tier below the device, or anything else with a size and a fill level.
struct TierRow {
  std::string name;
  Bytes held = 0;
  Bytes capacity = 0;  // 0: no limit.
  std::optional<std::uint64_t> entries;
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Level level = Level::kRelaxed;
  std::string note;
};

// Rates per second.
struct Flows {
  double down = 0;  // Bytes; likewise `up`.
  double up = 0;
  double dropped = 0;  // Entries, like all below.
  double demoted = 0;
  double expired = 0;
  double lost = 0;    // Last copies destroyed though nothing erased them.
  double erased = 0;  // By clients: erased, replaced or cleared.
  double gets = 0;
  double sets = 0;
};

// How long reads took in the last while.
struct ReadView {
  Duration p50{};  // At most; likewise `p99`.
  Duration p99{};
};

// A process that holds memory of the card.
struct ProcessRow {
  std::uint64_t pid = 0;
  std::string name;  // Empty: unknown.
  Bytes bytes = 0;
};

// One entry of the table of contexts.
struct ContextRow {
  std::string key;  // Arbitrary bytes.
  std::string agent;
  Tokens tokens = 0;
  Bytes bytes = 0;
  std::string tier;
  bool clean = false;
  Duration idle{};
  std::uint64_t uses = 0;
  std::uint64_t leases = 0;
};

// A page of the contexts, sorted and filtered.
struct ContextsView {
  std::vector<ContextRow> rows;
  std::size_t offset = 0;    // Index of the first row among the matching ones.
  std::size_t matching = 0;  // How many match the filter.
  std::size_t total = 0;
  std::string sort;
  bool desc = false;
  std::string search;
  std::size_t chosen = 0;  // Index in `rows`.
};

// Everything one screen shows.
struct Snapshot {
  std::string title;   // "spillway top"
  std::string where;   // Address of the daemon, unless it is obvious: "127.0.0.1:7380"
  std::string banner;  // A problem with the data shown. Empty: none.
  bool daemon = true;  // False: there is no daemon, and only `tiers` are known.
  Duration at{};       // Since the begin of the session.
  Mode mode = Mode::kRelaxed;
  Level level = Level::kRelaxed;
  Duration level_for{};
  bool blocked = false;
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Thresholds thresholds;
  MemoryView memory;
  Stats stats;
  std::vector<EventGroup> events;  // Newest last.
  bool losses_only = false;        // Of `events`.
  std::vector<std::string> notes;  // One line each, the most important first.
  std::vector<TierRow> tiers;      // Below the device.
  std::optional<Flows> flows;
  std::optional<ReadView> reads;
  std::string machine;                // Name of the daemon's machine.
  Duration up{};                      // For how long the daemon has run; zero: unknown.
  std::vector<ProcessRow> processes;  // Others on the card, the largest first.
  std::optional<ContextsView> contexts;
  std::string page_title;         // Title of a page shown in place of contexts and events,
  std::vector<std::string> page;  // if this is not empty.
  std::string keys;               // The last line: the available keys.
};

// Fills in the card and the tiers below it from a daemon's statistics.
void Show(const Stats& stats, Snapshot* snapshot);

}  // namespace spillway::view
