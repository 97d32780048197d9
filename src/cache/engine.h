// SPDX-License-Identifier: Apache-2.0
// The Engine decides and acts, on the strand: it admits, commits and removes entries,
// runs the policy when pressure asks for it, sends values down and up, and expires
// entries whose time is over. It has no threads, no lock and no clock of its own; every
// call says what time it is. The Core (threads) and the simulator (seeds) drive it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/name_hash.h"
#include "cache/advice.h"
#include "cache/miss_ring.h"
#include "cache/store.h"
#include "cache/tier_state.h"
#include "cache/transfer.h"
#include "cache/transfer_counts.h"
#include "cache/transfer_log.h"
#include "spillway/cache.h"
#include "spillway/options.h"
#include "spillway/step_graph.h"

namespace spillway {

class EntryScores;
class UseLog;

class Engine {
 public:
  struct Settings {
    Options options;     // Checked by Open.
    Bytes reserve = 0;   // Kept free on a shared card; 0: none.
    int hash_bits = 64;  // Fewer make collisions, for tests.
    HashSeed hash_seed;
    // Most evictions and transfers of one step of relief; tests use few, to cut plans
    // apart.
    std::size_t moves_per_step = 4096;
    std::int64_t unix_offset = 0;  // See Store::Settings.
    // Free memory of the machine that the host tier leaves unused.
    Bytes host_reserve(Bytes total) const {
      const double share = options.reserve * static_cast<double>(total);
      return std::min(std::max(static_cast<Bytes>(share), options.reserve_bytes_min), total / 10);
    }
  };
  // `mover` is borrowed; null with a single tier, where nothing is transferred.
  static Result<std::unique_ptr<Engine>> Open(const Settings& settings, TierStack tiers,
                                              TransferQueue* transfer_queue);
  ~Engine();

  // What a finished transfer runs: on the strand, and it ends in Finish. Set once,
  // before any transfer.
  void OnTransfer(void (*run)(Strand::Task*), void* owner) {
    on_transfer_ = run;
    owner_ = owner;
  }
  void Finish(std::unique_ptr<Transfer> transfer, TimePoint now);
  bool anything_in_flight() const { return !transfers_.empty(); }
  // Checks whether the device is lost, and removes what was on it (engine_loss.cc).
  void NoticeLoss(TimePoint now);

  // --- writes ---

  // Checks that do not depend on state: key, tokens, names, size.
  Status Check(std::string_view key, Bytes bytes, const SetOptions& options) const;
  // Makes room for a checked entry and takes memory and a slot for it, in the highest
  // tier that takes it. Errors: Blocked, OverBudget, NoMemory, Busy; then nothing is
  // reserved. `soon`, if given, is set if room is being made below: try again when a
  // transfer has ended.
  Result<std::uint32_t> Admit(const NewEntry& entry, TimePoint now, bool* soon = nullptr);
  // Whether the last Admit removed the key's old generation to make room, so that
  // Commit will find the key to be new.
  bool replaced_for_room() const { return replaced_for_room_; }
  // Whether the last Admit passed over the key's old generation, which had to stay
  // (NewEntry::old_stays) and might have made room.
  bool old_was_in_way() const { return old_was_in_way_; }
  // Makes a reservation findable. True: the key did not exist before. `absent`: the key
  // was looked up in this very event and not found. Throws bad_alloc, and then the
  // reservation has been aborted.
  bool Commit(std::uint32_t reservation, TimePoint now, bool absent = false);
  void Abort(std::uint32_t reservation);
  bool Erase(std::uint64_t hash, std::string_view key, TimePoint now);
  // End of a live entry's own ttl; TimePoint::max(): it has none.
  TimePoint DeadlineOf(std::uint32_t slot) const;
  // Sets the deadline of a reservation, before it is committed.
  void GiveDeadline(std::uint32_t reservation, TimePoint deadline);
  // Replaces what a reservation's writer has said about it, and makes room for the
  // difference. Refuses as Check and Admit do; it is then still a reservation.
  Status Describe(std::uint32_t reservation, const SetOptions& options, TimePoint now);
  // Changes the deadline of a live entry, leased or not, wherever its copies are.
  // Throws bad_alloc, and then nothing has changed.
  void ChangeDeadline(std::uint32_t slot, TimePoint deadline);
  void Clear(TimePoint now);
  // Removes the keys of one group (Options::key_group).
  void ClearGroup(std::uint8_t group, TimePoint now);
  // Answers all gets and sets that wait, with an error; none waits from now on.
  void CancelPending();
  // Removes all entries without events: the cache is being closed. Blobs stay on disk.
  void Close();
  void Reap(std::uint32_t slot) { store_->Reap(slot); }
  // Whether, since the last call, something was set again or erased that could be found
  // on disk after a kill: then its writer is answered later.
  bool TakeDeletesPending() { return std::exchange(deletes_pending_, false); }
  // Whether a key was set or erased while an older blob of it may still be found,
  // because the disk has not been read in completely.
  bool has_written_during_recovery() const {
    return loading_ && (cleared_during_recovery_ != 0 || !keys_written_during_recovery_.empty());
  }
  // Before Close, for blobs that were found and not adopted: frees those older than a
  // set or an erase, so that the next start does not find them. Needs no memory.
  void FreeReplaced(const std::vector<BlobStore::Found>& found);
  // The same for blobs that were not even found.
  void FreeUnseen() {
    if (has_written_during_recovery()) TombstoneUnseen();
  }

