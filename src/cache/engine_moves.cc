// What moves between tiers: down for pressure, room and safety, up for reads.
// The engine only starts and ends moves; movers carry the bytes.
#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/mutant.h"
#include "base/room_for_one.h"
#include "cache/engine.h"

namespace spillway {

namespace {
// Moves that wait or are under way between two tiers. Give-back keeps the link
// busy; work for quiet times takes no more than it can drop at once.
constexpr std::size_t kUrgentMax = 64;
constexpr std::size_t kBackgroundMax = 8;
// Where what is free lies in pieces: how many times its size may go for one.
constexpr Bytes kForPieces = 8;
// What is looked at in vain in one go: copies of what lies above, for one entry that
// needs room; entries that others continue, for some that can be dropped.
constexpr int kCopiesPassedBy = 256;
constexpr int kParentsPassedBy = 1024;
// After a move into a tier failed it gets nothing for so long.
constexpr Duration kShunned = std::chrono::milliseconds(250);

// Whether its copy in that tier is being read or made by a move.
bool IsMoved(const Record& record, TierId tier) {
  const Move* const move = record.below == nullptr ? nullptr : record.below->transfer;
  return move != nullptr && (move->from == tier || move->to == tier);
}
}  // namespace

// Entries taken from a line that stay after all; they enter again at the end.
// Room comes first: who is taken from a line can be put here.
class Engine::Aside {
 public:
  explicit Aside(Engine* engine) : engine_(engine) {}
  ~Aside() {
    for (const EntryId id : ids_) {
      if (MutantOn(Mutant::kAsideForgotten)) continue;
      if (engine_->store_->IsLive(id)) engine_->Enter(id.slot);
    }
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  void MakeRoom() { RoomForOne(ids_); }
  void Put(EntryId id) { ids_.push_back(id); }

 private:
  Engine* const engine_;
  std::vector<EntryId> ids_;
};

// --- dropping ---

bool Engine::Drop(TierState& tier, std::uint32_t slot, const Why& why, TimePoint now) {
  const Record& record = store_->slots().record(slot);
  if (IsMoved(record, tier.id)) return false;
  const TierMask before = record.copies;
  const std::uint32_t parent = store_->ParentOf(slot);
  if (!store_->DropCopy(slot, tier.id)) return false;
  Log(slot, tier.id, why, now);
  Reline(slot, before);
  if (scores_ != nullptr && tier.id == store_->top()) {
    WentDown(slot);
  }
  if (graph_ != nullptr && !IsUp(slot)) {
    AheadGone(slot);
    if (const Outlook* const outlook = outlooks_.Find(store_->IdOf(slot))) NoteSoon(*outlook, now);
  }
  if (parent != kNoSlot) {
    const Record& up = store_->slots().record(parent);
    if (Has(up.copies, tier.id) && up.children[IndexOf(tier.id)] == 0) {
      tier.LineOf(up).Enter(store_->IdOf(parent));
    }
  }
  if (tier.id == TierId::kDevice) NoteCandidate(slot);
  return true;
}

bool Engine::DropOrRemove(TierState& tier, std::uint32_t slot, const Why& why, TimePoint now) {
  const Record& record = store_->slots().record(slot);
  if (record.copies == MaskOf(tier.id)) {
    if (!single() && record.has_children()) return false;
    const Action action = why.action == Action::kExpire ? why.action : Action::kDestroy;
    return RemoveUnlessLeased(slot, {action, why.reason, why.order}, now);
  }
  const Action action = why.action == Action::kExpire ? why.action : Action::kDrop;
  return Drop(tier, slot, {action, why.reason, why.order}, now);
}

template <typename Enough>
void Engine::DropBacked(TierState& tier, const Why& why, TimePoint now, Enough&& enough) {
  // A running step's copies go only for those who can't wait.
  const bool urgent = why.reason == Reason::kReserve || why.reason == Reason::kAsk ||
                      level(tier.id) == Level::kEmergency;
  const auto whom = urgent ? Foresight::Whom::kAnybody : Foresight::Whom::kNotSpared;
  Aside aside(this);
  while (!enough()) {
    aside.MakeRoom();
    const std::optional<EntryId> next = NextByOrder(tier, *tier.backed, whom);
    if (!next) break;
    if (!Drop(tier, next->slot, why, now)) aside.Put(*next);
  }
}

void Engine::DropBackedBytes(TierState& tier, Bytes bytes, const Why& why, TimePoint now) {
  const Bytes before = store_->bytes(tier.id);
  DropBacked(tier, why, now, [&] { return before - store_->bytes(tier.id) >= bytes; });
}

void Engine::DropBackedChunks(TierState& tier, Bytes bytes, const Why& why, TimePoint now) {
  const Bytes before = store_->held(tier.id);
  DropBacked(tier, why, now,
             [&] { return before - std::min(before, store_->held(tier.id)) >= bytes; });
}

void Engine::DropBackedUntil(TierState& tier, const Stage& stage, const Why& why, TimePoint now) {
  DropBacked(tier, why, now, [&] { return TargetReached(tier, stage, 0); });
}

void Engine::Reline(std::uint32_t slot, TierMask before) {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  for (const TierId tier : kTierIds) {
    if (!Has(before, tier)) continue;
    const bool was_backed = (before & BelowMask(tier)) != 0;
    if (Has(record.copies, tier) && record.backed_in(tier) == was_backed) continue;
    (was_backed ? *state(tier).backed : *state(tier).firm).Left(id);
  }
  Enter(slot);
}

Bytes Engine::GiveBack(TierId id, Bytes bytes, TimePoint now, bool* more) {
  TierState& tier = state(id);
  *more = false;
  Follow(now);
  if (tier.last()) return 0;
  const Bytes before = store_->held(id);
  const Why why{Action::kDrop, Reason::kAsk, OrderName(tier)};
  DropBacked(tier, why, now, [&] {
    // Somebody waits for it: nothing is kept for the next entry.
    store_->memory(id)->ReleaseSpare();
    return before - std::min(before, store_->held(id)) >= bytes;
  });
  const Bytes freed = before - std::min(before, store_->held(id));
  if (freed < bytes) {
    BackEnds(tier, Reason::kAsk, now);
    *more = SendSomeDown(tier, bytes - freed, why, Priority::kGiveBack, now);
    // After a failure a tier gets nothing for a moment: that passes.
    for (const TierState* below = tier.below; below != nullptr; below = below->below) {
      *more = *more || now < below->shunned_until;
    }
  }
  NoteMoves(now);
  return freed;
}

// --- down ---

bool Engine::MayTake(const TierState& tier, std::uint32_t slot, TimePoint now) const {
  if (tier.blocked() && !MutantOn(Mutant::kEmergencyTakesMoves)) return false;
  if (now < tier.shunned_until || closed_) return false;
  if (store_->slots().slot(slot).size > GrowthLimit(tier)) return false;
  return tier.id != TierId::kDisk || store_->disk()->health() == BlobStore::Health::kGood;
}

Engine::Going Engine::SendDown(TierState& tier, std::uint32_t slot, const Why& why,
                               Priority priority, bool then_drop, TimePoint now) {
  try {
    return TrySendDown(tier, slot, why, priority, then_drop, now);
  } catch (const std::bad_alloc&) {
    return Going::kNowhere;
  }
}

Engine::Going Engine::TrySendDown(TierState& tier, std::uint32_t slot, const Why& why,
                                  Priority priority, bool then_drop, TimePoint now) {
  const Record& record = store_->slots().record(slot);
  if (record.below != nullptr && record.below->transfer != nullptr) {
    Move* const going = record.below->transfer;
    if (going->from != tier.id || going->to <= going->from) return Going::kNowhere;
    going->then_drop = going->then_drop || then_drop;
    if (priority < going->priority) mover_->Raise(going, priority);
    return Going::kDown;
  }
  if (tier.gone) return Going::kNowhere;
  const std::size_t most = IsBackground(priority) ? kBackgroundMax : kUrgentMax;
  bool full = false;
  for (TierState* below = tier.below; below != nullptr; below = below->below) {
    if (!MayTake(*below, slot, now)) continue;
    // What only the device can read goes by way of the host.
    if (tier.id == TierId::kDevice && below->id == TierId::kDisk && store_->on_gpu()) continue;
    if (mover_->Waiting(tier.id, below->id) >= most) return Going::kFull;
    bool soon = false;
    auto transfer = std::make_unique<Move>();
    const std::optional<Landing> landing =
        RoomBelow(*below, slot, {why.reason, priority, then_drop}, now, &soon);
    full = full || soon;
    if (!landing) continue;
    transfer->from = tier.id;
    transfer->to = below->id;
    transfer->priority = priority;
    transfer->source = store_->BlockIn(slot, tier.id);
    transfer->landing = *landing;
    transfer->reason = why.reason;
    transfer->order = why.order;
    transfer->then_drop = then_drop;
    if (!StartMove(std::move(transfer), slot)) return Going::kNowhere;
    return Going::kDown;
  }
  return full ? Going::kFull : Going::kNowhere;
}

// Whether DropOrRemove would succeed.
bool Engine::MayGo(const TierState& tier, std::uint32_t slot) const {
  const Record& record = store_->slots().record(slot);
  if (IsMoved(record, tier.id)) return false;
  if (record.copies == MaskOf(tier.id) && record.has_children()) return false;
  if (Spared(tier, slot)) return false;
  return store_->Leases(slot) == store_->PinsOf(slot);
}

std::optional<Landing> Engine::RoomBelow(TierState& tier, std::uint32_t slot, const ForWhat& what,
                                         TimePoint now, bool* soon) {
  const auto [reason, priority, leaves] = what;
  const Bytes size = store_->slots().slot(slot).size;
  Line& line = tier.last() ? *tier.firm : *tier.backed;
  const Level at = level(tier.id);
  const Facts own = store_->FactsOf(slot, tier.id);
  const EntryId own_id = store_->IdOf(slot);
  const Why why{tier.last() ? Action::kDestroy : Action::kDrop,
                reason == Reason::kAsk ? reason : Reason::kRoom, OrderName(tier)};
  const auto lacking = [&] { return Lacking(tier, size); };
  if (tier.gauge.unknown() && lacking() > 0 && store_->bytes(tier.id) + size <= capacity(tier.id)) {
    // There is room, but while pressure is unknown it must not be used: that
    // passes, and nobody has to go for it.
    *soon = true;
    return std::nullopt;
  }
  Bytes need = lacking();
  if (need == 0) {
    Result<Landing> landing = store_->Allocate(slot, tier.id);
    if (landing) return *landing;
    if (landing.error().code != Code::kNoMemory) return std::nullopt;
    need = size;  // The account allows it, what it stands on does not.
  }
  // Relief makes bytes available: one copy in exchange for another makes none.
  const bool relief =
      !IsBackground(priority) &&
      (reason == Reason::kIdle || reason == Reason::kHeavy || reason == Reason::kOrder);
  if (!relief && Trade(tier, slot, priority, now) && lacking() == 0) {
    Result<Landing> landing = store_->Allocate(slot, tier.id);
    if (landing) return *landing;
    if (landing.error().code != Code::kNoMemory) return std::nullopt;
    tier.no_trade_until = now + kShunned;  // What is free lies in pieces.
    tier.no_urgent_trade_until = now + kShunned;
  }
  // Only in place of who is ranked lower, and only if that is enough: nobody
  // goes for nothing. An ask destroys nobody at all, and neither does a copy
  // that is made only to be safe.
  const bool asked = reason == Reason::kAsk && !MutantOn(Mutant::kAskDestroys);
  const bool nobody = relief && tier.last() && BytesOnlyIn(tier) < need;
  const bool spared = nobody || (tier.last() && (asked || IsBackground(priority)));
  if (!spared && now >= tier.nobody_leaves_until) {
    Aside aside(this);
    std::vector<EntryId> lower;
    Bytes found = 0;
    // What is free then may lie in pieces: a few more may go for it.
    const Bytes most = need + kForPieces * size;
    int passed_by = 0;
    while (found < most) {
      aside.MakeRoom();
      const std::optional<EntryId> next = line.Next(at);
      if (!next) break;
      aside.Put(*next);
      const Facts facts = store_->FactsOf(next->slot, tier.id);
      if (next->slot == slot || !line.Before(at, *next, facts, own_id, own)) break;
      if (!MayGo(tier, next->slot)) continue;
      const TierMask copies = store_->slots().record(next->slot).copies;
      if (relief && tier.last() && copies != MaskOf(tier.id)) {
        if (++passed_by == kCopiesPassedBy) break;
        continue;
      }
      lower.push_back(*next);
      found += facts.bytes;
      if (found < need) continue;
      for (const EntryId id : std::exchange(lower, {})) {
        if (!DropOrRemove(tier, id.slot, why, now) || lacking() > 0) continue;
        Result<Landing> landing = store_->Allocate(slot, tier.id);
        if (landing) return *landing;
        if (landing.error().code != Code::kNoMemory) return std::nullopt;
      }
    }
    // They may come back, and must not go again for the same at once.
    if (found >= need) tier.nobody_leaves_until = now + kShunned;
  }
  *soon = SendSomeDown(tier, std::max(lacking(), size), why, priority, now);
  return std::nullopt;
}

// At most so many bytes of that tier have no copy in the one above.
Bytes Engine::BytesOnlyIn(const TierState& tier) const {
  const TierState* const above = Above(tier);
  return above == nullptr ? store_->bytes(tier.id)
                          : Excess(store_->bytes(tier.id), store_->backed_bytes(above->id));
}

// Unbacked entries go down so that they can be dropped then. True: some are on
// their way, or will be.
bool Engine::SendSomeDown(TierState& tier, Bytes bytes, const Why& why, Priority priority,
                          TimePoint now, bool then_drop) {
  if (tier.last()) return false;
  Aside aside(this);
  bool full = false;
  int passed_by = 0;
  while (tier.going < bytes && !full) {
    aside.MakeRoom();
    const std::optional<EntryId> next = NextByOrder(tier, *tier.firm, Foresight::Whom::kAnybody);
    if (!next) break;
    // Whoever continues it leaves first; where there are very many, all go as they come.
    const bool parent = store_->slots().record(next->slot).children[IndexOf(tier.id)] > 0;
    if (then_drop && parent && passed_by < kParentsPassedBy) {
      aside.Put(*next);
      ++passed_by;
      continue;
    }
    const Going going = SendDown(tier, next->slot, why, priority, then_drop, now);
    full = going == Going::kFull;
    if (going != Going::kDown) aside.Put(*next);
  }
  return tier.going > 0 || full;
}

// --- transfers ---

bool Engine::StartMove(std::unique_ptr<Move> transfer, std::uint32_t slot) {
  transfer->bytes = store_->slots().slot(slot).size;
  try {
    PrepareMove(transfer.get(), slot);
  } catch (const std::bad_alloc&) {
    ReleaseLanding(*transfer);
    throw;
  }
  // What follows needs no memory, nor does its end.
  if (!mover_->IsReady(transfer->from, transfer->to) ||
      store_->slots().slot(slot).word.Pin() != LeaseWord::Got::kYes) {
    ReleaseLanding(*transfer);
    return false;
  }
  if (transfer->to > transfer->from) {
    state(transfer->from).going += transfer->bytes;
    state(transfer->from).background += IsBackground(transfer->priority) ? 1 : 0;
  }
  store_->BelowOf(slot).transfer = transfer.get();
  transfer->background_at_start = IsBackground(transfer->priority);
  transfer->owner = owner_;
  transfer->run = on_move_;
  transfers_.push_back(transfer.get());
  mover_->Start(transfer.release());
  return true;
}

void Engine::PrepareMove(Move* transfer, std::uint32_t slot) {
  RoomForOne(transfers_);
  if (transfer->passing) passing_.reserve(passing_.size() + transfers_.size() + 1);
  Below& below = store_->BelowOf(slot);
  transfer->id = store_->IdOf(slot);
  transfer->seal = below.seal;
  transfer->read_back = settings_.options.disk_read_back;
  if (transfer->from == TierId::kDisk || transfer->to == TierId::kDisk) {
    transfer->facts = store_->BlobFactsOf(slot);
    if (transfer->from == TierId::kDisk) {
      transfer->blob = below.blob;
      transfer->facts.generation = below.blob_generation;
    }
  } else {
    transfer->facts.key = store_->slots().slot(slot).key();
  }
}

void Engine::ReleaseLanding(const Move& transfer) {
  if (transfer.from == TierId::kDevice && !transfer.status && InDoubt()) return;
  if (transfer.passing) {
    std::free(transfer.landing.block);  // NOLINT(cppcoreguidelines-no-malloc): aligned_alloc's.
    store_->CountPassing(0, transfer.bytes);
  } else if (transfer.to != transfer.from) {
    store_->Free(transfer.to, transfer.landing, transfer.bytes);
  }
}

void Engine::Finish(std::unique_ptr<Move> transfer, TimePoint now) {
  std::erase(transfers_, transfer.get());
  if (!closed_) Follow(now);
  const std::uint32_t slot = transfer->id.slot;
  store_->slots().record(slot).below->transfer = nullptr;
  const bool dead = !MutantOn(Mutant::kPinKept) &&
                    store_->slots().slot(slot).word.Release() == LeaseWord::After::kReap;
  NoticeLoss(now);
  const bool live = !dead && store_->IsLive(transfer->id);
  if (transfer->to > transfer->from) {
    TierState& from = state(transfer->from);
    if (!MutantOn(Mutant::kGoingNeverReturned)) from.going -= transfer->bytes;
    from.background -= transfer->background_at_start ? 1 : 0;
  }
  if (scores_ != nullptr) MeasureCopy(*transfer, now);
  if (transfer->status) {
    auto& counted = transfer->to > transfer->from ? counts_.down : counts_.up;
    counted.at(IndexOf(transfer->to)) += transfer->bytes;
  } else if (transfer->status.error().code == Code::kCancelled) {
    ++counts_.cancelled;
  }
  if (!live) {
    if (!MutantOn(Mutant::kLandingLeaked)) ReleaseLanding(*transfer);
    if (MutantOn(Mutant::kReplacedGetMisses)) {
      Answer(std::exchange(transfer->waiters, nullptr), kNoSlot, {});
    }
    FetchAgain(*transfer, now);
  } else if (transfer->to == transfer->from) {
    FinishScrub(*transfer, now);
  } else if (transfer->to > transfer->from) {
    FinishDown(*transfer, now);
  } else {
    FinishUp(*transfer, now);
  }
  const bool ahead = transfer->to < transfer->from && graph_ != nullptr;
  if (ahead) {
    const double took = std::chrono::duration<double>(now - transfer->started).count();
    if (transfer->status && took > 0) {
      // The link's own speed: several at once share it.
      up_rate_ = std::max(up_rate_ * 0.95, static_cast<double>(transfer->bytes) / took);
    }
    AheadArrived(slot, live && transfer->status.has_value());
    // What can't be read now is not tried again and again.
    if (!transfer->status && transfer->status.error().code != Code::kCancelled) {
      ahead_rests_until_ = now + kShunned;
    }
  }
  if (dead) store_->Reap(slot);
  if (closed_) return;
  if (ahead) PrefetchAhead(now);
  NoteMoves(now);
  if (parked_ != nullptr) WakeParked(now, false);
  if (transfer->background_at_start && transfer->to > transfer->from) {
    WriteBehind(state(transfer->from), now);
  }
}

void Engine::FinishDown(Move& transfer, TimePoint now) {
  TierState& from = state(transfer.from);
  TierState& to = state(transfer.to);
  const std::uint32_t slot = transfer.id.slot;
  if (!transfer.status && !MutantOn(Mutant::kFailedMoveCommitted)) {
    ReleaseLanding(transfer);
    if (transfer.source_damaged) {
      Waiter* const waiters = std::exchange(transfer.waiters, nullptr);
      Condemn(from, slot, now);
      return Answer(waiters, kNoSlot, {});
    }
    if (from.gone) {  // It is elsewhere, too.
      Enter(slot);
      return FetchAgain(transfer, now);
    }
    Answer(std::exchange(transfer.waiters, nullptr), kNoSlot, transfer.status);
    if (transfer.status.error().code != Code::kCancelled) {
      ++to.failed_moves;
      to.shunned_until = now + kShunned;
      if (transfer.status.error().code == Code::kCorrupt) ++counts_.corrupt;
    }
    return Enter(slot);
  }
  const TierMask before = store_->slots().record(slot).copies;
  store_->BelowOf(slot).seal = std::move(transfer.seal);
  if (transfer.passing) {  // For somebody who reads it on the host, once.
    store_->BelowOf(slot).passing = transfer.landing.block;
    passing_.push_back(transfer.id);
    Enter(slot);
    return FetchAgain(transfer, now);
  }
  store_->AddCopy(slot, transfer.to, transfer.landing);
  Reline(slot, before);
  FetchAgain(transfer, now);
  if (!store_->IsLive(transfer.id)) return;
  const bool expired = transfer.reason == Reason::kExpired;
  const Why gone{expired ? Action::kExpire : Action::kDemote, transfer.reason, transfer.order};
  // Who continues it here leaves first; then it can, being backed now.
  const bool leaf = store_->slots().record(slot).children[IndexOf(from.id)] == 0 ||
                    MutantOn(Mutant::kParentLeavesFirst);
  if (transfer.then_drop && leaf && Drop(from, slot, gone, now)) return;
  Log(slot, from.id, {Action::kBack, transfer.reason, transfer.order}, now);
}

// Bytes in memory that are not what they were sealed as. Another copy may be
// good; without one the entry is gone.
void Engine::Condemn(TierState& tier, std::uint32_t slot, TimePoint now) {
  ++counts_.corrupt;
  const Why why{Action::kDestroy, Reason::kCorrupt, {}};
  const Record& record = store_->slots().record(slot);
  if (tier.id == TierId::kDisk) store_->BelowOf(slot).damaged = true;
  if (record.copies != MaskOf(tier.id) &&
      Drop(tier, slot, {Action::kDrop, Reason::kCorrupt, {}}, now)) {
    return;
  }
  RemoveEvenIfLeased(slot, why, now);
}

void Engine::FinishScrub(Move& transfer, TimePoint now) {
  ++counts_.scrubbed;
  const std::uint32_t slot = transfer.id.slot;
  if (!transfer.status && transfer.status.error().code == Code::kCorrupt) {
    Condemn(state(TierId::kDisk), slot, now);
  }
  FetchAgain(transfer, now);  // Somebody may have asked for it meanwhile.
}

// What they waited for has gone, or was not brought up. Their key may have been
// set anew: that is not a miss.
void Engine::FetchAgain(Move& transfer, TimePoint now) {
  while (transfer.waiters != nullptr) {
    Waiter* const waiter = std::exchange(transfer.waiters, transfer.waiters->next);
    Fetch(waiter, now);
  }
}

// --- ahead of need ---

void Engine::WriteBehind(TierState& tier, TimePoint now) {
  const std::optional<Duration>& after = settings_.options.write_behind_after;
  if (tier.last() || !after) return;
  // Calm waters can wait for it to become idle; else every byte that is not
  // backed is pressure, and those that just came make levels flap.
  const bool calm = level(tier.id) == Level::kRelaxed;
  const std::int64_t bound = (calm ? now - *after : now).time_since_epoch().count();
  CloseChains(tier, now);
  Aside aside(this);
  int nowhere = 0;
  int passed_by = 0;
  // In a full host tier a copy is of use once those who leave before have one.
  const bool ends_only = tier.below->id == TierId::kHost && IsNearlyFull(*tier.below);
  while (tier.background < kBackgroundMax && nowhere < 16) {
    aside.MakeRoom();
    // Soonest to leave first.
    const bool foreseen = outlooks_.in_force || RanksByScore();
    const std::optional<EntryId> next =
        foreseen ? NextByOrder(tier, *tier.firm, Foresight::Whom::kAnybody)
                 : tier.firm->idle.Next(bound);
    if (!next) return;
    if (foreseen && KeyByLastUse(store_->FactsOf(next->slot, tier.id)) > bound) {
      aside.Put(*next);
      ++nowhere;
      continue;
    }
    const Record& record = store_->slots().record(next->slot);
    if (ends_only && record.children[IndexOf(tier.id)] > record.children[IndexOf(tier.below->id)]) {
      aside.Put(*next);
      if (++passed_by == kParentsPassedBy) return;
      continue;
    }
    const Why why{Action::kBack, Reason::kIdle, foreseen ? OrderName(tier) : "lru"};
    const Going going = SendDown(tier, next->slot, why, Priority::kWriteBehind, false, now);
    if (going == Going::kDown) continue;
    aside.Put(*next);
    if (going == Going::kFull) return;
    ++nowhere;
  }
}

}  // namespace spillway
