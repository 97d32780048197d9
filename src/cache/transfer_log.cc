// SPDX-License-Identifier: Apache-2.0
#include "cache/transfer_log.h"

#include <algorithm>
#include <functional>
#include <new>

namespace spillway {

void TransferLog::Moved(const Event& event, TierId tier, std::uint64_t hash, double pressure) {
  const auto reason = static_cast<std::size_t>(event.reason);
  const bool leaves = event.action != Action::kBack;
  if (leaves) {
    ++left_;
    ++by_reason_.at(reason);
    bytes_by_reason_.at(reason) += event.bytes;
  }
  if (IsLoss(event.action, event.reason)) {
    ++destroyed_.at(reason);
    destroyed_bytes_.at(reason) += event.bytes;
    if (losses_ != nullptr) losses_->Record(event);
  }
  const auto action = static_cast<std::size_t>(event.action);
  ++by_action_.at(action);
  ++tier_by_action_.at(IndexOf(tier)).at(action);
  tier_bytes_by_action_.at(IndexOf(tier)).at(action) += event.bytes;

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
    // Explain will not know of this event.
  }

  if (collect_ != nullptr && leaves) {
    try {
      collect_->push_back(
          {std::string(event.key), event.action, event.reason, event.bytes, event.tokens});
    } catch (const std::bad_alloc&) {
      // It was evicted all the same; the collector misses one event.
    }
  }
  if (listener_) listener_(event);
}

void TransferLog::Came(const Arrival& arrival) try {
  if (arrivals_.empty()) arrivals_.reserve(kArrivals);
  if (arrivals_.size() < kArrivals) {
    arrivals_.push_back(arrival);
  } else {
    arrivals_[arrived_ % kArrivals] = arrival;
  }
  ++arrived_;
} catch (const std::bad_alloc&) {
  // The key's history misses this copy.
}

std::vector<Cache::Transition> TransferLog::History(std::uint64_t hash, std::size_t most) const {
  std::vector<Cache::Transition> all;
  for (const Trace& trace : Find(hash, most)) {
    all.push_back({.at = trace.at,
                   .generation = trace.generation,
                   .action = trace.action,
                   .reason = trace.reason,
                   .level = trace.level,
                   .pressure = double{trace.pressure},
                   .from = Name(trace.tier),
                   .to = {},
                   .bytes = trace.bytes});
  }
  std::size_t came = 0;
  for (std::size_t back = 1; back <= arrivals_.size() && came < most; ++back) {
    const Arrival& arrival = arrivals_[(arrived_ - back) % kArrivals];
    if (arrival.hash != hash) continue;
    ++came;
    all.push_back({.at = arrival.at,
                   .generation = arrival.generation,
                   .came = true,
                   .from = Name(arrival.from),
                   .to = Name(arrival.to),
                   .bytes = arrival.bytes});
  }
  std::ranges::stable_sort(all, std::greater<>(), &Cache::Transition::at);
  if (all.size() > most) all.resize(most);
  return all;
}

std::vector<TransferLog::Trace> TransferLog::Find(std::uint64_t hash, std::size_t most) const {
  std::vector<Trace> found;
  for (std::size_t back = 1; back <= traces_.size() && found.size() < most; ++back) {
    const Trace& trace = traces_[(written_ - back) % kTraces];
    if (trace.hash == hash) found.push_back(trace);
  }
  return found;
}

void TransferLog::CountInto(Stats* stats) const {
  stats->removed_by_reason = by_reason_;
  stats->removed_bytes_by_reason = bytes_by_reason_;
  stats->removed_by_action = by_action_;
  stats->destroyed_by_reason = destroyed_;
  stats->destroyed_bytes_by_reason = destroyed_bytes_;
}

void TransferLog::CountInto(TierId tier, TierStats* stats) const {
  stats->removed_by_action = tier_by_action_.at(IndexOf(tier));
  stats->removed_bytes_by_action = tier_bytes_by_action_.at(IndexOf(tier));
}

}  // namespace spillway
