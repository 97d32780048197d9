// SPDX-License-Identifier: Apache-2.0
// The Judge knows what must hold (ARCHITECTURE.md, "What must hold") and checks the
// cache against it. The world tells it what is about to happen and what the result was.
// In between, for every event of the cache, the Judge checks whether this very entry
// may be evicted, at this moment, for this reason. It uses only the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/engine.h"
#include "sim/model.h"
#include "sim/pressure_model.h"
#include "sim/verdict.h"
#include "spillway/event.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway::sim {

class Judge {
 public:
  struct Setting {
    Options options;
    Bytes capacity = 0;  // Tier::kUnlimited: none.
    Bytes tier_capacity = 0;
    Bytes reserve = 0;
    std::size_t moves_per_step = 0;
    bool has_bytes = false;  // The tier keeps what is written.
    // Allocations the tier refused so far.
    const std::uint64_t* refusals = nullptr;
    // A stopped process holds the card's lock: no chunk can be allocated.
    const bool* lock_stuck = nullptr;
  };
  Judge(const Setting& setting, Model* model, Verdict* verdict);

  // --- what happens, each pair around one event of the strand ---
  void BeginAdmit(const Newcomer& newcomer, bool too_late, TimePoint now);
  // The reservation, or kNobody when it was refused.
  EntryNo EndAdmit(const Status& status);
  void BeginCommit(EntryNo reservation, bool too_late, TimePoint now);
  void EndCommit(const Status& status);
  // A set that is admitted, copied and committed in one go.
  void BeginWholeSet(const Newcomer& newcomer, TimePoint now);
  void EndWholeSet(const Status& status);
  void BeginErase(std::uint32_t key, TimePoint now);
  void EndErase(bool found);
  void BeginClear(TimePoint now);
  void EndClear();
  void BeginLook(TimePoint now);
  void EndLook(bool more);
  void BeginRelief(TimePoint now, bool may_be_cut);
  void EndRelief(Engine::Progress progress);
  void Sampled(std::optional<double> pressure, Bytes total, TimePoint now);
  // The cache is only queried: nothing may be evicted.
  void BeginQuiet(TimePoint now) { Begin(Doing::kNothing, now); }
  void EndQuiet() {}

  void OnEvent(const Event& event);
  // Whether a run of the step graph is live.
  void Attached(bool attached) { attached_ = attached; }

  // --- answers of the cache ---
  // Which entry a get or peek of that key must have found, after it has.
  EntryNo Found(std::uint32_t key, bool found, TimePoint now, std::string_view who);
  void CheckLease(EntryNo entry, const spillway::Lease& lease, std::string_view when);
  // The order in which all evictable entries would be evicted, one after another.
  void CheckEvictionOrder(const std::vector<std::string>& order, TimePoint now);
  // Cheap, after every event.
  void Compare(const Engine& engine);
  // All entries, slots and blocks, one by one.
  void CompareAll(const Engine& engine, TimePoint now);

  PressureModel& pressure() { return pressure_; }
  const PressureModel& pressure() const { return pressure_; }
  // Evictions by the last event, for the coverage table.
  std::uint32_t departures() const { return departures_; }

 private:
  enum class Doing : std::uint8_t { kNothing, kAdmit, kCommit, kErase, kClear, kLook, kRelief };
  // kWorkflow: by a graph that knows none of the keys, so by last use. kScore: by the
  // learned score, alone or under a graph: any evictable entry is right.
  enum class By : std::uint8_t { kLastUse, kWeight, kHybrid, kWorkflow, kScore, kWorkflowByScore };
  static bool Ranks(By by) { return by != By::kScore && by != By::kWorkflowByScore; }
  // What a set lacks.
  struct Lack {
    Bytes bytes = 0;
    Tokens tokens = 0;
    Bytes names = 0;
    std::uint64_t slots = 0;
    bool room() const { return bytes > 0 || names > 0 || slots > 0; }
    bool any() const { return room() || tokens > 0; }
  };
  // What a level asks for.
  struct Ask {
    std::optional<Duration> idle_over{};
    By by = By::kLastUse;
    Reason reason = Reason::kIdle;
    std::optional<double> target{};
    bool own_share = false;  // The target is a share of our capacity, not a pressure.
    std::optional<std::size_t> count{};
    bool marks = false;
  };

  void Begin(Doing doing, TimePoint now);
  void Fail(int invariant, std::string what) { verdict_->Fail(invariant, std::move(what)); }

  // judge_room.cc
  Lack LackFor(const Newcomer& newcomer) const;
  Bytes GrowthLimit() const;
  bool CanBeMet(const Lack& lack, EntryNo old, bool old_goes_first);
  std::optional<Code> WhyRefused();
  bool ComesWithCommit(const Event& event) const;
  void LeavesForSet(const Event& event, EntryNo entry);
  void LeavesForRoom(const Event& event, EntryNo entry, const Lack& lack);
  void LeavesForMemory(const Event& event, EntryNo entry);
  void LeavesForReserve(const Event& event, EntryNo entry);
  Bytes& ReserveLack();

  // judge_relief.cc
  std::optional<Ask> AskedFor() const;
  void LeavesInRelief(const Event& event, EntryNo entry);
  void Marked(const Event& event, EntryNo entry);
  bool AtTarget(const Ask& ask) const;
  bool Qualifies(const Ask& ask, const Entry& entry) const;
  bool AnyQualifies(const Ask& ask) const;
  void CheckReliefEnd(const Ask& ask, Engine::Progress progress);
  void LeavesExpired(const Event& event, EntryNo entry);
  void CommitNow();

  By InForce(Level level) const;
  static std::string_view NameOf(By by);
  bool Before(By by, const Entry& a, const Entry& b) const;
  bool LookClosely(std::size_t times = 1);
  template <typename May>
  void CheckFirst(By by, EntryNo entry, May&& may);
  void CheckOrderName(const Event& event, std::string_view expected);
  std::string Describe(EntryNo entry) const;

  const Setting setting_;
  const bool seed_;  // Preset seed.
  bool attached_ = false;
  Model& model_;
  Verdict* const verdict_;
  PressureModel pressure_;

  Doing doing_ = Doing::kNothing;
  TimePoint now_;
  std::uint32_t departures_ = 0;
  std::uint64_t looks_ = 0;

  // Admit.
  Newcomer newcomer_;
  bool too_late_ = false;
  bool whole_ = false;
  std::optional<Code> refusal_;
  std::optional<Bytes> reserve_lack_;
  std::uint64_t refusals_before_ = 0;
  std::uint64_t left_for_memory_ = 0;
  Bytes memory_floor_ = 0;
  // Commit.
  EntryNo reservation_ = kNobody;
  bool committed_ = false;
  // Erase.
  std::uint32_t key_ = 0;
  EntryNo erased_ = kNobody;
  // Relief.
  std::optional<Ask> ask_;
  bool may_be_cut_ = false;
  std::size_t moves_ = 0;
};

}  // namespace spillway::sim
