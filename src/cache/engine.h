// The Engine decides and does, on the strand: it admits, commits and removes,
// runs the policy when pressure asks for it, sends values down and up, and lets
// expire what is over its time. It has no thread, no lock and no clock of its
// own; every call says what time it is. cache.cc (threads) and the simulator
// (seeds) drive it.
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

#include "cache/advice.h"
#include "cache/inlet.h"
#include "cache/miss_ring.h"
#include "cache/move.h"
#include "cache/move_counts.h"
#include "cache/move_log.h"
#include "cache/store.h"
#include "cache/tier_state.h"
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
    // Most moves one step of relief makes; tests use few, to cut plans apart.
    std::size_t moves_per_step = 4096;
    std::int64_t unix_offset = 0;  // See Store::Settings.
    // Of the machine's memory, what the host tier leaves free.
    Bytes host_reserve(Bytes total) const {
      const double share = options.reserve * static_cast<double>(total);
      return std::min(std::max(static_cast<Bytes>(share), options.reserve_bytes_min), total / 10);
    }
  };
  // `mover` is borrowed; null with a single tier, where nothing moves.
  static Result<std::unique_ptr<Engine>> Open(const Settings& settings, TierStack tiers,
                                              Mover* mover);
  ~Engine();

  // What a transfer does when it has been carried: on the strand, it ends in
  // Finish. Said once, before any.
  void OnMove(void (*run)(Strand::Task*), void* owner) {
    on_move_ = run;
    owner_ = owner;
  }
  void Finish(std::unique_ptr<Move> transfer, TimePoint now);
  bool anything_under_way() const { return !transfers_.empty(); }
  // Looks whether the device is lost, and lets go of what was on it (engine_loss.cc).
  void NoticeLoss(TimePoint now);

  // --- writes ---

  // Checks what does not depend on state: key, tokens, names, size.
  Status Check(std::string_view key, Bytes bytes, const SetOptions& options) const;
  // Room, memory and a slot for a checked entry, in the highest tier that takes
  // it. Refused: Blocked, OverBudget, NoMemory, Busy; then nothing has changed.
  // `soon`, if given, is set where room is being made below: ask again when
  // something has moved.
  Result<std::uint32_t> Admit(const NewEntry& entry, TimePoint now, bool* soon = nullptr);
  // Whether the last Admit made room by letting go of the key's old generation,
  // so that Commit will find the key to be new.
  bool replaced_for_room() const { return replaced_for_room_; }
  // Sets a checked key anew where it stands, if nothing of it changes but its
  // bytes and nobody reads it: the least a set can cost. False: nothing has
  // changed; Admit it. (engine_rewrite.cc)
  bool Rewrite(const NewEntry& entry, const Source& source, TimePoint now);
  // Without memory it throws bad_alloc, and the reservation is aborted.
  // True: the key was not there before.
  // `absent`: that was looked up in this very event.
  bool Commit(std::uint32_t reservation, TimePoint now, bool absent = false);
  void Abort(std::uint32_t reservation);
  bool Erase(std::uint64_t hash, std::string_view key, TimePoint now);
  // End of a live entry's own ttl; TimePoint::max(): it has none.
  TimePoint DeadlineOf(std::uint32_t slot) const;
  // The same of a reservation, before it is committed.
  void GiveDeadline(std::uint32_t reservation, TimePoint deadline);
  // What a reservation's writer says of it at last, with room made for that:
  // refused as Check and Admit refuse, and then still a reservation.
  Status Describe(std::uint32_t reservation, const SetOptions& options, TimePoint now);
  // Changes that of a live entry in place. False: it is leased, or a disk knows
  // it by the old one; then only setting it anew helps.
  bool ChangeDeadline(std::uint32_t slot, TimePoint deadline);
  void Clear(TimePoint now);
  // Nobody waits any more, for a copy to come up or for room: all are answered.
  void TurnAway();
  // Everything goes, nobody is told: the cache is being closed. Blobs stay.
  void Close();
  void Reap(std::uint32_t slot) { store_->Reap(slot); }
  // Whether something that was set anew or erased since the last call could be
  // found on disk again after a kill: then its writer is answered later.
  bool TakeUnsettled() { return std::exchange(unsettled_, false); }
  // Whether something was set or erased of which an older blob may still be
  // found, since not all of the disk has been read in.
  bool has_written_early() const { return loading_ && (cleared_early_ || !written_early_.empty()); }
  // Before Close, for what was found and not adopted: what is older than what
  // was set or erased since must not be found another time. Needs no memory.
  void FreeReplaced(const std::vector<BlobStore::Found>& found);
  // The same for what was not even found.
  void FreeUnseen() {
    if (has_written_early()) RevokeUnseen();
  }

  // A set that waits for room, first come first served. `retry` is called when
  // something has moved, or with `expired` when its time is over; true: it is
  // done, and gone from the list before.
  struct Parked {
    Parked* next = nullptr;
    TimePoint deadline = TimePoint::max();
    bool (*retry)(Parked* self, bool expired) = nullptr;
  };
  void Park(Parked* parked);
  void Unpark(Parked* parked);
  bool anybody_parked() const { return parked_ != nullptr; }

  // --- sets beside the strand (engine_inlet.cc) ---

  Inlet& inlet() { return inlet_; }
  const Inlet& inlet() const { return inlet_; }
  // Reservations for sets of that size, as many as are sensible, maybe none. Beside
  // the gate.
  void Stock(Inlet::Lane* lane, Bytes bytes, TimePoint now);
  // Around every other event.
  void ShutInlet(const Clock& clock);
  void ReopenInlet();

  // --- reads of what is not in memory (engine_fetch.cc) ---

  // Answers by waiter->done, at once or later; never throws. Wait no longer:
  // Abandon.
  void Fetch(Waiter* waiter, TimePoint now);
  void Abandon(Waiter* waiter);
  // Brings it up into memory that is free. True: it is there or on its way.
  bool Prefetch(std::uint64_t hash, std::string_view key, TimePoint now);

  // --- pressure and time ---

  // One sample of a tier; empty: the reading failed. `total` scales what leaves.
  // `held`: what the tier held then, if that is known.
  void Sample(TierId tier, std::optional<double> pressure, Bytes total, TimePoint now,
              std::optional<Bytes> held = {});
  // Moves time on: expiry, dwell, the age of the last sample, who has waited
  // too long. Cheap when nothing is due. True: more is due than one call does;
  // call again.
  bool Look(TimePoint now);
  // Samples come every `period` from now on: one older than three of them is
  // as good as none. Zero: nobody is sampling, and the last one holds.
  void ExpectSamplesEvery(TierId tier, Duration period, TimePoint now);
  // After Stop: no pressure is known, none is assumed.
  void ForgetPressure();

  enum class Progress : std::uint8_t { kDone, kMore, kNothingLeft };
  // Carries out what a tier's level asks for, for at most `moves_per_step`
  // moves or until `out_of_time` says so. Repeat while it answers kMore.
  Progress Relieve(TierId tier, TimePoint now, const std::function<bool()>& out_of_time);
  // Whether a sample that did not change the level still runs the policy.
  bool RunsOnEverySample() const { return top_->firm->policy.rule->RunsOnEverySample(); }
  // Work for quiet times: copies down of what is idle, up of what is read.
  void Tend(TimePoint now);
  // Drops backed copies from `tier`, then sends others down, until `bytes` of
  // its memory are returned. Returns what was returned by this call; `more`:
  // some are on their way. Never destroys.
  Bytes GiveBack(TierId tier, Bytes bytes, TimePoint now, bool* more);
  // Somebody who asked has `bytes` of a tier's free memory promised; 0: no
  // longer. `others`: what others hold now; empty: as the last sample says.
  void Promise(TierId tier, std::uint64_t who, Bytes bytes, std::optional<Bytes> others);

  // --- the step graph (engine_graph.cc) ---

  // From now on what it says of keys orders who leaves, while a run of it is
  // live. Null: nobody's word counts any more. `order`, if given, is where the
  // graph gets its word from.
  void Attach(std::shared_ptr<StepGraph> graph, Cache::AgentOrder order, TimePoint now);
  const std::shared_ptr<StepGraph>& graph() const { return graph_; }
  // Hears what the graph has been told since. Cheap when that is nothing.
  void Follow(TimePoint now);
  // The same of what is far away, too (StepGraph::VisitChanges).
  void FollowExactly(TimePoint now);
  // A client's word on an entry's next use. Never throws; without a graph or the
  // policy "score" it is not heard.
  void Advise(std::string_view key, const Advice& advice, TimePoint now);
  // Somebody missed a key of this hash; heard with the next event.
  void NoteMiss(std::uint64_t hash) {
    if (scores_ != nullptr && MayBeNoted(hash)) missed_->Put(hash);
  }
  // A run is live: NORMAL and PRESSURE are WORKFLOW_AWARE.
  bool attached() const { return attached_; }
  Mode mode(TierId tier) const {
    const Level at = level(tier);
    const bool aware = attached_ && (at == Level::kNormal || at == Level::kPressure);
    return aware ? Mode::kWorkflowAware : ModeOf(at);
  }
  Mode mode() const { return mode(store_->top()); }

  // --- what was there before (engine_fetch.cc) ---

  void Loading() { loading_ = true; }
  // Enters what was found; `done`: that was all. False: for what is left of it
  // there is no memory now; call again.
  bool Adopt(std::vector<BlobStore::Found>* found, bool done, TimePoint now);

  // --- answers ---

  Level level() const { return top_->level.load(std::memory_order_relaxed); }
  Level level(TierId tier) const { return state(tier).level.load(std::memory_order_relaxed); }
  // Empty: UNKNOWN.
  std::optional<double> pressure() const { return pressure(store_->top()); }
  std::optional<double> pressure(TierId tier) const;
  // Would any set be refused for pressure now?
  bool is_blocked() const;
  // Most bytes of entries; Tier::kUnlimited: none set.
  Bytes capacity(TierId tier) const;
  Bytes capacity() const { return capacity(store_->top()); }
  Status WhyBlocked(std::string_view what) const;
  std::vector<std::string> LeavingOrder() const;
  std::string Explain(std::uint64_t hash, std::string_view key, TimePoint now) const;
  std::vector<Cache::UnderWay> UnderWay(std::size_t most) const;
  void CountInto(Stats* stats) const;

  Store& store() { return *store_; }
  const Store& store() const { return *store_; }
  MoveLog& move_log() { return log_; }
  Order& order() { return *top_->firm->policy.order; }
  // Uses are noted there from now on; null: nowhere. Borrowed.
  void RecordTo(UseLog* uses) { uses_ = uses; }
  // Whether idle limits and TTLs find it in every tier where it may leave. Between
  // events nobody is left out, unless there was no memory for it.
  bool IsInLine(std::uint32_t slot) const;
  const Settings& settings() const { return settings_; }
  bool single() const { return top_->last(); }

 private:
  friend class Flusher;  // flush.cc
  struct Need;
  class Aside;
  template <typename T>
  static T Excess(T have, T limit) {
    return have > limit ? have - limit : 0;
  }
  struct Victim {
    EntryId id;
    Reason reason;
  };
  struct Why {
    Action action;
    Reason reason;
    std::string_view order;
  };

  static constexpr std::size_t kCandidatesMax = 1024;

  Engine(const Settings& settings, std::unique_ptr<Store> store, Mover* mover);
  TierState& state(TierId tier) { return *states_[IndexOf(tier)]; }
  const TierState& state(TierId tier) const { return *states_[IndexOf(tier)]; }

  // engine_rewrite.cc
  bool MayRewrite(const NewEntry& entry, std::uint32_t slot) const;
  bool FitsInPlace(const NewEntry& entry, bool* early) const;

  // engine_room.cc
  Status MakeRoom(const NewEntry& entry, std::uint32_t old, TimePoint now);
  bool PlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan);
  bool TryPlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan);
  void Unplan(std::vector<Victim>* plan);
  Bytes GrowthLimit(const TierState& tier) const;
  bool KeepReserve(TierState& tier, const NewEntry& entry, TimePoint now);
  // Free memory the tier does not grow into: the reserve, and what is promised.
  static Bytes LeftFree(const TierState& tier);
  static std::string Promised(const TierState& tier);
  Result<std::uint32_t> PlaceSomewhere(const NewEntry& entry, TimePoint now, bool* later);
  Result<std::uint32_t> PlaceIn(TierState& tier, const NewEntry& entry, TimePoint now);
  bool DropForRoom(TierState& tier, Bytes lacking, const Why& why, TimePoint now);
  Bytes PlanDrops(TierState& tier, Bytes lacking, std::vector<EntryId>* plan);
  TierState* Above(const TierState& tier) const;

  // engine_inlet.cc
  bool MayStock() const;
  std::uint32_t StockFor(Bytes bytes, std::uint32_t have, TimePoint now) const;
  bool MakeRoomAhead(std::uint32_t entries, Inlet::Lane* lane, TimePoint now);
  bool LetGoAhead(Need* need, std::uint32_t full, Inlet::Lane* lane, TimePoint now);
  void EnrolAll(Inlet::Lane* lane, TimePoint now);
  void TidyUp(Inlet::Lane* lane, TimePoint now);
  void Unstock(Inlet::Lane* lane);
  struct Stocked {
    std::size_t slots = 0;
    Bytes bytes = 0;
  };
  Stocked stocked() const;
  bool UnstockAll();
  // Entries leave for room one after another.
  void NoteRoomMade(std::size_t entries, TimePoint now);
  bool IsChurning(TimePoint now) const;

  // engine_relief.cc
  Progress RunStage(TierState& tier, const Stage& stage, TimePoint now,
                    const std::function<bool()>& out_of_time);
  Progress Choose(TierState& tier, const Stage& stage, Level ranked_at, const Why& why,
                  std::size_t* moves, TimePoint now);
  void CarryOut(const Why& why, TimePoint now);
  bool TargetReached(const TierState& tier, const Stage& stage, Bytes going) const;
  std::optional<EntryId> NextIdle(TierState& tier, const Stage& stage, TimePoint now);
  bool Expire(TierState& tier, TimePoint now);
  bool ExpireSome(TierState& tier, TimePoint now);
  static bool IsSampleOld(const TierState& tier, TimePoint now);
  void CheckSampleAge(TierState& tier, TimePoint now);
  void ExpireOwnDeadlines(TimePoint now);
  void NoteDeadline(EntryId id, TimePoint deadline);
  bool IsLeafOrAlone(std::uint32_t slot) const;
  bool Hopeless(const TierState& tier, const Stage& stage, std::uint32_t slot, TimePoint now) const;
  void DropIdle(TierState& tier, Duration idle_over, TimePoint now);
  void HoldReserve(TierState& tier, TimePoint now);
  void PutBack();

  void RankTheUnranked();

  // engine_graph.cc
  void Hear(TimePoint now);
  void AskOutside(TimePoint now);
  void Foresee(std::uint32_t slot, const KeyFacts& facts, TimePoint now);
  // A new entry: whose it is, and what is known of it. Never throws.
  void Introduce(std::uint32_t slot, TimePoint now);
  void LinkUp(std::uint32_t slot);
  // It has gone, and nobody need remember it.
  void Unforesee(std::uint32_t slot, bool for_good);
  void Trust(const Pulse& pulse);
  void Judge(const Outlook& outlook, std::uint32_t slot);
  void BindToStep(std::string_view step, std::string_view key, TimePoint now);
  void JudgeAdvice(const Outlook& outlook, std::uint32_t slot);
  bool Spared(const TierState& tier, std::uint32_t slot) const;
  std::vector<std::string> ForeseenOrder() const;

  // engine_score.cc: what is learnt of entries. All of it is nothing without the
  // policy "score", and never throws.
  void OpenScores();
  void HearUses(TimePoint now);
  void Welcome(std::uint32_t slot, TimePoint now);
  bool MayBeNoted(std::uint64_t hash) const;
  bool GoesWithoutNote(std::uint32_t slot, const Facts& facts) const;
  void MakeNote(std::uint32_t slot, const Facts& facts, TimePoint now);
  void NoteWhatWasPlain(std::uint32_t slot, TimePoint now);
  void Farewell(std::uint32_t slot, Reason reason, TimePoint now);
  void Renewed(EntryId old, const Facts& facts, std::uint32_t slot, TimePoint now);
  void TellScores(std::string_view key, const Advice& advice, TimePoint now);
  void MeasureCopy(const Move& transfer, TimePoint now);
  bool BetterBelow(TierState& tier, const NewEntry& entry, TimePoint now);
  EntryId ParentNamed(const NewEntry& entry) const;
  void CountScores(ScoreStats* stats) const;
  std::string ExplainWorth(std::uint32_t slot, TierId tier, TimePoint now) const;
  // While a newcomer looks for room, what it continues is not taken for that.
  class SparedParent {
   public:
    SparedParent(Engine* engine, const NewEntry& entry);
    ~SparedParent();
    SparedParent(const SparedParent&) = delete;
    SparedParent& operator=(const SparedParent&) = delete;

   private:
    EntryScores* const scores_;
  };
  bool RanksByScore() const;
  bool ScoresLackSomebody();
  void WentDown(std::uint32_t slot);

  // engine_ahead.cc
  static double EtaOf(const Outlook& outlook, TimePoint now);
  bool IsSoon(const Outlook& outlook, TimePoint now) const;
  bool IsUp(std::uint32_t slot) const;
  void NoteSoon(const Outlook& outlook, TimePoint now);
  void PrefetchAhead(TimePoint now);
  void TryPrefetchAhead(TimePoint now);
  bool BringChain(std::uint32_t slot, TimePoint now);
  bool BringAhead(std::uint32_t slot, const Outlook& outlook, TimePoint now);
  bool DropLater(TierState& tier, const Outlook& outlook, Bytes bytes, TimePoint now);
  void SettleAhead();
  void AheadIsLate(std::uint32_t slot);
  void AheadArrived(std::uint32_t slot, bool arrived);
  void AheadGone(std::uint32_t slot);

  // engine_loss.cc
  // Whether a copy that failed may still be written to.
  bool InDoubt() const;

  // engine_moves.cc: what moves between tiers.
  enum class Going : std::uint8_t {
    kDown,    // It is on its way.
    kFull,    // Room or movers are busy: it will be possible later.
    kNowhere  // No tier below takes it.
  };
  // Never throws: without memory it goes nowhere now.
  Going SendDown(TierState& tier, std::uint32_t slot, const Why& why, Priority priority,
                 bool then_drop, TimePoint now);
  Going TrySendDown(TierState& tier, std::uint32_t slot, const Why& why, Priority priority,
                    bool then_drop, TimePoint now);
  // Room in a lower tier for `slot`, free or in place of entries ranked lower.
  // For an ask nobody is destroyed.
  struct ForWhat {
    Reason reason;
    Priority priority;
    bool leaves = false;  // It is dropped above once it is there.
  };
  std::optional<Landing> RoomBelow(TierState& tier, std::uint32_t slot, const ForWhat& what,
                                   TimePoint now, bool* soon);
  // engine_trade.cc: in a full host tier a copy makes way for one of more use.
  bool Trade(TierState& host, std::uint32_t slot, Priority priority, TimePoint now);
  bool MayTrade(const TierState& host, std::uint32_t other, std::uint32_t slot,
                std::uint32_t children, bool urgent, TimePoint now) const;
  std::span<const std::uint32_t> EndToTrade(const TierState& host, std::uint32_t end,
                                            std::uint32_t slot, bool urgent, TimePoint now,
                                            std::array<std::uint32_t, 4>* ends) const;
  void BackEnds(TierState& tier, Reason reason, TimePoint now);
  bool KeepsOthers(const TierState& tier, std::uint32_t slot) const;
  bool IsEnd(const TierState& tier, std::uint32_t slot) const;
  bool StaysLonger(const TierState& from, std::uint32_t other, std::uint32_t slot, bool urgent,
                   TimePoint now) const;
  // engine_close.cc: copies move to where the fewest are lacking.
  class Closing;
  void CloseChains(TierState& tier, TimePoint now);
  bool IsNearlyFull(const TierState& tier) const;
  bool MayGo(const TierState& tier, std::uint32_t slot) const;
  // Whether it could, if movers and room allow: not in EMERGENCY, large enough,
  // not broken.
  bool MayTake(const TierState& tier, std::uint32_t slot, TimePoint now) const;
  Bytes BytesOnlyIn(const TierState& tier) const;
  bool SendSomeDown(TierState& tier, Bytes bytes, const Why& why, Priority priority, TimePoint now,
                    bool then_drop = false);
  // Whatever happens, the landing is in good hands. False: too many leases, or
  // nobody to carry it.
  bool StartMove(std::unique_ptr<Move> transfer, std::uint32_t slot);
  void PrepareMove(Move* transfer, std::uint32_t slot);
  void ReleaseLanding(const Move& transfer);
  void FinishDown(Move& transfer, TimePoint now);
  void FinishScrub(Move& transfer, TimePoint now);
  void FetchAgain(Move& transfer, TimePoint now);
  // A copy is not what it was sealed as.
  void Condemn(TierState& tier, std::uint32_t slot, TimePoint now);
  // One copy leaves its tier; the entry stays. False: it is being read or moved.
  bool Drop(TierState& tier, std::uint32_t slot, const Why& why, TimePoint now);
  // It leaves the tier, and with its last copy the cache.
  bool DropOrRemove(TierState& tier, std::uint32_t slot, const Why& why, TimePoint now);
  template <typename Enough>
  void DropBacked(TierState& tier, const Why& why, TimePoint now, Enough&& enough);
  void DropBackedBytes(TierState& tier, Bytes bytes, const Why& why, TimePoint now);
  // Counted as the tier returns them to the machine.
  void DropBackedChunks(TierState& tier, Bytes bytes, const Why& why, TimePoint now);
  void DropBackedUntil(TierState& tier, const Stage& stage, const Why& why, TimePoint now);
  // After a change of where it is: in each tier it stands in the right line.
  void Reline(std::uint32_t slot, TierMask before);
  void WriteBehind(TierState& tier, TimePoint now);
  void Scrub(TimePoint now);
  void Promote(TimePoint now);
  void NoteCandidate(std::uint32_t slot);
  void WakeParked(TimePoint now, bool look_at_deadlines);

  // engine_fetch.cc
  Status Bring(std::uint32_t slot, std::optional<Place> where, TimePoint now);
  // `may_lend`: from memory of no tier, where none has room.
  Status BringUp(std::uint32_t slot, Priority priority, bool may_lend, TimePoint now);
  bool BringToDevice(std::uint32_t slot, Priority priority, TimePoint now);
  bool RoomOnDevice(std::uint32_t slot, TimePoint now, Landing* landing);
  bool RoomAbove(TierState& tier, std::uint32_t slot, bool may_displace, TimePoint now,
                 Landing* landing);
  bool DropLower(TierState& tier, std::uint32_t slot, Bytes bytes, TimePoint now);
  void FinishUp(Move& transfer, TimePoint now);
  void TryFetch(Waiter* waiter, TimePoint now);
  // Each gets a lease on `slot`; kNoSlot: it is not there.
  void Answer(Waiter* waiters, std::uint32_t slot, const Status& status);
  bool IsReplaced(const BlobStore::Found& blob) const;
  void AdoptOne(BlobStore::Found* blob, TimePoint now);
  void EndLoading(TimePoint now);
  void ExpireWaiters(TimePoint now);
  void FreePassing(TimePoint now);

  // Removal of a live slot: links, rankings, event, account.
  void Remove(std::uint32_t slot, bool owned, const Why& why, TimePoint now);
  void Log(std::uint32_t slot, TierId tier, const Why& why, TimePoint now);
  void NoteSet(std::uint32_t slot) const;
  void LogAs(std::uint32_t slot, std::uint64_t generation, TierId tier, const Why& why,
             TimePoint now);
  // Its two halves: who may leave now that it does, and all the rest.
  void LetGoOfParent(std::uint32_t slot, TierMask tiers);
  void Depart(std::uint32_t slot, bool owned, const Why& why, TimePoint now);
  // The same but for the store, which has it still.
  void Part(std::uint32_t slot, const Why& why, TimePoint now);
  // True: no reader has it or gets it any more.
  bool TakeUnlessLeased(std::uint32_t slot);
  bool RemoveUnlessLeased(std::uint32_t slot, const Why& why, TimePoint now);
  void RemoveEvenIfLeased(std::uint32_t slot, const Why& why, TimePoint now);
  void RemoveHidden(std::uint32_t slot, const Why& why, TimePoint now);
  // Its key has been set or erased: no blob of it may be found again.
  void Revoke(std::uint32_t slot);
  void RevokeUnseen();
  void NoteWrittenEarly(std::string_view key);

  // `slot` may leave from now on, wherever it is.
  void Enter(std::uint32_t slot);
  void SetLevel(TierState& tier, Level level, TimePoint now);
  // Bytes of ours have come or gone: pressure as corrected by that counts from
  // now on, not from the next look.
  void NoteMoves(TimePoint now);
  // What more room `bytes` would take in a tier than it has: of its capacity, or
  // of the memory that is free beyond the reserve.
  Bytes Lacking(const TierState& tier, Bytes bytes) const;
  // Our bytes in a tier that could not be given back at once.
  Bytes FirmBytes(const TierState& tier) const {
    return single() ? store_->bytes(tier.id) : store_->bytes(tier.id) - store_->clean(tier.id);
  }
  void NoteArrival(const Move& move, TimePoint now);
  std::string ExplainNow(std::uint64_t hash, std::string_view key, TimePoint now) const;
  std::string ExplainLive(std::uint32_t slot, const std::vector<MoveLog::Trace>& traces,
                          TimePoint now) const;
  static std::string Journey(const std::vector<MoveLog::Trace>& traces, std::uint64_t generation,
                             std::size_t skip, TimePoint now);
  void CountTier(const TierState& tier, TierStats* stats) const;
  double Pressure(const TierState& tier) const { return tier.gauge.Corrected(FirmBytes(tier)); }
  Bytes FreeMemory(const TierState& tier) const;
  std::string_view OrderName(const TierState& tier) const {
    return tier.firm->OrderName(tier.level.load(std::memory_order_relaxed));
  }
  std::optional<EntryId> NextByOrder(const TierState& tier, Line& line,
                                     Foresight::Whom whom = Foresight::Whom::kNotSpared) {
    return line.Next(tier.level.load(std::memory_order_relaxed), whom);
  }

  const Settings settings_;
  const std::unique_ptr<Store> store_;
  Inlet inlet_;
  Mover* const mover_;
  void (*on_move_)(Strand::Task*) = nullptr;
  void* owner_ = nullptr;
  MoveLog log_;
  UseLog* uses_ = nullptr;
  Outlooks outlooks_;
  // With the policy "score" only. Whoever misses reads some of them.
  alignas(64) std::unique_ptr<FactReader> any_view_;
  std::unique_ptr<EntryScores> scores_;
  std::unique_ptr<MissRing> missed_;
  // Some entry has a note that is not of the sample. Written on the strand.
  std::atomic<bool> notes_others_{false};
  alignas(
      64) std::array<double, kTiers> copy_rates_{};  // Up from there, bytes a second; 0: not yet.
  std::uint64_t sent_below_ = 0;
  std::array<std::unique_ptr<TierState>, kTiers> states_;
  TierState* top_ = nullptr;
  TierState* bottom_ = nullptr;

  struct Deadline {
    TimePoint at;
    EntryId id;
    friend bool operator>(const Deadline& a, const Deadline& b) { return a.at > b.at; }
  };
  // A heap, earliest first; the dead and the changed stay until due, or until they
  // are most of it.
  std::vector<Deadline> deadlines_;

  // Entries a running step can't let go; entered again when it ends.
  std::vector<EntryId> put_back_;
  std::vector<std::uint32_t> chosen_;  // By a stage, and taken from their readers.
  std::vector<Victim> room_plan_;      // MakeRoom's, kept so that it need not allocate.
  std::uint64_t room_made_ = 0;        // Entries that left for it, without a pause,
  TimePoint room_made_at_{};           // until then.
  // Idle entries ranked by an order that is not last use (NextIdle).
  std::vector<EntryId> idle_candidates_;

  Parked* parked_ = nullptr;  // First come first.
  bool waking_ = false;
  std::vector<Move*> transfers_;
  // Values lent from memory of no tier; freed when nobody reads them.
  std::vector<EntryId> passing_;
  std::vector<EntryId> candidates_;  // For promotion: read from below.
  std::uint32_t scrub_at_ = 0;
  TimePoint scrubbed_at_{};
  bool loading_ = false;
  bool adopting_waits_ = false;  // For memory.
  bool turned_away_ = false;
  bool closed_ = false;
  bool unsettled_ = false;
  bool replaced_for_room_ = false;
  bool blind_ = false;  // What is on disk could not be read in, and may be found another time.
  // Keys set or erased while loading: what is found of them is older.
  std::unordered_set<std::string> written_early_;
  bool cleared_early_ = false;     // As if all of them.
  Waiter* for_loading_ = nullptr;  // Who asks for what may still be found.
  struct Orphan {
    EntryId id;
    std::string parent;
    std::uint64_t generation;
  };
  std::vector<Orphan> orphans_;  // Found before their parents.

  std::shared_ptr<StepGraph> graph_;
  Cache::AgentOrder outside_;        // Who knows, instead of the graph's clients;
  std::vector<std::string> agents_;  // and what it said.
  std::uint64_t heard_ = 0;          // What the graph was told by then,
  TimePoint heard_at_{};
  std::uint64_t graph_version_ = 0;
  bool attached_ = false;
  struct Told {
    EntryId id;
    KeyFacts facts;
  };
  std::vector<Told> told_;
  // What the graph foretold and what came of it, the recent weighing more.
  double right_ = 0;
  double wrong_ = 0;
  bool trusted_ = true;
  // Of those said to be used again: who was, and who was not in time.
  double again_right_ = 9;
  double again_wrong_ = 1;
  // What came up ahead of its step and was not read yet; or is on its way.
  struct Ahead {
    EntryId id;
    Bytes bytes = 0;
    std::uint64_t uses_then = 0;
    bool arrived = false;
  };
  std::unordered_map<std::uint32_t, Ahead> ahead_;
  std::vector<EntryId> soon_;  // Wanted soon, and not up.
  // In this look ahead there was too little to make room of for one like that, by tier.
  struct NoRoom {
    Bytes bytes;
    std::uint32_t steps;
    double rate;
  };
  std::array<std::optional<NoRoom>, kTiers> no_room_;
  Bytes kept_for_running_ = 0;
  double up_rate_ = 0;             // Bytes a second, as measured; 0: not yet.
  TimePoint ahead_rests_until_{};  // After one that failed.
  std::uint64_t starts_seen_ = 0;
  std::uint64_t mispredictions_seen_ = 0;

  std::uint64_t sets_ = 0;
  std::uint64_t refused_blocked_ = 0;
  std::uint64_t refused_budget_ = 0;
  std::uint64_t refused_other_ = 0;
  MoveCounts counts_;
};

}  // namespace spillway
