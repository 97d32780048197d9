// SPDX-License-Identifier: Apache-2.0
// Bins for ages, four to an octave, so that the resolution is a constant share of the age: what
// happens after ten seconds and what happens after an hour are resolved equally well.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace spillway {

inline constexpr std::size_t kAgeBins = 84;  // The last bin begins at 5 days and has no end.
inline constexpr double kFirstAgeS = 0.25;   // Begin of the second bin.

// The bin of an age. The exponent of a double is the octave, its fraction gives the quarter: no
// logarithm is needed.
inline std::size_t AgeBin(double age_s) {
  if (!(age_s >= kFirstAgeS)) return 0;
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  constexpr std::uint64_t kOne = std::uint64_t{1023} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(age_s / kFirstAgeS);
  const auto octave = static_cast<std::size_t>((bits >> 52) - 1023);
  if (octave >= (kAgeBins - 2 + 3) / 4) return kAgeBins - 1;
  const auto part = std::bit_cast<double>((bits & kFraction) | kOne);
  const std::size_t quarter = (part >= 0x1.306fe0a31b715p0 ? 1U : 0U) +
                              (part >= 0x1.6a09e667f3bcdp0 ? 1U : 0U) +
                              (part >= 0x1.ae89f995ad3adp0 ? 1U : 0U);
  return std::min(1 + 4 * octave + quarter, kAgeBins - 1);
}

// The begin of each bin, in seconds, and one past the last as if that had an end.
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
