#include "demo/caption.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/parse.h"
#include "demo/words.h"

namespace spillway::demo {

namespace {

std::uint64_t Of(const Stats& stats, Action action) {
  return stats.left_by_action.at(static_cast<std::size_t>(action));
}
std::uint64_t Of(const Stats& stats, Reason reason) {
  return stats.left_by_reason.at(static_cast<std::size_t>(reason));
}

std::string FillText(const Stats& stats) {
  return fmt::format("{} entries, {} on the card, {} of that backed", Grouped(stats.entries),
                     FormatBytes(stats.device.bytes),
                     ShareText(stats.device.backed, stats.device.bytes));
}

std::string WorkText(const AgentCounts& before, const AgentCounts& now, Duration prefill) {
  const auto turns = static_cast<std::int64_t>(now.resumes - before.resumes);
  if (turns == 0) return "no context was found whole yet";
  const Tokens tokens = (now.resumed_tokens - before.resumed_tokens) / turns;
  return fmt::format("{} resumes, {} tokens back in {} (mean); prefill takes {} (declared)",
                     Grouped(static_cast<std::uint64_t>(turns)),
                     Grouped(static_cast<std::uint64_t>(tokens)),
                     FormatDuration((now.resume_time - before.resume_time) / turns),
                     FormatDuration(tokens * prefill));
}

std::string StrangerText(const Stats& before, const Stats& now,
                         const std::vector<Neighbour>& neighbours) {
  if (neighbours.empty()) return "nobody has come yet";
  const Neighbour& n = neighbours.back();
  const std::string took = n.waited ? fmt::format("pid {} had {} after {}", n.pid,
                                                  FormatBytes(n.bytes), FormatDuration(*n.waited))
                                    : fmt::format("pid {} wants {}", n.pid, FormatBytes(n.bytes));
  return fmt::format("{}; {} dropped, {} demoted, {} destroyed", took,
                     Of(now, Action::kDrop) - Of(before, Action::kDrop),
                     Of(now, Action::kDemote) - Of(before, Action::kDemote),
                     Destroyed(now) - Destroyed(before));
}

std::string SqueezedText(const Stats& before, const Stats& now) {
  return fmt::format("{} of {} entries only in the RAM below; {} brought up",
                     Grouped(now.entries - std::min(now.entries, now.device.entries)),
                     Grouped(now.entries), FormatBytes(now.moves.bytes_up - before.moves.bytes_up));
}

std::string LeavesText(const Stats& before, const Stats& now) {
  return fmt::format("ours on the card {} -> {}, {} free", FormatBytes(before.device.held),
                     FormatBytes(now.device.held), FormatBytes(now.device.free));
}

}  // namespace

std::uint64_t Destroyed(const Stats& stats) {
  const std::uint64_t all = Of(stats, Action::kDestroy);
  const std::uint64_t wanted =
      Of(stats, Reason::kErased) + Of(stats, Reason::kReplaced) + Of(stats, Reason::kCleared);
  return all - std::min(all, wanted);
}

std::string Caption(Scene scene, const Figures& at_first, const Figures& now,
                    const std::vector<Neighbour>& neighbours, Duration prefill_per_token) {
  std::string text;
  switch (scene) {
    case Scene::kFill:
      text = FillText(now.stats);
      break;
    case Scene::kWork:
      text = WorkText(at_first.counts, now.counts, prefill_per_token);
      break;
    case Scene::kStranger:
      text = StrangerText(at_first.stats, now.stats, neighbours);
      break;
    case Scene::kSqueezed:
      text = SqueezedText(at_first.stats, now.stats);
      break;
    case Scene::kLeaves:
      text = LeavesText(at_first.stats, now.stats);
      break;
  }
  return fmt::format("{}: {}", Name(scene), text);
}

}  // namespace spillway::demo
