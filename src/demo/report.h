// What a daemon tells of itself, understood: SPILL.STATS JSON, and the events of
// its HTTP API. Text in, facts out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/mode.h"
#include "spillway/result.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Report {
  Stats stats;  // As far as it is told.
  Mode mode = Mode::kRelaxed;
  bool blocked = false;
  std::uint64_t clients = 0;
  std::int64_t others_rose_unix_us = 0;  // When others last began to take memory; 0: never.
};
Result<Report> ReadReport(std::string_view json);

// One event: a departure, or a change of level.
struct News {
  std::uint64_t number = 0;
  std::int64_t unix_ms = 0;
  std::string tier;
  bool is_level = false;
  Level level = Level::kRelaxed;  // After a change; at a departure.
  Level from = Level::kRelaxed;   // Before a change.
  double pressure = 0;
  std::string key;
  Action action = Action::kDestroy;
  Reason reason = Reason::kErased;
  Bytes bytes = 0;
};
struct AllNews {
  std::uint64_t latest = 0;
  std::uint64_t passed = 0;  // So many were not told.
  std::vector<News> news;
};
Result<AllNews> ReadNews(std::string_view json);

}  // namespace spillway::demo
