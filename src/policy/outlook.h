// What is known of an entry's next use beyond what it did so far: by a step
// graph, or by its client's word. Few entries have one; it stands beside them.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "policy/facts.h"
#include "spillway/units.h"

namespace spillway {

struct Outlook {
  // In the order of leaving.
  enum class Kind : std::uint8_t {
    kDead,    // Nobody wants it any more.
    kWanted,  // Steps away.
    kNext,    // By a step that could run now.
    kRunning,
  };

  EntryId id;
  Kind kind = Kind::kWanted;
  std::uint8_t queued = 0;    // A bit for each line it stands in (Foresight).
  bool advised = false;       // By a client's word alone.
  bool linked = false;        // The graph knows what it continues.
  std::uint32_t steps = 0;    // To execution.
  std::uint32_t version = 0;  // Rises with each change; tells old places from new.
  Bytes bytes = 0;            // Of the entry.
  double eta_s = 0;           // As of then.
  double p = 0;
  double conf = 1;
  TimePoint as_of;
  TimePoint running_since;
  std::uint64_t uses_then = 0;  // Of the entry, when its step began to run.

  bool wanted() const { return kind != Kind::kDead; }
};

// Uses per second to be expected: from the graph as far as it is trusted, else
// from how long the entry has been idle.
double RateOf(const Outlook& outlook, const Facts& facts, TimePoint now);
// The same with a rate known from elsewhere.
double RateOf(const Outlook& outlook, double otherwise, TimePoint now);
double RateByIdleness(const Facts& facts, TimePoint now);

// A running step's contexts are spared for so long after it began, or since they
// were last used: who forgets to finish can't hold them for ever.
inline constexpr Duration kSparedFor = std::chrono::minutes(10);

// All there are, by slot. Strand only.
class Outlooks {
 public:
  // Null: nothing is known of it.
  Outlook* Find(EntryId id) {
    if (by_slot_.empty()) return nullptr;
    const auto found = by_slot_.find(id.slot);
    return found == by_slot_.end() || found->second.id != id ? nullptr : &found->second;
  }
  const Outlook* Find(EntryId id) const { return const_cast<Outlooks*>(this)->Find(id); }
  // Throws bad_alloc.
  Outlook* Make(EntryId id) {
    Outlook& made = by_slot_[id.slot];
    if (made.id != id) made = Outlook{.id = id, .as_of = {}, .running_since = {}};
    return &made;
  }
  void Erase(EntryId id) {
    if (Find(id) != nullptr) by_slot_.erase(id.slot);
  }
  std::size_t size() const { return by_slot_.size(); }
  template <typename Each>
  void ForEach(Each&& each) {
    for (auto& [slot, outlook] : by_slot_) each(&outlook);
  }

  // Whether there may ever be any: then lines keep places for them.
  bool armed = false;
  // Whether entries rank by them, and as of when.
  bool in_force = false;
  TimePoint now;

 private:
  std::unordered_map<std::uint32_t, Outlook> by_slot_;
};

}  // namespace spillway
