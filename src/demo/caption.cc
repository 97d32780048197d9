#include "demo/caption.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/parse.h"
#include "view/words.h"

namespace spillway::demo {

using namespace view;  // NOLINT: it draws with all of it.

namespace {

std::string FillText(const Moment& m) {
  const TierStats& card = m.now.stats.device;
  return fmt::format("{} contexts in {} entries, {} on the card, {} of that backed", m.contexts,
                     Grouped(m.now.stats.entries), FormatBytes(card.bytes),
                     ShareText(card.backed, card.bytes));
}

std::string WorkText(const Moment& m) {
  const std::uint64_t resumes = m.now.counts.resumes - m.first.counts.resumes;
  if (resumes == 0 || !m.resume) return "no context was found whole yet";
  return fmt::format("{} resumes; the last: {}", Grouped(resumes),
                     ResumeText(*m.resume, m.prefill_per_token));
}

std::string SqueezedText(const Moment& m) {
  if (m.reviews.reviews == 0) return "no review has begun yet";
  const ReviewSum& all = m.reviews;
  const Review& r = all.last;
  const bool kept = 2 * r.in_memory > r.blocks && r.in_lru == 0;  // Most of it, not a block.
  return fmt::format(
      "{} review{}: {} of {} blocks in memory before the step, LRU would have kept {}; the last: "
      "{} "
      "{} of {}, {}",
      all.reviews, all.reviews == 1 ? "" : "s", all.in_memory, all.blocks, all.in_lru, r.agent,
      r.in_memory, r.blocks,
      kept ? std::string("LRU would have evicted it") : fmt::format("LRU {}", r.in_lru));
}

std::string LeavesText(const Moment& m) {
  return fmt::format("ours on the card {} -> {}, {} free, {} taken by others",
                     FormatBytes(m.first.stats.device.held), FormatBytes(m.now.stats.device.held),
                     FormatBytes(m.now.stats.device.free), FormatBytes(m.now.stats.device.others));
}

}  // namespace

std::string StrangerText(const Stranger& s) {
  if (!s.had) return fmt::format("pid {} wants {}", s.pid, FormatBytes(s.bytes));
  return fmt::format("pid {} took {}: sensed {}, had it {}, {} dropped, {} lost", s.pid,
                     FormatBytes(s.bytes), s.sensed ? FormatDuration(*s.sensed) : "by its words",
                     FormatDuration(*s.had), Grouped(s.dropped), Grouped(s.lost));
}

std::string ResumeText(const Resume& resume, Duration prefill_per_token) {
  return fmt::format("{} {} tokens in {}, prefill {} (declared)", resume.agent,
                     Grouped(static_cast<std::uint64_t>(resume.tokens)),
                     FormatDuration(resume.copy),
                     FormatDuration(resume.tokens * prefill_per_token));
}

std::string KilledText(const std::optional<Killed>& killed) {
  if (!killed) return "the agents hold still; what only memory has goes to disk";
  const Killed& k = *killed;
  std::string text = fmt::format("pid {} killed, pid {} answers after {}; ", k.before, k.after,
                                 FormatDuration(k.down));
  if (!k.trouble.empty()) return text + k.trouble;
  if (!k.verified) return text + fmt::format("{} entries are on disk", Grouped(k.on_disk));
  text += fmt::format("{} of {} on disk verified", Grouped(k.good), Grouped(k.on_disk));
  if (k.entries > k.on_disk) {
    text += fmt::format(", {} were in memory only", Grouped(k.entries - k.on_disk));
  }
  return text + fmt::format(", {} wrong bytes", Grouped(k.wrong_bytes));
}

std::string CaptionText(const Moment& m) {
  switch (m.scene) {
    case Scene::kFill:
      return FillText(m);
    case Scene::kWork:
      return WorkText(m);
    case Scene::kStranger:
      return m.stranger ? StrangerText(*m.stranger) : "nobody has come yet";
    case Scene::kSqueezed:
      return SqueezedText(m);
    case Scene::kLeaves:
      return LeavesText(m);
    case Scene::kKilled:
      return KilledText(m.killed);
    case Scene::kSummary:
      return m.summary;
  }
  return {};
}

std::string Caption(const Moment& moment) {
  return fmt::format("{}: {}", Name(moment.scene), CaptionText(moment));
}

}  // namespace spillway::demo