  // A set that waits for room, first come first served. `retry` is called when
  // something has moved, or with `expired` when its deadline has passed. True: the set
  // is done, and may have been destroyed by then.
  struct PendingSet {
    PendingSet* before = nullptr;
    PendingSet* next = nullptr;
    TimePoint deadline = TimePoint::max();
    bool (*retry)(PendingSet* self, bool expired) = nullptr;
  };
  void AddPendingSet(PendingSet* pending_set);
  void RemovePendingSet(PendingSet* pending_set);  // One that is parked.
  bool has_pending_sets() const { return pending_sets_ != nullptr; }

  // --- reads of what is not in memory (engine_fetch.cc) ---

  // Answers through waiter->done, at once or later; never throws. To stop waiting, call
  // Abandon.
  void Fetch(PendingGet* pending_get, TimePoint now);
  void Abandon(PendingGet* pending_get);
  // Brings an entry up into free memory. True: it is there or on its way.
  bool Prefetch(std::uint64_t hash, std::string_view key, TimePoint now);

  // --- pressure and time ---

  // Takes one sample of a tier; empty: the reading failed. `total` converts bytes into
  // pressure. `held`: what the tier held at the time of the reading, if known.
  void Sample(TierId tier, std::optional<double> pressure, Bytes total, TimePoint now,
              std::optional<Bytes> held = {});
  // Advances time: expiry, dwell, the age of the last sample, calls that have waited
  // too long. Cheap when nothing is due. True: more is due than one call does; call
  // again.
  bool Tick(TimePoint now);
  // From now on samples come every `period`: one older than three periods counts as
  // failed. Zero: sampling has ended, and the last sample holds.
  void ExpectSamplesEvery(TierId tier, Duration period, TimePoint now);
  // After Stop: pressure is not known, and none is assumed.
  void ForgetPressure();

  enum class Progress : std::uint8_t { kDone, kMore, kNothingLeft };
  // Carries out what a tier's level asks for: at most `moves_per_step` evictions and
  // transfers, or until `out_of_time` returns true. Repeat while it returns kMore.
  Progress Relieve(TierId tier, TimePoint now, const std::function<bool()>& out_of_time);
  // Whether a sample that did not change the level still runs the policy.
  bool RunsOnEverySample() const { return top_->dirty->policy.rule->RunsOnEverySample(); }
  // Background work: copies idle entries down, brings up what is read often, verifies
  // blobs.
  void RunBackground(TimePoint now);
  // Drops clean copies from `tier`, then copies dirty ones down, until `bytes` of its
  // memory have been given back. Returns what this call gave back; `more`: more is
  // being copied down. Never destroys.
  Bytes GiveBack(TierId tier, Bytes bytes, TimePoint now, bool* more);
  // Reserves `bytes` of a tier's free memory for a process that asked for it; 0: no
  // longer. `others`: what others hold now; empty: as of the last sample.
  void ReserveForPeer(TierId tier, std::uint64_t who, Bytes bytes, std::optional<Bytes> others);

  // --- the step graph (engine_graph.cc) ---

