// Levels that tell classes of those who wait apart. Wide where there is little
// to tell.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spillway {

inline std::uint32_t UseLevel(std::uint32_t uses) {
  if (uses <= 3) return uses;
  return uses <= 5 ? 4 : uses <= 10 ? 5 : 6;
}

// Turns of a conversation that are told apart; all later ones are alike.
inline constexpr std::uint32_t kTurnsTold = 3;

// 0 is left for: there was none.
inline std::uint32_t PauseLevel(double pause_s) {
  constexpr double kBounds[] = {8, 20, 60, 200};
  return 1 + static_cast<std::uint32_t>(std::ranges::upper_bound(kBounds, pause_s) - kBounds);
}

}  // namespace spillway
