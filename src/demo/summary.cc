#include "demo/summary.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/parse.h"
#include "demo/words.h"

namespace spillway::demo {

namespace {

std::string Row(std::string_view name, const std::string& text) {
  return fmt::format("  {:<11} {}", name, text);
}

std::string Joined(const std::vector<std::string>& parts, std::string_view none) {
  return parts.empty() ? std::string(none) : fmt::format("{}", fmt::join(parts, ", "));
}

std::string LevelsText(const LevelLog& levels) {
  std::vector<std::string> parts;
  for (int i = 0; i < kLevels; ++i) {
    const auto level = static_cast<Level>(i);
    if (levels.time_in(level) == Duration::zero()) continue;
    parts.push_back(fmt::format("{} {}", Upper(Name(level)), Seconds(levels.time_in(level))));
  }
  return fmt::format("{}; {} changes", Joined(parts, "none"), levels.changes());
}

std::string ReasonsText(const Stats& stats) {
  std::vector<std::string> parts;
  for (int i = 0; i < kReasons; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (stats.left_by_reason.at(at) == 0) continue;
    parts.push_back(fmt::format("{} {} ({})", Name(static_cast<Reason>(i)),
                                Grouped(stats.left_by_reason.at(at)),
                                FormatBytes(stats.left_bytes_by_reason.at(at))));
  }
  return Joined(parts, "nothing");
}

void AddTakes(const std::vector<Neighbour>& neighbours, std::vector<std::string>* lines) {
  constexpr std::size_t kShown = 6;
  lines->push_back(
      Row("neighbours",
          fmt::format("{} processes of their own had memory of the card, every page touched",
                      neighbours.size())));
  Duration longest{};
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    const Neighbour& n = neighbours[i];
    longest = std::max(longest, n.waited.value_or(Duration::zero()));
    if (i >= kShown) continue;
    lines->push_back(
        Row("", fmt::format("{:>9} {} (pid {})", FormatBytes(n.bytes),
                            n.waited ? "after " + FormatDuration(*n.waited) : "never", n.pid)));
  }
  if (neighbours.size() > kShown) {
    lines->push_back(Row("", fmt::format("and {} more; the longest wait was {}",
                                         neighbours.size() - kShown, FormatDuration(longest))));
  }
}

std::string PrefillText(const Outcome& o) {
  const auto time = [&](Tokens tokens) { return FormatDuration(tokens * o.prefill_per_token); };
  return fmt::format("{} saved, {} spent again (declared: {} a token; no model runs)",
                     time(o.counts.tokens_found), time(o.counts.tokens_recomputed),
                     FormatDuration(o.prefill_per_token));
}

// Only what the policy took: an agent's own replacing is no loss.
void AddDestroyed(const std::vector<EventTally>& left, std::vector<std::string>* lines) {
  std::string_view name = "destroyed";
  for (const EventTally& t : left) {
    if (t.action != Action::kDestroy && t.action != Action::kExpire) continue;
    lines->push_back(Row(name, fmt::format("{:>9} {} at {} ({})", Grouped(t.count), Name(t.reason),
                                           Upper(Name(t.level)), FormatBytes(t.bytes))));
    name = "";
  }
  if (!name.empty()) lines->push_back(Row(name, "nothing"));
}

}  // namespace

std::vector<std::string> Summary(const Outcome& o) {
  const AgentCounts& c = o.counts;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("summary: {} on card {}, {} of this machine's memory",
                              Seconds(o.length), o.card, FormatBytes(o.card_bytes)));
  lines.push_back(Row("agents", fmt::format("{} agents, {} rounds, {} turns", o.agents,
                                            Grouped(o.rounds), Grouped(c.turns))));
  lines.push_back(
      Row("contexts", fmt::format("{} blocks set, {} refused (those turns went on without)",
                                  Grouped(o.stats.sets), Grouped(c.sets_refused))));
  lines.push_back(
      Row("found", fmt::format("{} of {} blocks read ({})", Grouped(c.blocks_found),
                               Grouped(c.blocks_found + c.blocks_missed),
                               ShareText(c.blocks_found, c.blocks_found + c.blocks_missed))));
  lines.push_back(Row("prefill", PrefillText(o)));
  lines.push_back(Row("levels", LevelsText(o.levels)));
  AddTakes(o.neighbours, &lines);
  lines.push_back(Row("left", ReasonsText(o.stats)));
  AddDestroyed(o.left, &lines);
  lines.push_back(Row("", "(one tier, so leaving is destruction; nothing below to move to yet)"));
  lines.push_back(
      Row("checked", fmt::format("{} read back byte by byte, {} wrong bytes",
                                 FormatBytes(c.bytes_checked), Grouped(c.wrong_bytes))));
  return lines;
}

}  // namespace spillway::demo
