// SPDX-License-Identifier: Apache-2.0
// Knowledge about an entry's next use beyond its own history: from a step graph, or from a client's
// hint. Few entries have it, so it is kept beside them.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "policy/facts.h"
#include "spillway/units.h"

namespace spillway {

// The predicted next use of one entry.
struct NextUse {
  // In eviction order.
  enum class Kind : std::uint8_t {
    kDead,    // No live run needs it any more.
    kWanted,  // Some steps away.
    kNext,    // By a step that could run now.
    kRunning,
  };

  EntryId id;
  Kind kind = Kind::kWanted;
  std::uint8_t queued = 0;  // One bit for each queue of a `WorkflowOrder` that holds it.
  bool advised = false;     // From a client's hint only.
  bool linked = false;      // The graph knows which entry it continues.
  bool doubted = false;     // Predicted dead, but used anyway (NextUseTable::Doubt).
  std::uint32_t steps = 0;  // Until the step runs.
  // Increases with each change (NextUseTable::Changed); nodes with an older version are invalid.
  std::uint64_t version = 0;
  Bytes bytes = 0;   // Size of the entry.
  double eta_s = 0;  // At `as_of`.
  double p = 0;
  double conf = 1;
  TimePoint as_of;
  TimePoint running_since;
  std::uint64_t uses_then = 0;  // The entry's uses when its step began to run.

  bool wanted() const { return kind != Kind::kDead; }
};

// Expected uses per second: from the prediction as far as its confidence goes, otherwise from how
// long the entry has been idle.
double RateOf(const NextUse& next_use, const Facts& facts, TimePoint now);
// The same, with another rate in place of the one from idleness.
double RateOf(const NextUse& next_use, double otherwise, TimePoint now);
double RateByIdleness(const Facts& facts, TimePoint now);

// How long entries of a running step are protected, counted from its start or from their last use.
// A step that is never finished cannot hold them longer.
inline constexpr Duration kProtectedFor = std::chrono::minutes(10);

// All known next uses, by slot. Used on the strand only.
class NextUseTable {
 public:
  // Null: nothing is known.
  NextUse* Find(EntryId id) {
    NextUse* const found = FindAny(id);
    return found == nullptr || found->doubted ? nullptr : found;
  }
  const NextUse* Find(EntryId id) const { return const_cast<NextUseTable*>(this)->Find(id); }
  // Also one that is doubted: queues may still hold a node for it.
  NextUse* FindAny(EntryId id) {
    if (by_slot_.empty()) return nullptr;
    const auto found = by_slot_.find(id.slot);
    return found == by_slot_.end() || found->second.id != id ? nullptr : &found->second;
  }
  // Finds or adds. Throws bad_alloc.
  NextUse* Make(EntryId id) {
    NextUse& made = by_slot_[id.slot];
    if (made.id != id) {
      made = NextUse{.id = id, .as_of = {}, .running_since = {}};
      Changed(&made);
    }
    made.doubted = false;
    return &made;
  }
  // Queues rank by a copy of the prediction; copies made before this call are invalid
  // from now on. No two versions are equal, not even those of two predictions for one
  // entry: queues keep old copies for a while, also those of an erased prediction.
  void Changed(NextUse* next_use) { next_use->version = ++last_version_; }
  // The prediction is wrong: from now on nothing is known of its entry. It is kept until
  // the last queue that ranks by it has met its node, and ranks the entry as unknown.
  void Doubt(EntryId id) {
    NextUse* const next_use = FindAny(id);
    next_use->doubted = true;
    if (next_use->queued == 0) by_slot_.erase(id.slot);
  }
  void Erase(EntryId id) {
    if (FindAny(id) != nullptr) by_slot_.erase(id.slot);
  }
  std::size_t size() const { return by_slot_.size(); }
  template <typename Each>
  void ForEach(Each&& each) {
    for (auto& [slot, next_use] : by_slot_) each(&next_use);
  }

  // True: there may be such knowledge, so queues reserve nodes for them.
  bool armed = false;
  // True: queues rank by them. `now`: the time at which they are read.
  bool in_force = false;
  TimePoint now;

 private:
  std::unordered_map<std::uint32_t, NextUse> by_slot_;
  std::uint64_t last_version_ = 0;
};

}  // namespace spillway