  // From now on the graph's predictions order evictions while one of its runs is live.
  // Null: predictions no longer count. `order`, if given, tells the graph the order of
  // agents.
  void Attach(std::shared_ptr<StepGraph> graph, Cache::AgentOrder order, TimePoint now);
  const std::shared_ptr<StepGraph>& graph() const { return graph_; }
  // Reads what has changed in the graph since the last call. Cheap if nothing has.
  void SyncGraph(TimePoint now);
  // The same, also for keys whose use is far away (StepGraph::VisitChanges).
  void SyncGraphExactly(TimePoint now);
  // A client's prediction of an entry's next use. Never throws. Ignored without a graph
  // and without the policy "score".
  void Advise(std::string_view key, const Advice& advice, TimePoint now);
  // Records a miss of a key with this hash; processed by the next event.
  void NoteMiss(std::uint64_t hash) {
    if (scores_ != nullptr) missed_->Put(hash);
  }
  // A run is live: NORMAL and PRESSURE are WORKFLOW_AWARE.
  bool attached() const { return attached_; }
  // Whether the tier's level stands because no lower tier has room for copies.
  bool stands_for_want_of_room(TierId tier) const { return state(tier).no_room_below; }
  Mode mode(TierId tier) const {
    const Level at = level(tier);
    const bool aware = attached_ && (at == Level::kNormal || at == Level::kPressure);
    return aware ? Mode::kWorkflowAware : ModeOf(at);
  }
  Mode mode() const { return mode(store_->top()); }

  // --- what was there before (engine_fetch.cc) ---

  // Says that the disk is being read in.
  void Loading() { loading_ = true; }
  // Adds entries that were found on disk; `done`: they are the last. False: there is no
  // memory now for what is left in `found`; call again.
  bool Adopt(std::vector<BlobStore::Found>* found, bool done, TimePoint now);

  // --- answers ---

  Level level() const { return top_->level.load(std::memory_order_relaxed); }
  Level level(TierId tier) const { return state(tier).level.load(std::memory_order_relaxed); }
  // Empty: UNKNOWN.
  std::optional<double> pressure() const { return pressure(store_->top()); }
  std::optional<double> pressure(TierId tier) const;
  // Whether every set would be refused for pressure now.
  bool is_blocked() const;
  // Most bytes of entries; Tier::kUnlimited: no limit is set.
  Bytes capacity(TierId tier) const;
  Bytes capacity() const { return capacity(store_->top()); }
  Status WhyBlocked(std::string_view what) const;
  std::vector<std::string> EvictionOrder() const;
  std::vector<std::uint32_t> EvictionSlots() const;  // The same.
  std::string Explain(std::uint64_t hash, std::string_view key, TimePoint now) const;
  std::vector<Cache::InFlight> InFlight(std::size_t most) const;
  void CountInto(Stats* stats) const;

  Store& store() { return *store_; }
  const Store& store() const { return *store_; }
  TransferLog& transfer_log() { return log_; }
  Order& order() { return *top_->dirty->policy.order; }
  // Records uses there from now on; null: nowhere. Borrowed.
  void RecordTo(UseLog* uses) { uses_ = uses; }
  // Whether the entry is in the idle ranking of every tier that it may be evicted from.
  // Between events this holds for all entries, unless there was no memory for it.
  bool IsQueued(std::uint32_t slot) const;
  const Settings& settings() const { return settings_; }
  bool single() const { return top_->last(); }

 private:
  friend class Flusher;  // flush.cc
  struct Need;
  class Candidates;
  template <typename T>
  static T Excess(T have, T limit) {
    return have > limit ? have - limit : 0;
  }
  struct Victim {
    EntryId id;
    Reason reason;
  };
  enum class RoomOf : std::uint8_t {
    kAny,         // That of duplicates, and of entries ranked lower.
    kLastCopies,  // That of entries ranked lower, without a copy above: it makes more clean.
    kNone         // Relief: no last copy is destroyed for it.
  };
  struct Why {
    Action action;
    Reason reason;
    std::string_view order;
    // What copies may take in the tiers below, besides free room.
    RoomOf below = RoomOf::kAny;
  };

  static constexpr std::size_t kCandidatesMax = 1024;
  static constexpr std::uint32_t kAllGroups = (std::uint32_t{1} << kKeyGroups) - 1;

  Engine(const Settings& settings, std::unique_ptr<Store> store, TransferQueue* transfer_queue);
  TierState& state(TierId tier) { return *states_[IndexOf(tier)]; }
  const TierState& state(TierId tier) const { return *states_[IndexOf(tier)]; }

