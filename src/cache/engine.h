// The Engine decides and does, on the strand: it admits, commits and removes,
// runs the policy when pressure asks for it, and lets expire what is over its
// time. It has no thread, no lock and no clock of its own; every call says
// what time it is. cache.cc (threads) and the simulator (seeds) drive it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/gauge.h"
#include "cache/journal.h"
#include "cache/store.h"
#include "monitor/governor.h"
#include "policy/policy.h"
#include "spillway/cache.h"
#include "spillway/options.h"

namespace spillway {

class Engine {
 public:
  struct Settings {
    Options options;     // Checked by Open.
    Bytes reserve = 0;   // Kept free on a shared card; 0: none.
    int hash_bits = 64;  // Fewer make collisions, for tests.
    // Most moves one step of relief makes; tests use few, to cut plans apart.
    std::size_t moves_per_step = 4096;
  };
  static Result<std::unique_ptr<Engine>> Open(const Settings& settings, std::unique_ptr<Tier> tier);

  // --- writes ---

  // Checks what does not depend on state: key, tokens, names, size.
  Status Check(std::string_view key, Bytes bytes, const SetOptions& options) const;
  // Room, memory and a slot for a checked entry. Refused: Blocked, OverBudget,
  // NoMemory, Busy; then nothing has changed.
  Result<std::uint32_t> Admit(const NewEntry& entry, TimePoint now);
  void Commit(std::uint32_t reservation, TimePoint now);
  void Abort(std::uint32_t reservation);
  bool Erase(std::uint64_t hash, std::string_view key, TimePoint now);
  void Clear(TimePoint now);
  // Everything goes, nobody is told: the cache is being closed.
  void Close();
  void Reap(std::uint32_t slot) { store_->Reap(slot); }

  // --- pressure and time ---

  // One sample; empty: the reading failed. `total` scales what leaves.
  void Sample(std::optional<double> pressure, Bytes total, TimePoint now);
  // Moves time on: expiry, dwell, the age of the last sample. Cheap when
  // nothing is due. True: more is due than one call does; call again.
  bool Look(TimePoint now);
  // Samples come every `period` from now on: one older than three of them is
  // as good as none. Zero: nobody is sampling, and the last one holds.
  void ExpectSamplesEvery(Duration period, TimePoint now);
  // After Stop: no pressure is known, none is assumed.
  void ForgetPressure();

  enum class Progress : std::uint8_t { kDone, kMore, kNothingLeft };
  // Carries out what the level asks for, for at most `moves_per_step` moves or
  // until `out_of_time` says so. Repeat while it answers kMore.
  Progress Relieve(TimePoint now, const std::function<bool()>& out_of_time);
  // Whether a sample that did not change the level still runs the policy.
  bool RunsOnEverySample() const { return policy_.rule->RunsOnEverySample(); }

  // --- answers ---

  Level level() const { return level_.load(std::memory_order_relaxed); }
  // Empty: UNKNOWN.
  std::optional<double> pressure() const;
  TimePoint level_since() const { return level_since_; }
  bool is_blocked() const;
  // Most bytes of entries; Tier::kUnlimited: none set.
  Bytes capacity() const {
    return settings_.options.unlimited ? Tier::kUnlimited : store_->tier()->capacity();
  }
  Status WhyBlocked(std::string_view what) const;
  std::vector<std::string> LeavingOrder() const;
  std::string Explain(std::uint64_t hash, std::string_view key, TimePoint now) const;
  void CountInto(Stats* stats) const;

  Store& store() { return *store_; }
  const Store& store() const { return *store_; }
  Journal& journal() { return journal_; }
  const Governor& governor() const { return governor_; }
  const Policy& policy() const { return policy_; }
  const Settings& settings() const { return settings_; }

 private:
  struct Need;
  struct Victim {
    EntryId id;
    Reason reason;
  };
  struct Why {
    Action action;
    Reason reason;
    std::string_view order;
  };

  Engine(const Settings& settings, std::unique_ptr<Store> store);

  // engine_room.cc
  Status MakeRoom(const NewEntry& entry, std::uint32_t old, TimePoint now);
  bool PlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan);
  void Unplan(std::vector<Victim>* plan);
  Bytes GrowthLimit() const;
  void KeepReserve(const NewEntry& entry, TimePoint now);

  // engine_relief.cc
  Progress RunStage(const Stage& stage, TimePoint now, const std::function<bool()>& out_of_time);
  Progress Choose(const Stage& stage, Level ranked_at, const Why& why, std::size_t* moves,
                  TimePoint now);
  void CarryOut(const Why& why, TimePoint now);
  bool TargetReached(const Stage& stage, Bytes going) const;
  std::optional<EntryId> NextIdle(const Stage& stage, TimePoint now);
  bool Expire(TimePoint now);
  void CheckSampleAge(TimePoint now);
  void ExpireOwnDeadlines(TimePoint now);

  // Removal of a live slot: links, rankings, event, account.
  void Remove(std::uint32_t slot, bool owned, const Why& why, TimePoint now);
  void Log(std::uint32_t slot, const Why& why, TimePoint now);
  // Its two halves: who may leave now that it does, and all the rest.
  void LetGoOfParent(std::uint32_t slot);
  void Depart(std::uint32_t slot, bool owned, const Why& why, TimePoint now);
  // True: no reader has it or gets it any more.
  bool TakeUnlessLeased(std::uint32_t slot);
  bool RemoveUnlessLeased(std::uint32_t slot, const Why& why, TimePoint now);
  void RemoveEvenIfLeased(std::uint32_t slot, const Why& why, TimePoint now);
  void RemoveHidden(std::uint32_t slot, const Why& why, TimePoint now);

  // `slot` may leave from now on.
  void Enter(std::uint32_t slot);
  void SetLevel(Level level, TimePoint now);
  // Bytes of ours have come or gone: pressure as corrected by that counts from
  // now on, not from the next look.
  void NoteMoves(TimePoint now);
  std::string_view OrderName() const { return policy_.order->name(level()); }

  const Settings settings_;
  const std::unique_ptr<Store> store_;
  Journal journal_;
  Ranking idle_;  // By last use: idle limits, TTL, and every order that wants it.
  Policy policy_;
  Governor governor_;
  Gauge gauge_;
  std::atomic<Level> level_{Level::kRelaxed};
  TimePoint level_since_;
  TimePoint sampled_at_;
  Duration sample_period_{};
  Bytes unknown_ceiling_ = 0;  // While UNKNOWN: what we held when it began.

  struct Deadline {
    TimePoint at;
    EntryId id;
    friend bool operator>(const Deadline& a, const Deadline& b) { return a.at > b.at; }
  };
  std::vector<Deadline> deadlines_;  // A heap, earliest first; the dead stay until due.

  // Entries a running step can't let go; entered again when it ends.
  std::vector<EntryId> put_back_;
  std::vector<std::uint32_t> chosen_;  // By a stage, and taken from their readers.
  std::vector<Victim> room_plan_;      // MakeRoom's, kept so that it need not allocate.
  // Idle entries ranked by an order that is not last use (NextIdle).
  std::vector<EntryId> idle_candidates_;

  std::uint64_t sets_ = 0;
  std::uint64_t refused_blocked_ = 0;
  std::uint64_t refused_budget_ = 0;
  std::uint64_t refused_other_ = 0;
  std::uint64_t level_changes_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t samples_failed_ = 0;
};

}  // namespace spillway
