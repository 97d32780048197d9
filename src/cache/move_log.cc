#include "cache/move_log.h"

#include <new>

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
  try {
    if (traces_.empty()) traces_.reserve(kTraces);
    if (traces_.size() < kTraces) {
      traces_.push_back(trace);
    } else {
      traces_[written_ % kTraces] = trace;
    }
    ++written_;
  } catch (const std::bad_alloc&) {
    // Explain does not know of this one.
  }

  if (collect_ != nullptr && leaves) {
    try {
      collect_->push_back(
          {std::string(event.key), event.action, event.reason, event.bytes, event.tokens});
    } catch (const std::bad_alloc&) {
      // It left all the same; whoever collects hears of one less.
    }
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
