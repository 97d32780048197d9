// SPDX-License-Identifier: Apache-2.0
// Levels of use counts, turns and pauses, from which the classes of the score are made. Levels are
// wide where behaviour differs little.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spillway {

inline std::uint32_t UseLevel(std::uint32_t uses) {
  if (uses <= 3) return uses;
  return uses <= 5 ? 4 : uses <= 10 ? 5 : 6;
}

// Turns of a conversation that have a level of their own; all later turns share one.
inline constexpr std::uint32_t kTurnsTold = 3;

// Level 0 means that there was no pause.
inline std::uint32_t PauseLevel(double pause_s) {
  constexpr double kBounds[] = {8, 20, 60, 200};
  return 1 + static_cast<std::uint32_t>(std::ranges::upper_bound(kBounds, pause_s) - kBounds);
}

}  // namespace spillway
