// SPDX-License-Identifier: Apache-2.0
#include "view/plain.h"

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "view/words.h"

namespace spillway::view {

namespace {

std::string PlainLine(Duration at, const std::string& text) {
  return fmt::format("{:>7}  {}", Seconds(at), text);
}

}  // namespace

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

}  // namespace spillway::view