  // engine_room.cc
  Status MakeRoom(const NewEntry& entry, std::uint32_t old, TimePoint now);
  bool PlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan);
  bool TryPlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan);
  void CancelPlan(std::vector<Victim>* plan);
  Bytes GrowthLimit(const TierState& tier) const;
  bool KeepReserve(TierState& tier, const NewEntry& entry, TimePoint now);
  // Free memory that the tier does not grow into: the reserve, and what is granted.
  static Bytes LeftFree(const TierState& tier);
  static std::string ReservedForPeers(const TierState& tier);
  Result<std::uint32_t> PlaceSomewhere(const NewEntry& entry, TimePoint now, bool* later);
  // Store::Reserve, and the old generation goes that was to go last.
  Result<std::uint32_t> ReserveIn(const TierState& tier, const NewEntry& entry, TimePoint now);
  Result<std::uint32_t> PlaceIn(TierState& tier, const NewEntry& entry, TimePoint now);
  bool DropForRoom(TierState& tier, Bytes lacking, const Why& why, TimePoint now);
  Bytes PlanDrops(TierState& tier, Bytes lacking, std::vector<EntryId>* plan);
  TierState* Above(const TierState& tier) const;

  // engine_lowest.cc: last copies are destroyed, lowest ranked first, wherever they are.
  bool IsFullBelow(const TierState& tier, Bytes bytes, TimePoint now) const;
  Bytes PastLimit(const TierState& tier) const;
  bool IsLinkBusy(const TierState& tier) const;
  void StayUnderLimit(TierState& tier, const NewEntry& entry, TimePoint now);
  Bytes GiveUpLowest(TierState& tier, Bytes bytes, const Why& why, EntryId except, TimePoint now);

  // engine_relief.cc
  Progress RunStage(TierState& tier, const Stage& stage, TimePoint now,
                    const std::function<bool()>& out_of_time);
  Progress Choose(TierState& tier, const Stage& stage, Level ranked_at, const Why& why,
                  std::size_t* transfers, TimePoint now);
  void RunPlan(const Why& why, TimePoint now);
  bool TargetReached(const TierState& tier, const Stage& stage, Bytes going) const;
  std::optional<EntryId> NextIdle(TierState& tier, const Stage& stage, TimePoint now);
  bool Expire(TierState& tier, TimePoint now);
  bool ExpireSome(TierState& tier, TimePoint now);
  static bool IsSampleOld(const TierState& tier, TimePoint now);
  void CheckSampleAge(TierState& tier, TimePoint now);
  void ExpireOwnDeadlines(TimePoint now);
  void NoteDeadline(EntryId id, TimePoint deadline);
  bool IsLeafOrAlone(std::uint32_t slot) const;
  bool MustDestroy(const TierState& tier, const Stage& stage, std::uint32_t slot,
                   TimePoint now) const;
  // Whether relief of this tier may destroy no last copy now, here or in a lower tier.
  bool SparesLastCopies(const TierState& tier) const;
  // Whether pressure is unknown, and the tier's own share is the target of relief.
  bool IsShrinking(const TierState& tier) const;
  // The level as far as entries may come up into the tier: one that stands only because
  // nothing more can be made clean keeps none of them out.
  Level LevelForGrowth(const TierState& tier) const;
  void DropIdle(TierState& tier, Duration idle_over, TimePoint now);
  void HoldReserve(TierState& tier, TimePoint now);
  void PutBack();

  void RankTheUnranked();

  // engine_graph.cc
  void SyncGraphChanges(TimePoint now);
  void AskOutside(TimePoint now);
  void UpdateNextUse(std::uint32_t slot, const KeyFacts& facts, TimePoint now);
  // For a new entry: registers its agent, and reads what the graph knows of it. Never
  // throws.
  void Introduce(std::uint32_t slot, TimePoint now);
  void LinkUp(std::uint32_t slot);
  // For a removed entry. `for_good`: the graph may forget its key.
  void ForgetNextUse(std::uint32_t slot, bool for_good);
  void Trust(const Pulse& pulse);
  void Judge(const NextUse& next_use, std::uint32_t slot);
  void BindToStep(std::string_view step, std::string_view key, TimePoint now);
  void JudgeAdvice(const NextUse& next_use, std::uint32_t slot);
  bool IsProtected(const TierState& tier, std::uint32_t slot) const;
  std::vector<std::uint32_t> PredictedOrder() const;

  // engine_score.cc: what is learnt of entries. All of it does nothing without the
  // policy "score", and never throws.
  void OpenScores();
  void TakeReportedUses(TimePoint now);
  void OnInsert(std::uint32_t slot, TimePoint now);
  void OnRemove(std::uint32_t slot, Reason reason, TimePoint now);
  void TellScores(std::string_view key, const Advice& advice, TimePoint now);
  void MeasureCopy(const Transfer& transfer, TimePoint now);
  bool BelongsBelow(TierState& tier, const NewEntry& entry, TimePoint now);
  EntryId ParentNamed(const NewEntry& entry) const;
  void CountScores(ScoreStats* stats) const;
  std::string ExplainWorth(std::uint32_t slot, TierId tier, TimePoint now) const;
  // While room is made for a new entry, its parent is not evicted for it.
  class ProtectedParent {
   public:
    ProtectedParent(Engine* engine, const NewEntry& entry);
    ~ProtectedParent();
    ProtectedParent(const ProtectedParent&) = delete;
    ProtectedParent& operator=(const ProtectedParent&) = delete;

   private:
    EntryScores* const scores_;
  };
  void NothingStays() {
    stays_ = kNoSlot;
    goes_last_.reset();
  }
  // What no room is made of while something is admitted; kNoSlot: nothing.
  class Staying {
   public:
    Staying(Engine* engine, std::uint32_t slot) : engine_(engine) { engine->stays_ = slot; }
    ~Staying() { engine_->NothingStays(); }
    Staying(const Staying&) = delete;
    Staying& operator=(const Staying&) = delete;

   private:
    Engine* const engine_;
  };
  bool RanksByScore() const;
  bool ScoresAreIncomplete();
  void WentDown(std::uint32_t slot);

  // engine_ahead.cc
  static double EtaOf(const NextUse& next_use, TimePoint now);
  bool IsSoon(const NextUse& next_use, TimePoint now) const;
  bool IsUp(std::uint32_t slot) const;
  void NoteSoon(const NextUse& next_use, TimePoint now);
  void PrefetchAhead(TimePoint now);
  void TryPrefetchAhead(TimePoint now);
  bool BringChain(std::uint32_t slot, TimePoint now);
  bool BringAhead(std::uint32_t slot, const NextUse& next_use, TimePoint now);
  bool DropAfterwards(TierState& tier, const NextUse& next_use, Bytes bytes, TimePoint now);
  void CancelPrefetchOf();
  void AheadIsLate(std::uint32_t slot);
  void AheadArrived(std::uint32_t slot, bool arrived);
  void AheadGone(std::uint32_t slot);

  // engine_loss.cc
  // Whether the device may still write to the destination of a failed copy.
  bool InDoubt() const;

  // engine_moves.cc: transfers between tiers.
  enum class Going : std::uint8_t {
    kDown,    // It is in flight.
    kFull,    // No room, or too many transfers, for now.
    kNowhere  // No tier below takes it.
  };
  // Never throws: without memory it returns kNowhere.
  Going SendDown(TierState& tier, std::uint32_t slot, const Why& why, Priority priority,
                 bool then_drop, TimePoint now);
  Going TrySendDown(TierState& tier, std::uint32_t slot, const Why& why, Priority priority,
                    bool then_drop, TimePoint now);
  // Space in a lower tier for `slot`: free, or by evicting entries that are ranked
  // lower. An ask destroys nothing.
  struct ForWhat {
    Reason reason;
    Priority priority;
    RoomOf below = RoomOf::kAny;
  };
  std::optional<CopyDestination> RoomBelow(TierState& tier, std::uint32_t slot, const ForWhat& what,
                                           TimePoint now, bool* soon);
  // engine_trade.cc: in a full host tier a copy makes way for one of more use.
  bool RebalanceBackups(TierState& host, std::uint32_t slot, Priority priority, TimePoint now);
  bool MayRebalanceBackups(const TierState& host, std::uint32_t other, std::uint32_t slot,
                           std::uint32_t children, bool urgent, TimePoint now) const;
  std::span<const std::uint32_t> EndOfChain(const TierState& host, std::uint32_t end,
                                            std::uint32_t slot, bool urgent, TimePoint now,
                                            std::array<std::uint32_t, 4>* ends) const;
  void BackupTails(TierState& tier, Reason reason, TimePoint now);
  bool KeepsOthers(const TierState& tier, std::uint32_t slot) const;
  bool IsEnd(const TierState& tier, std::uint32_t slot) const;
  bool IsEvictedLater(const TierState& from, std::uint32_t other, std::uint32_t slot, bool urgent,
                      TimePoint now) const;
  // engine_close.cc: completes the copies of chains that lack the fewest.
  class Closing;
  void CompleteChains(TierState& tier, TimePoint now);
  bool IsNearlyFull(const TierState& tier) const;
  bool MayBeEvicted(const TierState& tier, std::uint32_t slot) const;
  // Whether the tier could receive it, if transfer threads and room allow: not in
  // EMERGENCY, large enough, not failed.
  bool MayTake(const TierState& tier, std::uint32_t slot, TimePoint now) const;
  // The same once it has rested from a failed copy (TierState::write_backoff_until).
  bool MayTakeSoon(const TierState& tier, std::uint32_t slot) const;
  // Whether no lower tier takes `slot` now, and one will when it has rested.
  bool LowerTiersRest(const TierState& tier, std::uint32_t slot, TimePoint now) const;
  Bytes BytesOnlyIn(const TierState& tier) const;
  bool SendSomeDown(TierState& tier, Bytes bytes, const Why& why, Priority priority, TimePoint now,
                    bool then_drop = false);
  // Takes over the destination in any case, and frees it on failure. False: too many
  // leases, or no thread to run the transfer.
  bool StartTransfer(std::unique_ptr<Transfer> transfer, std::uint32_t slot);
  void PrepareTransfer(Transfer* transfer, std::uint32_t slot);
  void ReleaseDestination(const Transfer& transfer);
  void FinishDown(Transfer& transfer, TimePoint now);
  void FinishScrub(Transfer& transfer, TimePoint now);
  void FetchAgain(Transfer& transfer, TimePoint now);
  // Drops a copy whose checksums do not match; with the last copy, the entry.
  void DropCorrupt(TierState& tier, std::uint32_t slot, TimePoint now);
  // Drops one copy; the entry stays. False: that copy is leased or in a transfer.
  bool Drop(TierState& tier, std::uint32_t slot, const Why& why, TimePoint now);
  // Drops the copy; if it is the last one, removes the entry.
  bool DropOrRemove(TierState& tier, std::uint32_t slot, const Why& why, TimePoint now);
  template <typename Enough>
  void DropClean(TierState& tier, const Why& why, TimePoint now, Enough&& enough);
  void DropCleanBytes(TierState& tier, Bytes bytes, const Why& why, TimePoint now);
  // `bytes` counts the memory that the tier returns to the machine.
  void DropCleanChunks(TierState& tier, Bytes bytes, const Why& why, TimePoint now);
  void DropCleanUntil(TierState& tier, const Stage& stage, const Why& why, TimePoint now);
  // After a change of its copies: puts the entry into the right queue of each tier.
  void Requeue(std::uint32_t slot, TierMask before);
  void WriteBack(TierState& tier, TimePoint now);
  void Scrub(TimePoint now);
  void Promote(TimePoint now);
  void NoteCandidate(std::uint32_t slot);
  void RetryPendingSets(TimePoint now, bool look_at_deadlines);

  // engine_fetch.cc
  Status Bring(std::uint32_t slot, std::optional<Place> where, TimePoint now);
  // `may_lend`: into a staging buffer, if no tier has room.
  Status BringUp(std::uint32_t slot, Priority priority, bool may_lend, TimePoint now);
  bool BringToDevice(std::uint32_t slot, Priority priority, TimePoint now);
  bool RoomOnDevice(std::uint32_t slot, TimePoint now, CopyDestination* destination);
  bool RoomAbove(TierState& tier, std::uint32_t slot, bool may_displace, TimePoint now,
                 CopyDestination* destination);
  bool DropLower(TierState& tier, std::uint32_t slot, Bytes bytes, TimePoint now);
  void FinishUp(Transfer& transfer, TimePoint now);
  void TryFetch(PendingGet* pending_get, TimePoint now);
  // Gives each of them a lease on `slot`; kNoSlot: the key is not there.
  void Answer(PendingGet* pending_gets, std::uint32_t slot, const Status& status);
  bool IsReplaced(const BlobStore::Found& blob) const;
  void AdoptOne(BlobStore::Found* blob, TimePoint now);
  void EndLoading(TimePoint now);
  void ExpirePendingGets(TimePoint now);
  void FreeStaging(TimePoint now);

  // Removal of a live slot: links, rankings, event, account.
  void Remove(std::uint32_t slot, bool owned, const Why& why, TimePoint now);
  void Log(std::uint32_t slot, TierId tier, const Why& why, TimePoint now);
  void NoteSet(std::uint32_t slot) const;
  // Gives back memory if many of `before` entries have been removed.
  void ShrinkAfter(std::size_t before);
  // The two halves of Remove: the parent may be evictable now, and all the rest.
  void ReleaseParent(std::uint32_t slot, TierMask tiers);
  void RemoveFromTier(std::uint32_t slot, bool owned, const Why& why, TimePoint now);
  // True: no reader holds it or can get it any more.
  bool TakeUnlessLeased(std::uint32_t slot);
  bool RemoveUnlessLeased(std::uint32_t slot, const Why& why, TimePoint now);
  void RemoveEvenIfLeased(std::uint32_t slot, const Why& why, TimePoint now);
  void RemoveHidden(std::uint32_t slot, const Why& why, TimePoint now);
  // Its key was set again or erased: no blob of it may be found after a restart.
  void Tombstone(std::uint32_t slot);
  void TellDiskOfDeadline(std::uint32_t slot);
  void FlushBeforeAnswer();
  void TombstoneUnseen();
  void RecordWrittenDuringRecovery(std::string_view key);

  // Puts `slot` into the eviction queue of every tier that holds it.
  void Enter(std::uint32_t slot);
  void SetLevel(TierState& tier, Level level, TimePoint now);
  // Our bytes have changed: the governor sees the corrected pressure now, not at the
  // next tick.
  void RecordTransfers(TimePoint now);
  // How much is lacking for `bytes` more in a tier: of its capacity, or of the memory
  // that is free beyond the reserve.
  Bytes Lacking(const TierState& tier, Bytes bytes) const;
  // Our bytes in a tier that could not be given back at once.
  Bytes DirtyBytes(const TierState& tier) const {
    return single() ? store_->bytes(tier.id) : store_->bytes(tier.id) - store_->clean(tier.id);
  }
  void NoteArrival(const Transfer& transfer, TimePoint now);
  std::string ExplainNow(std::uint64_t hash, std::string_view key, TimePoint now) const;
  std::string ExplainLive(std::uint32_t slot, const std::vector<TransferLog::Trace>& traces,
                          TimePoint now) const;
  static std::string History(const std::vector<TransferLog::Trace>& traces,
                             std::uint64_t generation, std::size_t skip, TimePoint now);
  void CountTier(const TierState& tier, TierStats* stats) const;
  double Pressure(const TierState& tier) const {
    return tier.estimator.Corrected(DirtyBytes(tier));
  }
  Bytes FreeMemory(const TierState& tier) const;
  std::string_view OrderName(const TierState& tier) const {
    return tier.dirty->OrderName(tier.level.load(std::memory_order_relaxed));
  }
  std::optional<EntryId> NextByOrder(
      const TierState& tier, EvictionQueue& queue,
      WorkflowOrder::CandidateFilter filter = WorkflowOrder::CandidateFilter::kNotProtected) {
    return queue.Next(tier.level.load(std::memory_order_relaxed), filter);
  }

  const Settings settings_;
  const std::unique_ptr<Store> store_;
  TransferQueue* const transfer_queue_;
  void (*on_transfer_)(Strand::Task*) = nullptr;
  void* owner_ = nullptr;
  TransferLog log_;
  UseLog* uses_ = nullptr;
  NextUseTable next_uses_;
  // With the policy "score" only. Threads that miss read some of them.
  alignas(64) std::unique_ptr<FactReader> any_view_;
  std::unique_ptr<EntryScores> scores_;
  std::unique_ptr<MissRing> missed_;
  alignas(
      64) std::array<double, kTiers> copy_rates_{};  // Up from there, bytes a second; 0: not yet.
  std::uint64_t sent_below_ = 0;
  TimePoint placed_below_;  // When the queues were last told of the rates.
  std::array<std::unique_ptr<TierState>, kTiers> states_;
  TierState* top_ = nullptr;
  TierState* bottom_ = nullptr;

  struct Deadline {
    TimePoint at;
    EntryId id;
    friend bool operator>(const Deadline& a, const Deadline& b) { return a.at > b.at; }
  };
  // A heap, earliest first. Deadlines that have changed or whose entry is gone stay
  // until due, or until they are most of the heap.
  std::vector<Deadline> deadlines_;

  // Taken out of a queue and not evicted; entered again at the end of the step.
  std::vector<EntryId> candidates_back_;
  std::vector<std::uint32_t> chosen_;  // Chosen by a stage; no reader can get them any more.
  std::vector<Victim> room_plan_;      // MakeRoom's, kept to save allocations.
  // Idle entries ranked by an order that is not last use (NextIdle).
  std::vector<EntryId> idle_candidates_;

  PendingSet* pending_sets_ = nullptr;  // First come first.
  PendingSet* last_pending_set_ = nullptr;
  bool waking_ = false;
  std::vector<Transfer*> transfers_;
  // Values lent from staging buffers; freed when they are not leased any more.
  std::vector<EntryId> staging_;
  std::vector<EntryId> candidates_;  // For promotion: read from a tier below.
  std::uint32_t scrub_at_ = 0;
  TimePoint scrubbed_at_{};
  bool loading_ = false;
  bool adopting_waits_ = false;  // There was no memory for what was found.
  bool pending_cancelled_ = false;
  bool closed_ = false;
  bool deletes_pending_ = false;
  bool replaced_for_room_ = false;
  std::uint32_t stays_ = kNoSlot;     // The slot of NewEntry::old_stays during its admission.
  std::optional<EntryId> goes_last_;  // NewEntry::old_goes_last: makes room, and is still there.
  bool old_was_in_way_ = false;
  bool recovery_failed_ =
      false;  // Some of the disk could not be read in; a later start may find it.
  // Keys set or erased while the disk is read in: blobs found of them are older.
  std::unordered_set<std::string, NameHash> keys_written_during_recovery_;
  std::uint32_t cleared_during_recovery_ = 0;  // A bit for each group cleared meanwhile.
  PendingGet* for_loading_ = nullptr;          // Gets of keys that may still be found.
  struct Orphan {
    EntryId id;
    std::string parent;
    std::uint64_t generation;
  };
  std::vector<Orphan> orphans_;  // Found before their parents.

  std::shared_ptr<StepGraph> graph_;
  Cache::AgentOrder outside_;        // Tells the order of agents, instead of the graph's clients;
  std::vector<std::string> agents_;  // and what it told last.
  std::uint64_t heard_ = 0;          // What the graph had been told when it was last read.
  TimePoint heard_at_{};
  std::uint64_t graph_version_ = 0;
  bool attached_ = false;
  struct Told {
    EntryId id;
    KeyFacts facts;
  };
  std::vector<Told> told_;
  // Predictions of the graph that came true and that did not; recent ones weigh more.
  double right_ = 0;
  double wrong_ = 0;
  bool trusted_ = true;
  // Of the entries said to be used again: how many were, and how many were not in time.
  double again_right_ = 9;
  double again_wrong_ = 1;
  // Prefetched ahead of a step: in flight, or up and not read yet.
  struct Ahead {
    EntryId id;
    Bytes bytes = 0;
    std::uint64_t uses_then = 0;
    bool arrived = false;
  };
  std::unordered_map<std::uint32_t, Ahead> ahead_;
  std::vector<EntryId> soon_;  // Will be used soon, and are not up.
  // Prefetches that found too little room in this scan, by tier: a like one fails at
  // once.
  struct NoRoom {
    Bytes bytes;
    std::uint32_t steps;
    double rate;
  };
  std::array<std::optional<NoRoom>, kTiers> no_room_;
  Bytes kept_for_running_ = 0;
  double up_rate_ = 0;             // Bytes a second, measured; 0: not yet.
  TimePoint ahead_rests_until_{};  // No prefetch until then, after one failed.
  std::uint64_t starts_seen_ = 0;
  std::uint64_t mispredictions_seen_ = 0;

  std::uint64_t sets_ = 0;
  std::uint64_t refused_blocked_ = 0;
  std::uint64_t refused_budget_ = 0;
  std::uint64_t refused_other_ = 0;
  TransferCounts counts_;
};

}  // namespace spillway
