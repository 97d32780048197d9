// SPDX-License-Identifier: Apache-2.0
// A pressure that a user states as a share. It is converted to a part of 1 TiB:
// readings are in bytes, and 1 TiB keeps twelve digits of any share.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr Bytes kGivenTotal = kGiB << 10;

// Parses a number from 0 to 1 and nothing else, such as "0.93".
inline std::optional<double> ParseShare(std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(share >= 0 && share <= 1)) return std::nullopt;  // Also excludes NaN.
  return share;
}

inline Reading GivenReading(double share) {
  Reading reading;
  reading.total = kGivenTotal;
  reading.free = kGivenTotal - static_cast<Bytes>(std::llround(share * double{kGivenTotal}));
  reading.scope = Scope::kGiven;
  return reading;
}

}  // namespace spillway
