// Ages in bins that grow with age, four to an octave: what happens after ten
// seconds and what happens after an hour are told apart equally well.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace spillway {

inline constexpr std::size_t kAgeBins = 84;  // The last begins after 5 days and has no end.
inline constexpr double kFirstAgeS = 0.25;   // Where the second bin begins.

inline std::size_t AgeBin(double age_s) {
  if (!(age_s >= kFirstAgeS)) return 0;
  const double octaves = std::log2(age_s / kFirstAgeS);
  if (octaves * 4 >= static_cast<double>(kAgeBins - 2)) return kAgeBins - 1;
  return 1 + static_cast<std::size_t>(octaves * 4);
}

// Where each bin begins, in seconds; the one past the last as if it had an end.
inline const std::array<double, kAgeBins + 1>& AgeEdges() {
  static const std::array<double, kAgeBins + 1> kEdges = [] {
    std::array<double, kAgeBins + 1> made{};
    for (std::size_t i = 1; i < made.size(); ++i) {
      made[i] = kFirstAgeS * std::exp2(static_cast<double>(i - 1) / 4);
    }
    return made;
  }();
  return kEdges;
}

}  // namespace spillway
