// SPDX-License-Identifier: Apache-2.0
// What has occurred together, counted over all worlds: at which level, which act or
// eviction for which reason, during which fault, with leases held or not.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/mode.h"

namespace spillway::sim {

enum class Act : std::uint8_t {
  kAdmitted,
  kRefused,
  kCommit,
  kCancelled,
  kHit,
  kMiss,
  kRelease,
  kErase,
  kClear,
  kMatch,
  kSample,
  kLook,
  kRelief,
  kReap,
  // Evictions and removals, by reason.
  kExpired,
  kIdle,
  kHeavy,
  kOrder,
  kRoom,
  kBudget,
  kReserve,
  kReplaced,
  kMarked,
  kCount
};
enum class Fault : std::uint8_t {
  kNone,
  kMemory,     // Chunks or blocks are refused.
  kFailed,     // Readings fail.
  kHung,       // No readings come.
  kLied,       // A reading made no sense, not long ago.
  kClock,      // The clock stepped, not long ago.
  kHurry,      // Operations with deadlines are in flight.
  kNeighbour,  // A neighbour took, gave or died, not long ago.
  kCrash,      // Our process died and came back, not long ago.
  kCount
};
inline constexpr std::size_t kActs = static_cast<std::size_t>(Act::kCount);
inline constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::kCount);

std::string_view Name(Act act);
std::string_view Name(Fault fault);

class Coverage {
 public:
  void Count(Level level, Act act, Fault fault, bool leased) {
    ++cells_[static_cast<std::size_t>(level)][static_cast<std::size_t>(act)]
            [static_cast<std::size_t>(fault)][leased ? 1 : 0];
  }
  void Add(const Coverage& other);

  // Why it can't occur; empty: it can.
  static std::string_view WhyImpossible(Level level, Act act, Fault fault, bool leased);
  // Tables of counts, and what did not occur though it could.
  std::string Print() const;
  // Cells that could occur and did not; all four together, or two at a time.
  std::uint64_t MissingCells() const;
  std::uint64_t MissingPairs() const;

  struct Pair {
    std::string_view a;
    std::string_view b;
    std::uint64_t count;
    bool possible;
  };

 private:
  template <typename Visit>
  void ForEachPair(Visit&& visit) const;

  std::uint64_t cells_[kLevels][kActs][kFaults][2] = {};
};

}  // namespace spillway::sim
