#include "cache/move_log.h"

namespace spillway {

void MoveLog::Moved(const Event& event, TierId tier, std::uint64_t hash, double pressure) {
  const auto reason = static_cast<std::size_t>(event.reason);
  const bool leaves = event.action != Action::kBack;
  if (leaves) {
    ++left_;
    ++by_reason_.at(reason);
    bytes_by_reason_.at(reason) += event.bytes;
  }
  ++by_action_.at(static_cast<std::size_t>(event.action));

  const Trace trace{hash,
                    event.at,
                    event.generation,
                    event.bytes,
                    static_cast<std::uint32_t>(event.tokens),
                    static_cast<float>(pressure),
                    event.action,
                    event.reason,
                    event.level,
                    tier};
  if (traces_.size() < kTraces) {
    if (traces_.empty()) traces_.reserve(kTraces);
    traces_.push_back(trace);
  } else {
    traces_[written_ % kTraces] = trace;
  }
  ++written_;

  if (collect_ != nullptr && leaves) {
    collect_->push_back(
        {std::string(event.key), event.action, event.reason, event.bytes, event.tokens});
  }
  if (listener_) listener_(event);
}

std::vector<MoveLog::Trace> MoveLog::Find(std::uint64_t hash, std::size_t most) const {
  std::vector<Trace> found;
  for (std::size_t back = 1; back <= traces_.size() && found.size() < most; ++back) {
    const Trace& trace = traces_[(written_ - back) % kTraces];
    if (trace.hash == hash) found.push_back(trace);
  }
  return found;
}

void MoveLog::CountInto(Stats* stats) const {
  stats->left_by_reason = by_reason_;
  stats->left_bytes_by_reason = bytes_by_reason_;
  stats->left_by_action = by_action_;
}

}  // namespace spillway
