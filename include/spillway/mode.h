// Levels, modes, actions and reasons: the words in which Spillway says what it
// makes of pressure and why something moved.
#pragma once

#include <cstdint>
#include <string_view>

#include "spillway/export.h"

namespace spillway {

// What a governor makes of pressure, from calm to flood.
enum class Level : std::uint8_t { kRelaxed, kNormal, kPressure, kCritical, kEmergency };
inline constexpr int kLevels = 5;

// What a user is told: the level, or kWorkflowAware while a step graph is
// attached and the level is kNormal or kPressure.
enum class Mode : std::uint8_t {
  kRelaxed,
  kNormal,
  kPressure,
  kCritical,
  kEmergency,
  kWorkflowAware
};

// What happens to an entry's copy.
//   back     copied down and verified; it stays here, and counts as available
//   drop     a backed copy leaves this tier
//   demote   copied down, then left this tier (preset seed: marked, stays readable)
//   destroy  the last copy is gone
//   expire   its time was over; gone from this tier
enum class Action : std::uint8_t { kBack, kDrop, kDemote, kDestroy, kExpire };
inline constexpr int kActions = 5;

// Why. Every removal names exactly one.
enum class Reason : std::uint8_t {
  kExpired,
  kIdle,
  kHeavy,
  kOrder,
  kRoom,
  kBudget,
  kReserve,
  kAsk,
  kErased,
  kReplaced,
  kCleared,
  kCorrupt,
  kLost
};
inline constexpr int kReasons = 13;

// Lower-case names, as they stand in logs, metrics and scenarios.
SPILLWAY_API std::string_view Name(Level level);
SPILLWAY_API std::string_view Name(Mode mode);
SPILLWAY_API std::string_view Name(Action action);
SPILLWAY_API std::string_view Name(Reason reason);

inline constexpr Mode ModeOf(Level level) { return static_cast<Mode>(level); }

}  // namespace spillway
