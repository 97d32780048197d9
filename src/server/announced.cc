// SPDX-License-Identifier: Apache-2.0
#include "server/announced.h"

#include <utility>

#include "spillway/stats.h"

namespace spillway::server {

void Announced::Keep(std::string_view key) {
  if (cache_->level() == Level::kEmergency) return;
  if (most_ == 0) {
    const Stats stats = cache_->stats();
    most_ = (stats.host.capacity > 0 ? stats.host.capacity : stats.device.capacity) / kShare;
  }
  const TimePoint until = direct_->Now() + kFor;
  std::string name(key);
  if (const auto at = kept_.find(name); at != kept_.end()) {
    // One turn a second is enough, however often a client asks.
    if (until - at->second.until < std::chrono::seconds(1)) return;
    at->second.until = until;
    turns_.push_back({until, std::move(name)});
    return;
  }
  const auto facts = direct_->FactsOf(key);
  if (!facts || bytes_ + facts->bytes > most_) return;
  Lease lease;
  if (direct_->Find(key, &lease) != Core::Found::kHit) return;
  bytes_ += lease.size();
  turns_.push_back({until, name});
  kept_.emplace(std::move(name), Kept{.lease = std::move(lease), .until = until});
}

void Announced::Release() {
  if (kept_.empty()) return;
  if (cache_->level() == Level::kEmergency) {
    kept_.clear();
    turns_.clear();
    bytes_ = 0;
    return;
  }
  const TimePoint now = direct_->Now();
  while (!turns_.empty() && turns_.front().until <= now) {
    const auto at = kept_.find(turns_.front().key);
    turns_.pop_front();
    if (at != kept_.end() && at->second.until <= now) Drop(at);
  }
}

void Announced::Drop(std::unordered_map<std::string, Kept>::iterator at) {
  bytes_ -= at->second.lease.size();
  kept_.erase(at);
}

}  // namespace spillway::server
