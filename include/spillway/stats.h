// What a cache has done and holds, at one moment. Plain numbers; counters only
// ever rise while the cache is open.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway {

struct TierStats {
  std::string name;                // "device"
  Bytes capacity = 0;              // 0: none set (preset seed).
  Bytes bytes = 0;                 // Live entries, leased leftovers and reservations in flight.
  Bytes held = 0;                  // Physical memory taken from the device, slack included.
  Bytes total = 0;                 // Last reading; 0 before the first.
  Bytes free = 0;                  // Last reading.
  Bytes reserve = 0;               // Kept free for neighbours.
  std::optional<double> pressure;  // Empty: UNKNOWN.
  Level level = Level::kRelaxed;
  TimePoint level_since;
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
};

}  // namespace spillway
