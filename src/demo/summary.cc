#include "demo/summary.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "view/words.h"

namespace spillway::demo {

using namespace view;  // NOLINT: it draws with all of it.

namespace {

std::string Row(std::string_view name, const std::string& text) {
  return fmt::format("  {:<11} {}", name, text);
}

double Of(const MetricsPage& page, const char* figure) {
  return page[std::string("spillway_demo_") + figure];
}
std::string Count(const MetricsPage& page, const char* figure) {
  return Grouped(static_cast<std::uint64_t>(Of(page, figure)));
}
std::string SecondsOf(const MetricsPage& page, const char* figure) {
  return fmt::format("{:.1f} s", Of(page, figure));
}
Duration TimeOf(const MetricsPage& page, const char* figure) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(Of(page, figure)));
}

std::string HitsText(const MetricsPage& page) {
  const auto hits = static_cast<std::uint64_t>(Of(page, "hits_total"));
  const auto misses = static_cast<std::uint64_t>(Of(page, "misses_total"));
  return fmt::format("{} of {} blocks asked for ({}); {} set", Grouped(hits),
                     Grouped(hits + misses), ShareText(hits, hits + misses),
                     Count(page, "sets_total"));
}

std::string ResumedText(const MetricsPage& page) {
  const double resumes = Of(page, "resumes_total");
  if (resumes < 1) return "no turn found all of its context";
  return fmt::format(
      "{} of {} turns found all of their context: {} tokens in {} on average, "
      "measured",
      Count(page, "resumes_total"), Count(page, "turns_total"),
      Grouped(static_cast<std::uint64_t>(Of(page, "resumed_tokens_total") / resumes)),
      FormatDuration(TimeOf(page, "resume_seconds_total") / static_cast<Duration::rep>(resumes)));
}

void AddStrangers(const std::vector<Stranger>& strangers, std::vector<std::string>* lines) {
  constexpr std::size_t kShown = 6;
  for (std::size_t i = 0; i < std::min(strangers.size(), kShown); ++i) {
    lines->push_back(Row(i == 0 ? "strangers" : "", StrangerText(strangers[i])));
  }
  if (strangers.size() > kShown) {
    lines->push_back(Row("", fmt::format("and {} more", strangers.size() - kShown)));
  }
}

void AddReplay(const Outcome& o, std::vector<std::string>* lines) {
  if (!o.replay_trouble.empty()) {
    lines->push_back(Row("beside it", "nothing was replayed: " + o.replay_trouble));
  }
  if (o.replay_tokens == 0) return;
  lines->push_back(Row(
      "beside it",
      fmt::format("the same turns by `spillway replay`, in the {} tokens of memory that were left",
                  Grouped(static_cast<std::uint64_t>(o.replay_tokens)))));
  lines->push_back(Row("", "on average to card and RAM, and nothing below that:"));
  const auto row = [&](std::string_view name, const char* figure) {
    const double saved = Of(o.page, figure);
    const double all = Of(o.page, "asked_tokens_total") *
                       std::chrono::duration<double>(o.prefill_per_token).count();
    lines->push_back(Row("", fmt::format("{:<34} {:>8.1f} s of prefill saved, {:>5.1f} %", name,
                                         saved, all > 0 ? 100 * saved / all : 0.0)));
  };
  row("Spillway, as it ran, disk below", "saved_prefill_seconds_total");
  row("its score alone, without the graph", "replay_score_saved_seconds");
  row("least recently used (LRU)", "replay_lru_saved_seconds");
  row("the rule it grew from (seed)", "replay_seed_saved_seconds");
}

void AddTrouble(const Outcome& o, std::vector<std::string>* lines) {
  if (o.failures > 0) {
    lines->push_back(
        Row("trouble", fmt::format("{} turns were given up: {}", Grouped(o.failures),
                                   o.why_failed.empty() ? "the daemon did not answer"
                                                        : Printable(o.why_failed, 120))));
  }
  if (o.untold > 0) {
    lines->push_back(Row(
        "trouble", fmt::format("{} words to the step graph were not taken", Grouped(o.untold))));
  }
}

}  // namespace

std::vector<std::string> Summary(const Outcome& o) {
  const MetricsPage& page = o.page;
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("summary: {} on {}; below it {}", Seconds(o.length), o.place, o.below));
  lines.push_back(
      Row("destroyed", fmt::format("{} entries of {} contexts (not what agents erased)",
                                   Count(page, "destroyed_total"), Count(page, "contexts"))));
  lines.push_back(Row(
      "saved", fmt::format("{} of prefill, {} spent again (declared: {} a token; no model runs)",
                           SecondsOf(page, "saved_prefill_seconds_total"),
                           SecondsOf(page, "spent_prefill_seconds_total"),
                           FormatDuration(o.prefill_per_token))));
  lines.push_back(
      Row("checked", fmt::format("{} read back byte by byte, {} wrong bytes",
                                 FormatBytes(static_cast<Bytes>(Of(page, "checked_bytes_total"))),
                                 Count(page, "wrong_bytes_total"))));
  lines.push_back(Row("resumed", ResumedText(page)));
  lines.push_back(Row("hits", HitsText(page)));
  AddStrangers(o.strangers, &lines);
  if (Of(page, "review_blocks") > 0) {
    lines.push_back(Row(
        "squeezed", fmt::format("{} of {} blocks of reviewers in memory before "
                                "their step; a cache by last use: {}",
                                Count(page, "review_blocks_in_memory"),
                                Count(page, "review_blocks"), Count(page, "review_blocks_lru"))));
  }
  for (const Killed& killed : o.kills) lines.push_back(Row("kill -9", KilledText(killed)));
  AddTrouble(o, &lines);
  AddReplay(o, &lines);
  return lines;
}

std::string SummaryText(const MetricsPage& page) {
  return fmt::format("{} entries destroyed, {} of prefill saved (declared), {} wrong bytes",
                     Count(page, "destroyed_total"), SecondsOf(page, "saved_prefill_seconds_total"),
                     Count(page, "wrong_bytes_total"));
}

std::vector<std::string> Commands(const std::string& socket, std::uint16_t http_port) {
  return {fmt::format("spillway top --url http://127.0.0.1:{}", http_port),
          fmt::format("redis-cli -s {} SPILL.MODE", socket),
          fmt::format("curl -s http://127.0.0.1:{}/metrics", http_port)};
}

}  // namespace spillway::demo
