// A pressure that somebody states, as a share. It is told as a part of 1 TiB:
// readings are bytes, and in those any share has twelve digits to itself.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr Bytes kGivenTotal = kGiB << 10;

// "0.93": a number from 0 to 1 and nothing else.
inline std::optional<double> ParseShare(std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(share >= 0 && share <= 1)) return std::nullopt;  // Also what is not a number.
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
