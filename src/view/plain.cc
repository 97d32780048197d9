#include "view/plain.h"

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "view/words.h"

namespace spillway::view {

namespace {
constexpr std::size_t kKeyMost = 40;
}

std::string PlainLine(Duration at, const std::string& text) {
  return fmt::format("{:>7}  {}", Seconds(at), text);
}

std::string StatusLine(const Snapshot& s) {
  const std::uint64_t asked = s.stats.hits + s.stats.misses;
  return PlainLine(
      s.at,
      fmt::format("{:<9} pressure {}  ours {:>8}  others {:>8}  free {:>8}  {} entries  hits {}",
                  Upper(Name(s.mode)), PressureText(s.pressure), FormatBytes(s.memory.ours()),
                  FormatBytes(s.memory.others), FormatBytes(s.memory.free),
                  Grouped(s.stats.entries), ShareText(s.stats.hits, asked)));
}

std::string TierLine(Duration at, const TierRow& row) {
  if (!row.note.empty()) {
    return PlainLine(at,
                     fmt::format("{:<12} {}", Printable(row.name, 24), Printable(row.note, 120)));
  }
  return PlainLine(at, fmt::format("{:<12} {:<9} pressure {}  {} of {}", Printable(row.name, 24),
                                   Upper(Name(row.level)), PressureText(row.pressure),
                                   FormatBytes(row.held), FormatBytes(row.capacity)));
}

std::string LevelLine(Duration at, Level before, Level now, std::optional<double> pressure) {
  return PlainLine(at, fmt::format("level {} -> {} at pressure {}", Upper(Name(before)),
                                   Upper(Name(now)), PressureText(pressure)));
}

std::string EventLine(const EventGroup& group) {
  std::string text = fmt::format("{} {} {} ({}): {}, at {}; {}", Done(group.action),
                                 Grouped(group.count), group.count == 1 ? "entry" : "entries",
                                 FormatBytes(group.bytes), Name(group.reason),
                                 Upper(Name(group.level)), Printable(group.first_key, kKeyMost));
  if (group.count > 1) text += " .. " + Printable(group.last_key, kKeyMost);
  return PlainLine(group.to, text);
}

}  // namespace spillway::view
