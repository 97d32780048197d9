// SPDX-License-Identifier: Apache-2.0
// The Model is the cache as its users understand it: which sets are in flight and which
// are committed, the leases, and the parents. It is updated from what the world asked
// for and what the cache announced, never from the cache's own state.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spillway/mode.h"
#include "spillway/units.h"

namespace spillway::sim {

using EntryNo = std::int32_t;
inline constexpr EntryNo kNobody = -1;

struct Entry {
  enum class State : std::uint8_t { kGone, kReserved, kLive, kZombie };

  State state = State::kGone;
  bool parent_declared = false;
  bool offloaded = false;
  std::uint32_t key = 0;
  std::uint64_t set = 0;  // Number of the set that made it: never reused.
  Bytes size = 0;
  Bytes names = 0;
  Tokens tokens = 0;
  std::uint64_t accesses = 0;
  TimePoint last_use;
  std::uint64_t place = 0;
  TimePoint deadline = TimePoint::max();  // End of its own ttl.
  EntryNo parent = kNobody;               // As found when it was admitted.
  std::uint64_t parent_set = 0;
  std::uint32_t children = 0;  // Live ones.
  std::uint32_t leases = 0;
  std::uint64_t generation = 0;  // As the cache calls it; 0: not known yet.
  std::uint32_t live_at = 0;     // Its place in Model::live().
};

// An entry that a set is about to add.
struct Newcomer {
  std::uint32_t key = 0;
  std::uint64_t set = 0;
  Bytes size = 0;
  Bytes names = 0;
  Tokens tokens = 0;
  bool parent_declared = false;
  std::int64_t parent_key = -1;     // -1: none, or the key itself.
  Duration ttl = Duration::zero();  // 0: none.
  TimePoint ttl_from = {};          // When it was submitted: waiting does not prolong its life.
};

struct Sums {
  Bytes bytes = 0;
  Bytes names = 0;
  Tokens tokens = 0;
  std::uint64_t entries = 0;

  void Add(const Entry& entry) {
    bytes += entry.size;
    names += entry.names;
    tokens += entry.tokens;
    ++entries;
  }
  void Subtract(const Entry& entry) {
    bytes -= entry.size;
    names -= entry.names;
    tokens -= entry.tokens;
    --entries;
  }
};

class Model {
 public:
  explicit Model(std::vector<std::string> keys);

  // --- changes ---
  EntryNo Reserve(const Newcomer& newcomer);
  void Abort(EntryNo entry);
  void Commit(EntryNo entry, TimePoint now);
  // A live entry is evicted or removed; if leased, it stays as a zombie.
  void Leave(EntryNo entry);
  void Lease(EntryNo entry, TimePoint now);
  // True: that was a zombie's last lease; the zombie is to be reaped.
  bool Release(EntryNo entry);
  void Use(EntryNo entry, TimePoint now);
  // All zombies without leases are freed.
  std::size_t Reap();
  // The process died.
  void Forget();

  // --- answers ---
  const std::string& key(std::uint32_t number) const { return keys_[number]; }
  std::size_t keys() const { return keys_.size(); }
  // -1: no key of this world.
  std::int64_t KeyNumber(std::string_view key) const;
  EntryNo LiveOf(std::uint32_t key) const { return live_of_[key]; }
  // What a get must find: live, and not expired.
  EntryNo VisibleOf(std::uint32_t key, TimePoint now) const;
  Entry& at(EntryNo entry) { return pool_[static_cast<std::size_t>(entry)]; }
  const Entry& at(EntryNo entry) const { return pool_[static_cast<std::size_t>(entry)]; }
  const std::vector<EntryNo>& live() const { return live_; }
  // The live parent, or kNobody.
  EntryNo ParentOf(const Entry& entry) const;

  const Sums& live_sums() const { return live_sums_; }
  const Sums& reserved_sums() const { return reserved_sums_; }
  const Sums& zombie_sums() const { return zombie_sums_; }
  Bytes bytes() const { return live_sums_.bytes + reserved_sums_.bytes + zombie_sums_.bytes; }
  Bytes names() const { return live_sums_.names + reserved_sums_.names + zombie_sums_.names; }
  std::uint64_t slots() const {
    return live_sums_.entries + reserved_sums_.entries + zombie_sums_.entries;
  }
  std::size_t waiting_to_be_reaped() const { return to_reap_.size(); }

  // Live entries that can't be evicted: leased, or with a leased descendant. `cut`, if
  // any, is being removed itself and holds no entry back.
  Sums HeldBack(EntryNo cut);
  bool WasHeldBack(EntryNo entry) const {
    return stamps_[static_cast<std::size_t>(entry)] == stamp_;
  }

 private:
  void Drop(EntryNo entry);

  const std::vector<std::string> keys_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::vector<EntryNo> live_of_;
  std::vector<Entry> pool_;
  std::vector<EntryNo> unused_;
  std::vector<EntryNo> live_;
  std::vector<EntryNo> leased_;  // Live or zombie, once each per first lease; pruned lazily.
  std::vector<EntryNo> to_reap_;
  std::vector<std::uint64_t> stamps_;
  std::uint64_t stamp_ = 0;
  std::uint64_t places_ = 0;
  Sums live_sums_;
  Sums reserved_sums_;
  Sums zombie_sums_;
};

}  // namespace spillway::sim
