// What the cache's users know: which set of each key counts, and how each came
// to its end. Kept from what was asked for and announced, never from what the
// cache says it holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
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
  TimePoint last_use{};
  std::uint64_t generation = 0;  // In this life of the cache.
  std::uint32_t slot = 0;        // Likewise.
  bool live = false;
  bool answered = false;                          // Its writer knows.
  bool synced = false;                            // On disk, and a sync has passed since.
  std::uint64_t freed_epoch = ~std::uint64_t{0};  // Syncs before its blob was given up.
  bool ended_for_good = false;    // Its writer was told: not even a kill brings it back.
  std::uint64_t lived_until = 0;  // Event number; of interest once it is over.
};

class Ledger {
 public:
  explicit Ledger(const std::vector<std::string>& keys) : keys_(keys), current_(keys.size()) {
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

  // The set a get of the key must give; 0: a miss.
  SetNo current(KeyNo key) const { return current_[key]; }
  std::size_t live() const { return live_; }

  void Enter(SetNo set, std::uint64_t generation, std::uint32_t slot, TimePoint now) {
    SetInfo& info = sets_[set];
    info.generation = generation;
    info.slot = slot;
    info.last_use = now;
    info.live = true;
    info.ended_for_good = false;
    current_[info.key] = set;
    ++live_;
  }
  void End(SetNo set, std::uint64_t event) {
    SetInfo& info = sets_[set];
    info.live = false;
    info.lived_until = event;
    current_[info.key] = 0;
    --live_;
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
  std::vector<SetInfo> sets_;
  std::size_t live_ = 0;
};

}  // namespace spillway::tiersim
