// SPDX-License-Identifier: Apache-2.0
// Parses what a daemon reports: SPILL.STATS JSON, and the events of its HTTP API.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/mode.h"
#include "spillway/result.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway {

// A daemon's statistics.
struct Report {
  Stats stats;  // Fields missing in the report keep their defaults.
  Mode mode = Mode::kRelaxed;
  bool blocked = false;
  // What only HTTP tells.
  std::string machine;
  std::int64_t unix_ms = 0;
  std::int64_t started_unix_ms = 0;
  std::vector<double> read_bounds_s;
  std::vector<std::uint64_t> reads_within;  // One more than bounds, each its own bucket.
  struct Process {
    std::uint64_t pid = 0;
    std::string name;
    Bytes bytes = 0;
    bool own = false;  // The daemon itself.
  };
  std::vector<Process> processes;
};
Result<Report> ReadReport(std::string_view json);

// One event: an eviction or removal, or a change of level.
struct News {
  std::uint64_t number = 0;
  std::int64_t unix_ms = 0;
  std::string tier;
  bool is_level = false;
  Level level = Level::kRelaxed;  // After a change of level; at the time of a removal.
  Level from = Level::kRelaxed;   // Before a change of level.
  double pressure = 0;
  std::string key;
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Bytes bytes = 0;
};
// A page of events.
struct AllNews {
  std::uint64_t latest = 0;
  std::uint64_t passed = 0;  // How many events were not reported.
  std::vector<News> news;
};
Result<AllNews> ReadNews(std::string_view json);

}  // namespace spillway
