// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace spillway {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t scale;
};

constexpr std::array<Unit, 9> kByteUnits{{{"B", 1},
                                          {"KiB", kKiB},
                                          {"MiB", kMiB},
                                          {"GiB", kGiB},
                                          {"TiB", kGiB << 10},
                                          {"kB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000}}};
constexpr std::size_t kBinaryByteUnits = 5;

constexpr std::array<Unit, 7> kTimeUnits{{{"ns", 1},
                                          {"us", 1'000},
                                          {"ms", 1'000'000},
                                          {"s", 1'000'000'000},
                                          {"min", 60'000'000'000},
                                          {"h", 3'600'000'000'000},
                                          {"d", 86'400'000'000'000}}};

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A decimal number split at its point, so that "1.5" loses no precision.
struct Decimal {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;        // Of `fraction_scale`.
  std::uint64_t fraction_scale = 1;  // At most 10^6: more digits are ignored.
};

// Parses the number at the front of `text` and removes it.
std::optional<Decimal> TakeDecimal(std::string_view& text) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kFractionScaleMax = 1'000'000;
  Decimal number;
  std::size_t i = 0;
  for (; i < text.size() && IsDigit(text[i]); ++i) {
    const auto digit = static_cast<std::uint64_t>(text[i] - '0');
    if (number.whole > (kMax - digit) / 10) return std::nullopt;
    number.whole = number.whole * 10 + digit;
  }
  if (i == 0) return std::nullopt;
  if (i + 1 < text.size() && text[i] == '.' && IsDigit(text[i + 1])) {
    for (++i; i < text.size() && IsDigit(text[i]); ++i) {
      if (number.fraction_scale == kFractionScaleMax) continue;
      number.fraction = number.fraction * 10 + static_cast<std::uint64_t>(text[i] - '0');
      number.fraction_scale *= 10;
    }
  }
  text.remove_prefix(i);
  return number;
}

// Returns number * scale, rounded down; empty if it exceeds `max`.
std::optional<std::uint64_t> Scaled(const Decimal& number, std::uint64_t scale, std::uint64_t max) {
  if (number.whole > max / scale) return std::nullopt;
  const std::uint64_t whole = number.whole * scale;
  // Split, so that fraction * scale stays below 2^64: a day in nanoseconds
  // (8.6e13) times 10^6 would not.
  const std::uint64_t part =
      number.fraction * (scale / number.fraction_scale) +
      number.fraction * (scale % number.fraction_scale) / number.fraction_scale;
  if (part > max - whole) return std::nullopt;
  return whole + part;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string UnitNames(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) {
    if (!names.empty()) names += &unit == &units.back() ? " or " : ", ";
    names += unit.name;
  }
  return names;
}

Error Bad(std::string_view what, std::string_view text, std::string why) {
  return Error{Code::kInvalidArgument, fmt::format("\"{}\" is not a {}: {}", text, what, why)};
}

Result<std::uint64_t> Parse(std::string_view what, std::string_view text,
                            std::span<const Unit> units, std::string_view bare_unit,
                            std::string_view example, std::uint64_t max) {
  std::string_view rest = Trimmed(text);
  if (rest.empty()) return Bad(what, text, fmt::format("it is empty; write {}", example));
  if (!IsDigit(rest.front())) {
    return Bad(what, text, fmt::format("it must begin with a digit, as in {}", example));
  }
  const std::optional<Decimal> number = TakeDecimal(rest);
  if (!number) return Bad(what, text, "the number is too large");
  std::string_view name = Trimmed(rest);
  if (name.empty()) {
    if (bare_unit.empty() && (number->whole != 0 || number->fraction != 0)) {
      return Bad(what, text, fmt::format("it needs a unit, as in {}", example));
    }
    name = bare_unit.empty() ? units.front().name : bare_unit;
  }
  for (const Unit& unit : units) {
    if (!EqualIgnoringCase(name, unit.name)) continue;
    const std::optional<std::uint64_t> value = Scaled(*number, unit.scale, max);
    if (!value) return Bad(what, text, "it is too large");
    return *value;
  }
  return Bad(what, text, fmt::format("the unit \"{}\" is none of {}", name, UnitNames(units)));
}

// Up to three significant digits, but at least the whole part, without trailing
// zeros after the point.
std::string Short(double value) {
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string Format(std::uint64_t value, std::span<const Unit> ascending) {
  const Unit* unit = &ascending.front();
  for (const Unit& candidate : ascending) {
    if (value >= candidate.scale) unit = &candidate;
  }
  return fmt::format("{} {}", Short(static_cast<double>(value) / static_cast<double>(unit->scale)),
                     unit->name);
}

}  // namespace

Result<Bytes> ParseBytes(std::string_view text) {
  return Parse("size", text, kByteUnits, "B", "512MiB or 4GiB", std::numeric_limits<Bytes>::max());
}

Result<Duration> ParseDuration(std::string_view text) {
  const Result<std::uint64_t> nanoseconds =
      Parse("duration", text, kTimeUnits, "", "500ms, 20s or 2min",
            static_cast<std::uint64_t>(std::numeric_limits<Duration::rep>::max()));
  if (!nanoseconds) return nanoseconds.error();
  return Duration(static_cast<Duration::rep>(*nanoseconds));
}

std::string FormatBytes(Bytes bytes) {
  return Format(bytes, std::span(kByteUnits).first(kBinaryByteUnits));
}

std::string FormatDuration(Duration duration) {
  if (duration == Duration::zero()) return "0 s";
  const auto count = static_cast<std::uint64_t>(duration.count());
  if (duration < Duration::zero()) return "-" + Format(0 - count, kTimeUnits);
  return Format(count, kTimeUnits);
}

}  // namespace spillway
