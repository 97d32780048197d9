// SPDX-License-Identifier: Apache-2.0
#include "view/words.h"

#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "base/times.h"

namespace spillway::view {

std::string Upper(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string Grouped(std::uint64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string Seconds(Duration time) { return fmt::format("{:.1f} s", InSeconds(time)); }

std::string MinutesAndSeconds(Duration time) {
  const auto seconds = static_cast<std::int64_t>(InSeconds(time));
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

std::string PressureText(std::optional<double> pressure) {
  // Truncated, not rounded: EMERGENCY begins at 0.96, and 0.957 is below that.
  return pressure ? fmt::format("{:.2f}", std::floor(*pressure * 100) / 100) : "unknown";
}

std::string ShareText(std::uint64_t part, std::uint64_t all) {
  if (all == 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

bool ByClients(Reason reason) {
  return reason == Reason::kErased || reason == Reason::kReplaced || reason == Reason::kCleared;
}

std::string_view Done(Action action, Reason reason) {
  if (ByClients(reason) && action != Action::kBack) return Name(reason);
  switch (action) {
    case Action::kBack:
      return "copied";
    case Action::kDrop:
      return "dropped";
    case Action::kDemote:
      return "demoted";
    case Action::kDestroy:
      return "destroyed";
    case Action::kExpire:
      return "expired";
  }
  return "";
}

}  // namespace spillway::view
