// What a cache has done and holds, at one moment. Plain numbers; counters only
// ever rise while the cache is open.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "spillway/mode.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

struct TierStats {
  std::string name;                // "device"
  Bytes capacity = 0;              // 0: none set (preset seed).
  Bytes bytes = 0;                 // Live entries, leased leftovers and reservations in flight.
  Bytes held = 0;                  // Physical memory taken from the device, slack included.
  Bytes slack = 0;                 // Of that, what no entry uses.
  Bytes overhead = 0;              // Taken besides: contexts, registrations.
  Bytes others = 0;                // What everybody else holds, by the last reading.
  Bytes total = 0;                 // Last reading; 0 before the first.
  Bytes free = 0;                  // Last reading.
  Bytes reserve = 0;               // Kept free for neighbours.
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Level level = Level::kRelaxed;
  TimePoint level_since;
};

// Where pressure comes from, and how that goes.
struct SourceStats {
  std::string name;                // "card:demo", "nvml:0000:1b:00.0"
  std::optional<Reading> reading;  // The last good one.
  Duration age{};                  // Of that reading.
  bool watched = false;            // Between Start and Stop; the rest is 0 otherwise.
  bool hung = false;               // A call is out and late.
  std::uint64_t reads = 0;
  std::uint64_t failures = 0;
  std::uint64_t hangs = 0;
  Duration cost{};         // Of the last call.
  Duration wait{};         // Until the next.
  std::string last_error;  // Empty: the last reading was good.
};

struct Stats {
  std::uint64_t entries = 0;
  Tokens tokens = 0;
  std::uint64_t leases = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t sets = 0;
  std::uint64_t refused_blocked = 0;
  std::uint64_t refused_budget = 0;
  std::uint64_t refused_other = 0;  // Too large, bad argument, no memory.
  std::uint64_t level_changes = 0;
  std::uint64_t samples = 0;
  std::uint64_t samples_failed = 0;  // The alarm: readings that gave nothing.
  std::uint64_t reservations = 0;    // Sets admitted and not yet committed.
  Bytes index_bytes = 0;             // Slots, records, table and names in host memory.
  // Entries and bytes that left, by reason and by action.
  std::array<std::uint64_t, kReasons> left_by_reason{};
  std::array<Bytes, kReasons> left_bytes_by_reason{};
  std::array<std::uint64_t, kActions> left_by_action{};
  TierStats device;
  SourceStats source;
};

}  // namespace spillway
