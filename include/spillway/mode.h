// SPDX-License-Identifier: Apache-2.0
// Levels, modes, actions and reasons: the terms in which Spillway reports memory pressure, and in
// which every removal and copy of an entry is explained.
#pragma once

#include <cstdint>
#include <string_view>

#include "spillway/export.h"

namespace spillway {

// Pressure of one tier in five steps. A governor derives it from pressure readings.
enum class Level : std::uint8_t { kRelaxed, kNormal, kPressure, kCritical, kEmergency };
inline constexpr int kLevels = 5;

// The level as shown to users. kWorkflowAware replaces kNormal and kPressure while a run of a step
// graph is live.
enum class Mode : std::uint8_t {
  kRelaxed,
  kNormal,
  kPressure,
  kCritical,
  kEmergency,
  kWorkflowAware
};

// What is done to an entry's copy in a tier.
//   back     copied to a lower tier and verified; the copy here stays and is now clean
//   drop     a clean copy is removed from this tier; a lower tier keeps its copy
//   demote   copied to a lower tier, then removed here (preset seed: marked, stays readable)
//   destroy  the last copy is removed
//   expire   removed from this tier because its time to live is over
enum class Action : std::uint8_t { kBack, kDrop, kDemote, kDestroy, kExpire };
inline constexpr int kActions = 5;

// Why it was done. Every removal has exactly one reason.
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

// Lower-case names, as used in logs, metrics and scenarios.
SPILLWAY_API std::string_view Name(Level level);
SPILLWAY_API std::string_view Name(Mode mode);
SPILLWAY_API std::string_view Name(Action action);
SPILLWAY_API std::string_view Name(Reason reason);

inline constexpr Mode ModeOf(Level level) { return static_cast<Mode>(level); }

}  // namespace spillway
