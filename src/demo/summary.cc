#include "demo/summary.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/parse.h"
#include "demo/caption.h"
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

std::string ActionsText(const Stats& stats) {
  std::vector<std::string> parts;
  for (const Action action : {Action::kBack, Action::kDrop, Action::kDemote, Action::kExpire}) {
    parts.push_back(fmt::format(
        "{} {}", Grouped(stats.left_by_action.at(static_cast<std::size_t>(action))), Done(action)));
  }
  return Joined(parts, "nothing");
}

std::string ResumedText(const Outcome& o) {
  const AgentCounts& c = o.counts;
  const auto resumes = static_cast<std::int64_t>(c.resumes);
  if (resumes == 0) return "no turn found all of its context";
  return fmt::format("{} turns found all of their context: on average {} tokens in {}, measured",
                     Grouped(c.resumes),
                     Grouped(static_cast<std::uint64_t>(c.resumed_tokens / resumes)),
                     FormatDuration(c.resume_time / resumes));
}

void AddTrouble(const Outcome& o, std::vector<std::string>* lines) {
  if (o.counts.failures > 0) {
    lines->push_back(Row("trouble", fmt::format("{} turns were given up: the daemon did not answer",
                                                Grouped(o.counts.failures))));
  }
  if (o.graph_untold > 0) {
    lines->push_back(Row("trouble", fmt::format("{} words to the step graph were not taken",
                                                Grouped(o.graph_untold))));
  }
}

}  // namespace

std::vector<std::string> Summary(const Outcome& o) {
  const AgentCounts& c = o.counts;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("summary: {} on card {}, {} of this machine's memory, {} below it",
                              Seconds(o.length), o.card, FormatBytes(o.card_bytes),
                              FormatBytes(o.below_bytes)));
  lines.push_back(
      Row("agents", fmt::format("{} agents, clients of the daemon's socket; {} rounds, {} turns",
                                o.agents, Grouped(o.rounds), Grouped(c.turns))));
  lines.push_back(
      Row("contexts", fmt::format("{} blocks set, {} refused (those turns went on without)",
                                  Grouped(o.stats.sets), Grouped(c.sets_refused))));
  lines.push_back(
      Row("hits", fmt::format("{} of {} blocks asked for ({}), by the daemon's count",
                              Grouped(o.stats.hits), Grouped(o.stats.hits + o.stats.misses),
                              ShareText(o.stats.hits, o.stats.hits + o.stats.misses))));
  lines.push_back(
      Row("found", fmt::format("{} of {} blocks of contexts ({}), by the agents'; the rest of the "
                               "hits is what they had just set",
                               Grouped(c.blocks_found), Grouped(c.blocks_found + c.blocks_missed),
                               ShareText(c.blocks_found, c.blocks_found + c.blocks_missed))));
  lines.push_back(Row("resumed", ResumedText(o)));
  lines.push_back(Row("prefill", PrefillText(o)));
  lines.push_back(Row("levels", LevelsText(o.levels)));
  AddTakes(o.neighbours, &lines);
  lines.push_back(Row("moves", ActionsText(o.stats)));
  lines.push_back(Row("left", ReasonsText(o.stats)));
  AddTrouble(o, &lines);
  lines.push_back(Row("destroyed", fmt::format("{} contexts (not those that agents had erased)",
                                               Grouped(Destroyed(o.stats)))));
  lines.push_back(
      Row("checked", fmt::format("{} read back byte by byte, {} wrong bytes",
                                 FormatBytes(c.bytes_checked), Grouped(c.wrong_bytes))));
  return lines;
}

std::vector<std::string> Commands(const std::string& socket, std::uint16_t http_port) {
  return {fmt::format("redis-cli -s {} SPILL.MODE", socket),
          fmt::format("spillway stats --socket {}", socket),
          fmt::format("curl -s http://127.0.0.1:{}/metrics", http_port)};
}

}  // namespace spillway::demo
