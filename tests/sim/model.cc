// SPDX-License-Identifier: Apache-2.0
#include "sim/model.h"

#include <algorithm>
#include <cassert>

namespace spillway::sim {

Model::Model(std::vector<std::string> keys)
    : keys_(std::move(keys)), live_of_(keys_.size(), kNobody) {
  for (std::uint32_t i = 0; i < keys_.size(); ++i) numbers_.emplace(keys_[i], i);
  assert(numbers_.size() == keys_.size());
}

std::int64_t Model::KeyNumber(std::string_view key) const {
  const auto found = numbers_.find(key);
  return found == numbers_.end() ? -1 : std::int64_t{found->second};
}

EntryNo Model::VisibleOf(std::uint32_t key, TimePoint now) const {
  const EntryNo entry = live_of_[key];
  return entry == kNobody || at(entry).deadline <= now ? kNobody : entry;
}

EntryNo Model::ParentOf(const Entry& entry) const {
  if (entry.parent == kNobody) return kNobody;
  const Entry& parent = at(entry.parent);
  return parent.set == entry.parent_set && parent.state == Entry::State::kLive ? entry.parent
                                                                               : kNobody;
}

EntryNo Model::Reserve(const Newcomer& newcomer) {
  EntryNo number = static_cast<EntryNo>(pool_.size());
  if (unused_.empty()) {
    pool_.emplace_back();
    stamps_.push_back(0);
  } else {
    number = unused_.back();
    unused_.pop_back();
  }
  Entry& entry = at(number);
  entry = Entry();
  entry.state = Entry::State::kReserved;
  entry.key = newcomer.key;
  entry.set = newcomer.set;
  entry.size = newcomer.size;
  entry.names = newcomer.names;
  entry.tokens = newcomer.tokens;
  entry.parent_declared = newcomer.parent_declared;
  if (newcomer.ttl > Duration::zero()) {
    const TimePoint from = newcomer.ttl_from;
    entry.deadline =
        newcomer.ttl > TimePoint::max() - from ? TimePoint::max() : from + newcomer.ttl;
  }
  if (newcomer.parent_key >= 0) {
    entry.parent = live_of_[static_cast<std::size_t>(newcomer.parent_key)];
    if (entry.parent != kNobody) entry.parent_set = at(entry.parent).set;
  }
  reserved_sums_.Add(entry);
  return number;
}

void Model::Drop(EntryNo number) {
  at(number).state = Entry::State::kGone;
  unused_.push_back(number);
}

void Model::Abort(EntryNo number) {
  reserved_sums_.Subtract(at(number));
  Drop(number);
}

void Model::Commit(EntryNo number, TimePoint now) {
  Entry& entry = at(number);
  const EntryNo old = live_of_[entry.key];
  assert(old == kNobody);
  (void)old;
  reserved_sums_.Subtract(entry);
  live_sums_.Add(entry);
  entry.state = Entry::State::kLive;
  entry.accesses = 1;
  entry.last_use = now;
  if (entry.place == 0) entry.place = ++places_;
  if (const EntryNo parent = ParentOf(entry); parent != kNobody) ++at(parent).children;
  live_of_[entry.key] = number;
  entry.live_at = static_cast<std::uint32_t>(live_.size());
  live_.push_back(number);
}

void Model::Leave(EntryNo number) {
  Entry& entry = at(number);
  if (const EntryNo parent = ParentOf(entry); parent != kNobody) --at(parent).children;
  live_of_[entry.key] = kNobody;
  at(live_.back()).live_at = entry.live_at;
  live_[entry.live_at] = live_.back();
  live_.pop_back();
  live_sums_.Subtract(entry);
  if (entry.leases > 0) {
    entry.state = Entry::State::kZombie;
    zombie_sums_.Add(entry);
  } else {
    Drop(number);
  }
}

void Model::Use(EntryNo number, TimePoint now) {
  Entry& entry = at(number);
  ++entry.accesses;
  entry.last_use = std::max(entry.last_use, now);
}

void Model::Lease(EntryNo number, TimePoint now) {
  Use(number, now);
  if (at(number).leases++ == 0) leased_.push_back(number);
}

bool Model::Release(EntryNo number) {
  Entry& entry = at(number);
  if (--entry.leases > 0) return false;
  leased_.erase(std::find(leased_.begin(), leased_.end(), number));
  if (entry.state != Entry::State::kZombie) return false;
  to_reap_.push_back(number);
  return true;
}

std::size_t Model::Reap() {
  const std::size_t reaped = to_reap_.size();
  for (const EntryNo number : to_reap_) {
    zombie_sums_.Subtract(at(number));
    Drop(number);
  }
  to_reap_.clear();
  return reaped;
}

void Model::Forget() {
  std::fill(live_of_.begin(), live_of_.end(), kNobody);
  pool_.clear();
  stamps_.clear();
  unused_.clear();
  live_.clear();
  leased_.clear();
  to_reap_.clear();
  places_ = 0;
  live_sums_ = reserved_sums_ = zombie_sums_ = Sums();
}

Sums Model::HeldBack(EntryNo cut) {
  ++stamp_;
  Sums held;
  for (const EntryNo leased : leased_) {
    EntryNo number = leased;
    if (at(number).state != Entry::State::kLive) continue;
    while (number != kNobody && number != cut &&
           stamps_[static_cast<std::size_t>(number)] != stamp_) {
      stamps_[static_cast<std::size_t>(number)] = stamp_;
      held.Add(at(number));
      number = ParentOf(at(number));
    }
  }
  return held;
}

}  // namespace spillway::sim
