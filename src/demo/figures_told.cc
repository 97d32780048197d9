#include "demo/figures_told.h"

#include "base/times.h"

namespace spillway::demo {

std::vector<FigureTold> FiguresTold(const DemoFacts& f) {
  std::vector<FigureTold> told;
  const auto add = [&](const char* name, auto value) {
    told.push_back({name, static_cast<double>(value)});
  };
  const double prefill = InSeconds(f.prefill_per_token);
  add("contexts", f.contexts);
  add("rounds_total", f.rounds);
  add("turns_total", f.turns.requests);
  add("resumes_total", f.counts.resumes);
  add("resumed_tokens_total", f.counts.resumed_tokens);
  add("resume_seconds_total", InSeconds(f.counts.resume_time));
  add("found_tokens_total", f.turns.found);
  add("asked_tokens_total", f.turns.asked);
  add("saved_prefill_seconds_total", static_cast<double>(f.turns.found) * prefill);
  add("spent_prefill_seconds_total", static_cast<double>(f.turns.asked - f.turns.found) * prefill);
  add("checked_bytes_total", f.counts.bytes_checked + f.verified_bytes);
  add("wrong_bytes_total", f.counts.wrong_bytes + f.verified_wrong);
  add("destroyed_total", f.totals.destroyed);
  add("hits_total", f.totals.hits);
  add("misses_total", f.totals.misses);
  add("sets_total", f.totals.sets);
  add("dropped_total", f.totals.dropped);
  add("fetched_ahead_bytes_total", f.totals.ahead);
  add("strangers_total", f.strangers);
  if (f.stranger && f.stranger->had) {
    if (f.stranger->sensed) add("stranger_sensed_seconds", InSeconds(*f.stranger->sensed));
    add("stranger_had_seconds", InSeconds(*f.stranger->had));
    add("stranger_dropped", f.stranger->dropped);
    add("stranger_lost", f.stranger->lost);
  }
  if (f.reviews) {
    add("review_blocks", f.reviews->blocks);
    add("review_blocks_in_memory", f.reviews->in_memory);
    add("review_blocks_lru", f.reviews->in_lru);
  }
  add("kills_total", f.kills.size());
  if (!f.kills.empty() && f.kills.back().verified) {
    add("kill_on_disk", f.kills.back().on_disk);
    add("kill_verified", f.kills.back().good);
  }
  return told;
}

}  // namespace spillway::demo
