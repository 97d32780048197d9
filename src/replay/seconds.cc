// SPDX-License-Identifier: Apache-2.0
#include "replay/seconds.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace spillway {
namespace {

constexpr int kNanoDigits = 9;
// With a larger exponent the value is too large, or 0, for any digits.
constexpr int kExponentMax = 1'000'000;

int ParseExponent(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error == std::errc::result_out_of_range) exponent = kExponentMax;
  if (error == std::errc::result_out_of_range && text.starts_with('-')) exponent = -kExponentMax;
  return std::clamp(exponent, -kExponentMax, kExponentMax);
}

}  // namespace

std::optional<Duration> ParseSeconds(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);

  // The value is `digits` times 10^scale nanoseconds.
  std::int64_t scale = kNanoDigits;
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    scale += ParseExponent(text.substr(e + 1));
    text = text.substr(0, e);
  }
  std::string digits;
  if (const std::size_t point = text.find('.'); point != std::string_view::npos) {
    scale -= static_cast<std::int64_t>(text.size() - point - 1);
    digits = text.substr(0, point);
    digits += text.substr(point + 1);
  } else {
    digits = text;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return Duration::zero();

  bool round_up = false;
  if (scale >= 0) {
    if (scale > 19) return std::nullopt;
    digits.append(static_cast<std::size_t>(scale), '0');
  } else {
    const auto cut = static_cast<std::size_t>(-scale);
    if (cut > digits.size()) return Duration::zero();
    const std::size_t kept = digits.size() - cut;
    round_up = digits[kept] >= '5';
    digits.resize(kept);
  }
  Duration::rep count = 0;
  if (!digits.empty()) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (error != std::errc()) return std::nullopt;
  }
  if (round_up && count == Duration::max().count()) return std::nullopt;
  const Duration duration(count + (round_up ? 1 : 0));
  if (negative && duration != Duration::zero()) return std::nullopt;
  return duration;
}

}  // namespace spillway
