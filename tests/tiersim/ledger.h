// SPDX-License-Identifier: Apache-2.0
// What the cache's users know: which set of each key counts, and how each set ended.
// Updated from what was asked for and announced, never from what the cache says it
// holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "spillway/units.h"

namespace spillway::tiersim {

using SetNo = std::uint64_t;  // Counts from 1; 0: none.
using KeyNo = std::uint32_t;
inline constexpr KeyNo kNoKey = ~KeyNo{0};

struct SetInfo {
  KeyNo key = 0;
  Bytes size = 0;
  Tokens tokens = 0;
  TimePoint deadline = TimePoint::max();  // Of its own ttl.
  // The deadlines that it may have after a kill: the last one on disk, and those since.
  std::vector<TimePoint> deadlines = {};
  TimePoint last_use{};
  std::uint64_t generation = 0;  // In this life of the cache.
  std::uint32_t slot = 0;        // Likewise.
  bool live = false;
  bool answered = false;                          // Its writer was answered.
  bool synced = false;                            // On disk, and synced since.
  std::uint64_t freed_epoch = ~std::uint64_t{0};  // Syncs before its blob was freed.
  // Its writer was answered: it must not come back even after a kill.
  bool ended_for_good = false;
  std::uint64_t lived_until = 0;  // Event number; valid once it has ended.
};

class Ledger {
 public:
  explicit Ledger(const std::vector<std::string>& keys)
      : keys_(keys), current_(keys.size()), departed_(keys.size()) {
    sets_.emplace_back();
    for (KeyNo key = 0; key < keys.size(); ++key) numbers_.emplace(keys[key], key);
  }

  const std::string& key(KeyNo key) const { return keys_[key]; }
  KeyNo NumberOf(std::string_view key) const {
    const auto found = numbers_.find(std::string(key));
    return found == numbers_.end() ? kNoKey : found->second;
  }

  SetNo Begin(const SetInfo& info) {
    sets_.push_back(info);
    return sets_.size() - 1;
  }
  bool Knows(SetNo set) const { return set > 0 && set < sets_.size(); }
  SetInfo& at(SetNo set) { return sets_[set]; }
  const SetInfo& at(SetNo set) const { return sets_[set]; }

  // The set that a get of the key must return; 0: a miss.
  SetNo current(KeyNo key) const { return current_[key]; }
  std::size_t live() const { return live_; }
  KeyNo last_departed() const { return last_departed_; }  // The key of the last removed entry.
  bool TakeRemoval() { return std::exchange(any_removed_, false); }  // Since the last call.

  void Enter(SetNo set, std::uint64_t generation, std::uint32_t slot, TimePoint now) {
    SetInfo& info = sets_[set];
    info.generation = generation;
    info.slot = slot;
    info.last_use = now;
    info.live = true;
    info.deadlines = {info.deadline};
    info.ended_for_good = false;
    current_[info.key] = set;
    ++live_;
  }
  void End(SetNo set, std::uint64_t event) {
    SetInfo& info = sets_[set];
    info.live = false;
    info.lived_until = event;
    current_[info.key] = 0;
    departed_[info.key].push_back(set);
    last_departed_ = info.key;
    any_removed_ = true;
    --live_;
  }
  // A write of the key that began after `since` has been answered: entries removed
  // before it began, for whatever reason, must not come back. Returns how many.
  std::size_t Answered(KeyNo key, std::uint64_t since) {
    return std::erase_if(departed_[key], [&](SetNo set) {
      SetInfo& info = sets_[set];
      if (info.live) return true;  // It was found again.
      if (info.lived_until >= since) return false;
      return info.ended_for_good = true;
    });
  }
  void EndAll(std::uint64_t event) {
    for (const SetNo set : std::vector<SetNo>(current_)) {
      if (set != 0) End(set, event);
    }
  }

 private:
  const std::vector<std::string>& keys_;
  std::unordered_map<std::string, KeyNo> numbers_;
  std::vector<SetNo> current_;
  std::vector<std::vector<SetNo>> departed_;  // By key; those that may come back after a kill.
  std::vector<SetInfo> sets_;
  KeyNo last_departed_ = 0;
  bool any_removed_ = false;
  std::size_t live_ = 0;
};

}  // namespace spillway::tiersim
