// SPDX-License-Identifier: Apache-2.0
// The learned score of a cache's entries: how soon each entry is likely to be used again, judged by
// how similar entries behaved. There is one EntryScores for all eviction queues of all tiers; each
// queue ranks by it (ScoreOrder). It holds no bytes and has no clock. Until it has learned enough,
// and while the LRU fallback is active, queues rank by last use.
//
// A hit does not call it. Instead, each entry is inspected when its age passes a step (two steps to
// an octave), and before it is evicted. Uses found then are recorded with their real times. So the
// score learns them late, by one step at most, but correctly.
//
// In a chain only the last entry in the cache waits in the return table, so a long chain counts
// once. When that entry is evicted, its parent waits instead and takes over its history. If several
// entries continued the parent, each waits for itself.
//
// An entry's class consists of: the client's hint (done, again, when) and what the entry waits for;
// how often it was used; its turn of the conversation; and the pause before this turn.
//
// History records outlive the bytes. At most `history_max` are kept; the longest gone is forgotten
// first. Called on the engine's strand.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/facts.h"
#include "policy/history_records.h"
#include "policy/lru_fallback.h"
#include "policy/recency_window.h"
#include "policy/return_table.h"
#include "spillway/options.h"

namespace spillway {

// An eviction queue that ranks by the score.
class ScoredQueue {
 public:
  virtual ~ScoredQueue() = default;
  // Moves the record to its place after its class, age step or cost changed. Throws bad_alloc.
  virtual void Place(HistoryRecordId record) = 0;
};

class EntryScores {
 public:
  // `reader` must give the facts of any live entry and its children in all tiers. Slots are below
  // `entries_max`.
  EntryScores(const FactReader* reader, std::size_t history_max, std::size_t entries_max = 65'536)
      : reader_(reader),
        history_max_(history_max),
        records_(entries_max + history_max + 16),
        gone_(&records_),
        by_slot_(entries_max) {}

  // A new entry, as it is inserted.
  struct NewEntry {
    EntryId id;
    std::uint64_t hash = 0;
    EntryId parent{};  // Live, or none.
  };
  // Calls that may throw bad_alloc do so before any change that affects ranking; the reported event
  // is lost then. `held`: bytes in the device tier, with this entry.
  void OnInsert(const NewEntry& who, const Facts& facts, Bytes held, TimePoint now);
  // A client's hint about the next use; `step` names what the entry waits for.
  void Tell(EntryId id, Hint hint, std::optional<Duration> eta, std::string_view step);
  // The time to compute the entry again, as declared by the client.
  void Declare(EntryId id, double recompute_s, Tokens tokens);
  // The entry is removed from the cache. `for_good`: its history is not kept. Never throws.
  void Gone(EntryId id, const Facts& facts, bool for_good, TimePoint now);
  // After very many entries were removed for good: returns the memory of their records.
  void Shrink() { records_.Shrink(); }
  // The entry was demoted from the device tier.
  void WentDown(EntryId id, const Facts& facts);
  // A key was requested that is not in the cache.
  void Missed(std::uint64_t hash, TimePoint at);
  // Prefetches the record of a key that may be inserted soon.
  void Expect(std::uint64_t hash) const { gone_.Prefetch(hash); }
  // Time has passed: inspects some of the entries that passed an age step.
  void Advance(TimePoint now, Bytes held);

  // --- for eviction queues ---

  // Connects a queue under its number. It must stay alive.
  void Register(std::uint8_t queue, ScoredQueue* order) { scored_queues_[queue] = order; }
  // Adds the entry to a queue. False: no memory.
  bool Join(EntryId id, const Facts& facts, std::uint8_t queue, bool top);
  // Removes the entry from a queue.
  void OnRemove(EntryId id, std::uint8_t queue);
  // Reads the entry's uses since the last inspection. True: it was used, and its place in the
  // queues changed.
  bool Tick(HistoryRecordId record, const Facts& facts);
  // The record of an entry in the cache. kNoRecord: it has none.
  HistoryRecordId Find(EntryId id) const;
  HistoryRecord& record(HistoryRecordId id) { return records_[id]; }
  const HistoryRecord& record(HistoryRecordId id) const { return records_[id]; }
  void Prefetch(HistoryRecordId id) const { records_.Prefetch(id); }
  // Prefetch for an entry, in two steps: first the place that holds its record's number, then the
  // record.
  void PrefetchPlace(EntryId id) const {
    if (id.slot < by_slot_.size()) __builtin_prefetch(&by_slot_[id.slot]);
  }
  void PrefetchHistory(EntryId id) const {
    if (id.slot < by_slot_.size() && by_slot_[id.slot] != 0) {
      records_.Prefetch(by_slot_[id.slot] - 1);
    }
  }
  // Expected uses per second that the entry holds memory, for its class at this age.
  double Rate(const HistoryRecord& record, double age_s);
  double now_s() const { return now_; }
  double AgeOf(const HistoryRecord& record) const {
    return now_ > record.since ? now_ - record.since : 0;
  }
  // Times are kept in seconds since the first one seen.
  double SecondsOf(TimePoint at) const;
  // Whether no further use is expected: said to be done, or a superseded end of a chain.
  static bool IsOver(const HistoryRecord& record) {
    return record.hint == kSaidDone || record.hint == kSuperseded;
  }
  // One of the last few entries set: the request that set it may be about to continue it.
  static bool IsFresh(const HistoryRecord& record, double age_s) {
    return record.open && age_s < kFreshS && !IsOver(record);
  }

  // Rank by last use: too little is known, or the LRU fallback is active.
  bool by_recency() const { return !knows() || lru_fallback_.steps_back(); }
  bool knows() const { return table_.returns() >= kReturnsLeast; }
  // Whether "done" hints are believed: few of the entries said to be done were used again.
  bool believes_done() const { return done_back_ * 5 < done_said_ + 10; }
  // Protects one entry: it is evicted only if there is no other candidate. Used for the parent of
  // an entry being inserted.
  void Protect(EntryId id) { protected_count_ = id; }
  EntryId protected_count() const { return protected_count_; }

  // Expected uses per second of a new entry like this one, right after it is inserted.
  double RateOfNewcomer(const NewEntry& who, TimePoint now);
  // Seconds to compute one token again, learned from entries that declare it.
  double prefill_s() const { return prefill_s_; }

  // Whether an entry lost its place in a queue for lack of memory. Then the caller must insert all
  // entries again.
  bool TakeLack() { return std::exchange(lacks_somebody_, false); }

  // --- queries ---

  const LruFallback& lru_fallback() const { return lru_fallback_; }
  std::size_t remembered() const { return gone_.size(); }
  std::size_t notes() const { return records_.size(); }
  double returns() const { return table_.returns(); }
  // How often a key with a record but no entry was requested or set again.
  std::uint64_t ghost_hits() const { return ghost_hits_; }
  std::string_view StateName(const HistoryRecord& record) const {
    return record.state == 0 ? std::string_view() : std::string_view(states_[record.state - 1U]);
  }

 private:
  static constexpr double kReturnsLeast = 32;
  static constexpr double kFreshS = 0.25;
  static constexpr std::size_t kOpenMax = 2;
  static constexpr std::uint32_t kOpenForSets = 4;
  static constexpr std::size_t kSteps = 37;
  static constexpr std::size_t kStatesMax = 64;
  static constexpr std::size_t kLooksMax = 256;  // Inspections in one Advance.
  // Age steps: the first bin of a step, and the step of an age.
  static std::size_t FirstBin(std::size_t step);
  static std::size_t StepOf(double age_s);
  // A position in an aging queue; valid while `queued` equals the record's.
  struct Queued {
    HistoryRecordId record;
    std::uint32_t queued;
  };
  // A record of a removed entry; valid while `life` equals the record's.
  struct Evicted {
    HistoryRecordId record;
    std::uint32_t life;
  };
  struct Streaming;

  // The record's class, cached; ClassFor computes it.
  ReturnClass ClassOf(const HistoryRecord& record);
  ReturnClass ClassFor(const HistoryRecord& record);
  // Moves a waiting record to the class it has now.
  void Reclass(HistoryRecordId id);
  // The entry was used `uses` times, the last time at `last`.
  void Used(HistoryRecordId id, std::uint32_t uses, double last);
  // Reports a use to the recency window and the LRU fallback, for the entry and its parents.
  void MoveInWindow(HistoryRecordId id, double at);
  void Observe(const HistoryRecord& record, double at);
  // Begins and ends counting a record as waiting in the return table.
  void StartWait(HistoryRecord* record);
  void StopWait(HistoryRecord* record);
  // Puts a record into the aging queue of its present step.
  void Requeue(HistoryRecordId id);
  void Finish(
      HistoryRecordId id);  // Updates class, wait, aging queue and eviction queues after a change.
  void PlaceInLines(HistoryRecordId id);
  // A new entry continues `parent`: updates the chain and which record waits.
  void Continue(HistoryRecordId parent, const NewEntry& by, HistoryRecordId record);
  HistoryRecordId EndOf(HistoryRecordId id) const;
  // Whether `by` replaces the present end of the parent's chain.
  bool Supersede(HistoryRecordId parent, std::uint64_t by);
  void NotSuperseded(const HistoryRecord& record);
  // `parent` becomes the end of its chain when `child` is removed.
  void Inherit(HistoryRecordId parent, HistoryRecordId child);
  // Marks an entry as the open end of a chain that is being set.
  void Open(HistoryRecordId id, HistoryRecordId parent);
  void TurnFor(HistoryRecord* record, const HistoryRecord* parent) const;
  // `remembered`: its record from before, if there is one.
  HistoryRecordId Enlist(const NewEntry& who, HistoryRecordId remembered, const Facts& facts);
  // Frees a record.
  void Drop(HistoryRecordId id);
  // Frees records of removed entries beyond `history_max_`.
  void ForgetOldest();
  // Inspects the entries that passed the end of a step, up to *looks of them.
  bool PassStep(std::size_t step, std::size_t* looks);
  void CountStreaming(std::size_t step, std::size_t to, Streaming* passing);

  const FactReader* const reader_;
  const std::size_t history_max_;
  ReturnTable table_;
  HistoryPool records_;
  GoneTable gone_;
  ZeroedTable<std::uint32_t> by_slot_;  // Number of the record plus one. 0: none.
  std::array<std::deque<Queued>, kSteps> queues_;
  std::deque<Evicted> evicted_;
  // Ends of the chains being set now, with the number of the set that made them.
  struct OpenChain {
    HistoryRecordId record = kNoRecord;
    std::uint32_t at = 0;
  };
  std::array<OpenChain, kOpenMax> open_;
  std::uint32_t sets_ = 0;
  std::array<ScoredQueue*, kScoredQueuesMax> scored_queues_{};
  std::vector<std::string> states_;
  // A cache of class lookups, by the fields that define the class.
  struct KnownClass {
    std::uint64_t key = ~std::uint64_t{0};
    ReturnClass c = 0;
  };
  std::array<KnownClass, 256> known_classes_;
  EntryId protected_count_{};
  // Decaying counts, so that recent hints weigh more.
  double done_said_ = 0;
  double done_back_ = 0;
  double prefill_s_ = 43e-6;  // Default: an 8B model on an H200, 32 K tokens in 1.4 s.
  std::uint64_t ghost_hits_ = 0;
  double now_ = 0;
  double looked_ = -1;
  bool behind_ = false;
  bool lacks_somebody_ = false;
  std::optional<TimePoint> epoch_;
  RecencyWindow window_;
  LruFallback lru_fallback_;
};

}  // namespace spillway
