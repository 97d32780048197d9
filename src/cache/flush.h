// SPDX-License-Identifier: Apache-2.0
// Flushing before a cache is closed for good: writes entries that only memory holds to
// the disk tier, the most valuable first and parents before their children, within a
// time limit and into free space only. A disk tier that is busy is tried again until
// the time is over. Entries that were not written are counted by cause.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "spillway/cache.h"
#include "spillway/units.h"

namespace spillway {

class Core;

struct Flushed {
  struct Count {
    std::uint64_t entries = 0;
    Bytes bytes = 0;
  };

  std::uint64_t entries = 0;  // Written.
  Bytes bytes = 0;
  std::uint64_t entries_left = 0;  // Only memory holds them.
  Bytes bytes_left = 0;
  // Causes for some of those; for the rest the time was over, or `stop` returned true.
  Count no_room;           // The disk tier had no room for them.
  Count failed;            // The disk failed to write them,
  std::string why_failed;  // In its own words; also why the file system was full.
  // Why the disk tier took nothing when the time was over; empty: it was writing.
  std::string_view why_busy;
  bool is_stopped = false;  // FlushOptions::stop returned true.
};

struct FlushOptions {
  Duration within{};
  // Called about once in `report_every` with what has been written and what is left;
  // never on the strand.
  std::function<void(const Flushed&)> report = {};
  Duration report_every = std::chrono::seconds(1);
  // Ends the flush if it returns true. Called every millisecond or so.
  std::function<bool()> stop = {};
  // The clock that `within` is measured by, and how to wait between two steps; empty:
  // the machine's.
  std::function<TimePoint()> now = {};
  std::function<void(Duration)> wait = {};
};

// Returns when all is written or can't be, when the time is over, or when `stop`
// returns true. Does nothing without a disk tier. Other threads may use the cache
// meanwhile, but what they set then may be left.
Flushed FlushToDisk(Core* core, const FlushOptions& options);
Flushed FlushToDisk(Cache* cache, const FlushOptions& options);
Flushed FlushToDisk(Cache* cache, Duration within);

}  // namespace spillway
