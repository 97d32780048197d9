#include "cache/journal.h"

namespace spillway {

void Journal::Removed(const Event& event, std::uint64_t hash, double pressure) {
  const auto reason = static_cast<std::size_t>(event.reason);
  ++by_reason_.at(reason);
  bytes_by_reason_.at(reason) += event.bytes;
  ++by_action_.at(static_cast<std::size_t>(event.action));

  const Trace trace{hash,
                    event.at,
                    event.generation,
                    event.bytes,
                    static_cast<std::uint32_t>(event.tokens),
                    static_cast<float>(pressure),
                    event.action,
                    event.reason,
                    event.level};
  if (traces_.size() < kTraces) {
    if (traces_.empty()) traces_.reserve(kTraces);
    traces_.push_back(trace);
  } else {
    traces_[written_ % kTraces] = trace;
  }
  ++written_;

  if (collect_ != nullptr) {
    collect_->push_back(
        {std::string(event.key), event.action, event.reason, event.bytes, event.tokens});
  }
  if (listener_) listener_(event);
}

std::optional<Journal::Trace> Journal::Find(std::uint64_t hash) const {
  for (std::size_t back = 1; back <= traces_.size(); ++back) {
    const Trace& trace = traces_[(written_ - back) % kTraces];
    if (trace.hash == hash) return trace;
  }
  return std::nullopt;
}

void Journal::CountInto(Stats* stats) const {
  stats->left_by_reason = by_reason_;
  stats->left_bytes_by_reason = bytes_by_reason_;
  stats->left_by_action = by_action_;
}

}  // namespace spillway
