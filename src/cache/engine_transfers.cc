// SPDX-License-Identifier: Apache-2.0
// Transfers between tiers: down for pressure, room and safety, up for reads. The engine
// only starts and ends transfers; the transfer threads copy the bytes.
#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/mutant.h"
#include "base/reserve_one.h"
#include "cache/engine.h"

namespace spillway {

namespace {
// Transfers queued or in flight between two tiers. Giving memory back keeps the link
// busy; background work takes no more than it can soon drop again.
constexpr std::size_t kUrgentMax = 64;
constexpr std::size_t kBackgroundMax = 8;
// If free space is fragmented: up to this many times the value's size is evicted for
// it.
constexpr Bytes kForPieces = 8;
// Limits of unsuccessful looks: at lower copies of entries that are also above, when
// one entry needs room; and at entries that others continue, when some entries must
// become droppable.
constexpr int kCopiesPassedBy = 256;
constexpr int kParentsPassedBy = 1024;
// After a failed transfer into a tier, it receives nothing for this long.
constexpr Duration kWriteBackoff = std::chrono::milliseconds(250);

// Whether a transfer reads or writes the entry's copy in that tier.
bool IsMoved(const Record& record, TierId tier) {
  const Transfer* const transfer = record.below == nullptr ? nullptr : record.below->transfer;
  return transfer != nullptr && (transfer->from == tier || transfer->to == tier);
}
}  // namespace

// Entries that were taken out of a queue and are not evicted: they are entered again at
// the end of the scope. Call MakeRoom before taking an entry out, so that Put needs no
// memory.
class Engine::Candidates {
 public:
  explicit Candidates(Engine* engine) : engine_(engine) {}
  ~Candidates() {
    for (const EntryId id : ids_) {
      if (MutantOn(Mutant::kCandidateForgotten)) continue;
      if (engine_->store_->IsLive(id)) engine_->Enter(id.slot);
    }
  }
  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;
  void MakeRoom() { ReserveOne(ids_); }
  void Put(EntryId id) { ids_.push_back(id); }

 private:
  Engine* const engine_;
  std::vector<EntryId> ids_;
};

// --- dropping ---

// After a copy is dropped, readers get the next one, the entry changes its queues in
// the tiers above, and its parent may be evictable now.
bool Engine::Drop(TierState& tier, std::uint32_t slot, const Why& why, TimePoint now) {
  const Record& record = store_->slots().record(slot);
  if (IsMoved(record, tier.id)) return false;
  const TierMask before = record.copies;
  const std::uint32_t parent = store_->ParentOf(slot);
  if (!store_->DropCopy(slot, tier.id)) return false;
  Log(slot, tier.id, why, now);
  Requeue(slot, before);
  if (scores_ != nullptr && tier.id == store_->top()) {
    WentDown(slot);
  }
  if (graph_ != nullptr && !IsUp(slot)) {
    AheadGone(slot);
    if (const NextUse* const next_use = next_uses_.Find(store_->IdOf(slot)))
      NoteSoon(*next_use, now);
  }
  if (parent != kNoSlot) {
    const Record& up = store_->slots().record(parent);
    if (Has(up.copies, tier.id) && up.children[IndexOf(tier.id)] == 0) {
      tier.QueueOf(up).Enter(store_->IdOf(parent));
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
void Engine::DropClean(TierState& tier, const Why& why, TimePoint now, Enough&& enough) {
  // Copies that a running step uses are dropped only if the memory is needed at once.
  const bool urgent = why.reason == Reason::kReserve || why.reason == Reason::kAsk ||
                      level(tier.id) == Level::kEmergency;
  const auto filter =
      urgent ? WorkflowOrder::CandidateFilter::kAny : WorkflowOrder::CandidateFilter::kNotProtected;
  Candidates aside(this);
  while (!enough()) {
    aside.MakeRoom();
    const std::optional<EntryId> next = NextByOrder(tier, *tier.clean, filter);
    if (!next) break;
    if (!Drop(tier, next->slot, why, now)) aside.Put(*next);
  }
}

void Engine::DropCleanBytes(TierState& tier, Bytes bytes, const Why& why, TimePoint now) {
  const Bytes before = store_->bytes(tier.id);
  DropClean(tier, why, now, [&] { return before - store_->bytes(tier.id) >= bytes; });
}

void Engine::DropCleanChunks(TierState& tier, Bytes bytes, const Why& why, TimePoint now) {
  const Bytes before = store_->held(tier.id);
  DropClean(tier, why, now,
            [&] { return before - std::min(before, store_->held(tier.id)) >= bytes; });
}

void Engine::DropCleanUntil(TierState& tier, const Stage& stage, const Why& why, TimePoint now) {
  DropClean(tier, why, now, [&] { return TargetReached(tier, stage, 0); });
}

void Engine::Requeue(std::uint32_t slot, TierMask before) {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  for (const TierId tier : kTierIds) {
    if (!Has(before, tier)) continue;
    const bool was_clean = (before & LowerCopiesMask(tier)) != 0;
    if (Has(record.copies, tier) && record.clean_in(tier) == was_clean) continue;
    (was_clean ? *state(tier).clean : *state(tier).dirty).Left(id);
  }
  Enter(slot);
}

Bytes Engine::GiveBack(TierId id, Bytes bytes, TimePoint now, bool* more) {
  TierState& tier = state(id);
  *more = false;
  // Following the graph may fetch something ahead: that memory is not given back.
  const Bytes before = store_->held(id);
  SyncGraph(now);
  if (tier.last()) return 0;
  const Why why{Action::kDrop, Reason::kAsk, OrderName(tier)};
  DropClean(tier, why, now, [&] {
    // A neighbour is waiting for the memory: keep none of it for the next entry.
    store_->memory(id)->ReleaseSpare();
    return before - std::min(before, store_->held(id)) >= bytes;
  });
  const Bytes freed = before - std::min(before, store_->held(id));
  if (freed < bytes) {
    BackupTails(tier, Reason::kAsk, now);
    *more = SendSomeDown(tier, bytes - freed, why, Priority::kGiveBack, now);
    // After a failure a tier receives nothing for a moment: that passes.
    for (const TierState* below = tier.below; below != nullptr; below = below->below) {
      *more = *more || now < below->write_backoff_until;
    }
  }
  RecordTransfers(now);
  return freed;
}

// --- down ---

// A tier in EMERGENCY, after a failure, or too small takes nothing; nor does a disk
// that is not healthy.
bool Engine::MayTake(const TierState& tier, std::uint32_t slot, TimePoint now) const {
  return now >= tier.write_backoff_until && MayTakeSoon(tier, slot);
}

bool Engine::MayTakeSoon(const TierState& tier, std::uint32_t slot) const {
  if (tier.blocked() && !MutantOn(Mutant::kEmergencyTakesMoves)) return false;
  if (closed_ || store_->slots().slot(slot).size > GrowthLimit(tier)) return false;
  return tier.id != TierId::kDisk || store_->disk()->health() == BlobStore::Health::kGood;
}

bool Engine::LowerTiersRest(const TierState& tier, std::uint32_t slot, TimePoint now) const {
  bool soon = false;
  for (const TierState* below = tier.below; below != nullptr; below = below->below) {
    if (!MayTakeSoon(*below, slot)) continue;
    if (now >= below->write_backoff_until) return false;
    soon = true;
  }
  return soon;
}

Engine::Going Engine::SendDown(TierState& tier, std::uint32_t slot, const Why& why,
                               Priority priority, bool then_drop, TimePoint now) {
  try {
    return TrySendDown(tier, slot, why, priority, then_drop, now);
  } catch (const std::bad_alloc&) {
    return Going::kNowhere;
  }
}

// Into the first tier below that takes it. An entry that is being copied down already
// only has its transfer raised.
Engine::Going Engine::TrySendDown(TierState& tier, std::uint32_t slot, const Why& why,
                                  Priority priority, bool then_drop, TimePoint now) {
  const Record& record = store_->slots().record(slot);
  if (record.below != nullptr && record.below->transfer != nullptr) {
    Transfer* const going = record.below->transfer;
    if (going->from != tier.id || going->to <= going->from) return Going::kNowhere;
    going->then_drop = going->then_drop || then_drop;
    if (priority < going->priority) transfer_queue_->Raise(going, priority);
    return Going::kDown;
  }
  if (tier.gone) return Going::kNowhere;
  const std::size_t most = IsBackground(priority) ? kBackgroundMax : kUrgentMax;
  bool full = false;
  for (TierState* below = tier.below; below != nullptr; below = below->below) {
    if (!MayTake(*below, slot, now)) continue;
    // What only the device can read goes to disk by way of the host.
    if (tier.id == TierId::kDevice && below->id == TierId::kDisk && store_->on_gpu()) continue;
    if (transfer_queue_->Waiting(tier.id, below->id) >= most) return Going::kFull;
    bool soon = false;
    auto transfer = std::make_unique<Transfer>();
    const std::optional<CopyDestination> destination =
        RoomBelow(*below, slot, {why.reason, priority, why.below}, now, &soon);
    full = full || soon;
    if (!destination) continue;
    transfer->from = tier.id;
    transfer->to = below->id;
    transfer->priority = priority;
    transfer->source = store_->BlockIn(slot, tier.id);
    transfer->destination = *destination;
    transfer->reason = why.reason;
    transfer->order = why.order;
    transfer->then_drop = then_drop;
    if (!StartTransfer(std::move(transfer), slot)) return Going::kNowhere;
    return Going::kDown;
  }
  return full ? Going::kFull : Going::kNowhere;
}

// Whether DropOrRemove would succeed.
bool Engine::MayBeEvicted(const TierState& tier, std::uint32_t slot) const {
  const Record& record = store_->slots().record(slot);
  if (IsMoved(record, tier.id)) return false;
  if (record.copies == MaskOf(tier.id) && (record.has_children() || slot == stays_)) return false;
  if (IsProtected(tier, slot)) return false;
  return store_->Leases(slot) == store_->PinsOf(slot);
}

std::optional<CopyDestination> Engine::RoomBelow(TierState& tier, std::uint32_t slot,
                                                 const ForWhat& what, TimePoint now, bool* soon) {
  const auto [reason, priority, below] = what;
  const Bytes size = store_->slots().slot(slot).size;
  EvictionQueue& queue = tier.last() ? *tier.dirty : *tier.clean;
  const Level at = level(tier.id);
  const Facts own = store_->FactsOf(slot, tier.id);
  const EntryId own_id = store_->IdOf(slot);
  const bool for_others = reason == Reason::kAsk || (reason == Reason::kReserve && tier.last());
  const Why why{tier.last() ? Action::kDestroy : Action::kDrop, for_others ? reason : Reason::kRoom,
                OrderName(tier), below};
  const auto lacking = [&] { return Lacking(tier, size); };
  if (tier.estimator.unknown() && lacking() > 0 &&
      store_->bytes(tier.id) + size <= capacity(tier.id)) {
    // There is room, but it must not be used while pressure is unknown. That passes,
    // and nothing need be evicted for it.
    *soon = true;
    return std::nullopt;
  }
  Bytes need = lacking();
  if (need == 0) {
    Result<CopyDestination> destination = store_->Allocate(slot, tier.id);
    if (destination) return *destination;
    if (destination.error().code != Code::kNoMemory) return std::nullopt;
    need = size;  // The account allows it, but the tier has no memory.
  }
  // Relief makes bytes available: exchanging one copy for another makes none.
  const bool relief =
      !IsBackground(priority) &&
      (reason == Reason::kIdle || reason == Reason::kHeavy || reason == Reason::kOrder);
  const bool exchanges = !relief && below == RoomOf::kAny;
  if (exchanges && RebalanceBackups(tier, slot, priority, now) && lacking() == 0) {
    Result<CopyDestination> destination = store_->Allocate(slot, tier.id);
    if (destination) return *destination;
    if (destination.error().code != Code::kNoMemory) return std::nullopt;
    tier.no_rebalance_until = now + kWriteBackoff;  // Free space is fragmented.
    tier.no_urgent_rebalance_until = now + kWriteBackoff;
  }
  // Evicts only entries that are ranked lower, and only if that is enough: otherwise
  // nothing. An ask destroys nothing, and neither does a copy that is made only for
  // safety.
  const bool asked = reason == Reason::kAsk && !MutantOn(Mutant::kAskDestroys);
  const bool too_few_duplicates = !exchanges && tier.last() && BytesOnlyIn(tier) < need;
  const bool spared = below == RoomOf::kNone && !MutantOn(Mutant::kReliefDestroysBelow);
  const bool may_not_evict =
      too_few_duplicates || (tier.last() && (asked || spared || IsBackground(priority)));
  // What others continue can't be given up before them, however low it ranks.
  const bool stays = below == RoomOf::kLastCopies && store_->slots().record(slot).has_children();
  if (!may_not_evict && now >= tier.no_eviction_until) {
    Candidates aside(this);
    std::vector<EntryId> lower;
    Bytes found = 0;
    // Free space may then be fragmented: a few more may be evicted for this entry.
    const Bytes most = need + kForPieces * size;
    int passed_by = 0;
    while (found < most) {
      aside.MakeRoom();
      const std::optional<EntryId> next = queue.Next(at);
      if (!next) break;
      aside.Put(*next);
      const Facts facts = store_->FactsOf(next->slot, tier.id);
      if (next->slot == slot) break;
      if (!stays && !queue.Before(at, *next, facts, own_id, own)) break;
      if (!MayBeEvicted(tier, next->slot)) continue;
      const TierMask copies = store_->slots().record(next->slot).copies;
      if (!exchanges && tier.last() && copies != MaskOf(tier.id)) {
        if (++passed_by == kCopiesPassedBy) break;
        continue;
      }
      lower.push_back(*next);
      found += facts.bytes;
      if (found < need) continue;
      for (const EntryId id : std::exchange(lower, {})) {
        if (!DropOrRemove(tier, id.slot, why, now) || lacking() > 0) continue;
        Result<CopyDestination> destination = store_->Allocate(slot, tier.id);
        if (destination) return *destination;
        if (destination.error().code != Code::kNoMemory) return std::nullopt;
      }
    }
    // They may have come back, and must not be evicted again for the same entry at
    // once.
    if (found >= need) tier.no_eviction_until = now + kWriteBackoff;
  }
  *soon = SendSomeDown(tier, std::max(lacking(), size), why, priority, now);
  return std::nullopt;
}

// An upper bound of the bytes in that tier without a copy in the tier above.
Bytes Engine::BytesOnlyIn(const TierState& tier) const {
  const TierState* const above = Above(tier);
  return above == nullptr ? store_->bytes(tier.id)
                          : Excess(store_->bytes(tier.id), store_->clean_bytes(above->id));
}

// Copies dirty entries down, so that they can be dropped then. True: some are in
// flight, or will be.
bool Engine::SendSomeDown(TierState& tier, Bytes bytes, const Why& why, Priority priority,
                          TimePoint now, bool then_drop) {
  if (tier.last()) return false;
  Candidates aside(this);
  bool full = false;
  int passed_by = 0;
  while (tier.going < bytes && !full) {
    aside.MakeRoom();
    const std::optional<EntryId> next =
        NextByOrder(tier, *tier.dirty, WorkflowOrder::CandidateFilter::kAny);
    if (!next) break;
    // Entries that continue it are evicted first; but with very many parents, all go in
    // their order.
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

// Order: all that may need memory first, then the pin, which keeps the source as it is
// until Finish releases it.
bool Engine::StartTransfer(std::unique_ptr<Transfer> transfer, std::uint32_t slot) {
  transfer->bytes = store_->slots().slot(slot).size;
  try {
    PrepareTransfer(transfer.get(), slot);
  } catch (const std::bad_alloc&) {
    ReleaseDestination(*transfer);
    throw;
  }
  // What follows needs no memory, nor does the end of the transfer.
  if (!transfer_queue_->IsReady(transfer->from, transfer->to) ||
      store_->slots().slot(slot).word.Pin() != LeaseWord::Got::kYes) {
    ReleaseDestination(*transfer);
    return false;
  }
  if (transfer->to > transfer->from) {
    state(transfer->from).going += transfer->bytes;
    state(transfer->from).background += IsBackground(transfer->priority) ? 1 : 0;
  }
  store_->LowerCopiesOf(slot).transfer = transfer.get();
  transfer->background_at_start = IsBackground(transfer->priority);
  transfer->owner = owner_;
  transfer->run = on_transfer_;
  transfers_.push_back(transfer.get());
  transfer_queue_->Start(transfer.release());
  return true;
}

void Engine::PrepareTransfer(Transfer* transfer, std::uint32_t slot) {
  ReserveOne(transfers_);
  if (transfer->staging) staging_.reserve(staging_.size() + transfers_.size() + 1);
  LowerCopies& below = store_->LowerCopiesOf(slot);
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

// While a failed device copy may still write to its destination, that is not freed.
void Engine::ReleaseDestination(const Transfer& transfer) {
  if (transfer.from == TierId::kDevice && !transfer.status && InDoubt()) return;
  if (transfer.staging) {
    std::free(transfer.destination.block);  // NOLINT(cppcoreguidelines-no-malloc): aligned_alloc's.
    store_->CountStaging(0, transfer.bytes);
  } else if (transfer.to != transfer.from) {
    store_->Free(transfer.to, transfer.destination, transfer.bytes);
  }
}

// The pin is released first. If the entry was removed meanwhile, its last reader may
// have been this transfer: then the slot is reaped at the end.
void Engine::Finish(std::unique_ptr<Transfer> transfer, TimePoint now) {
  std::erase(transfers_, transfer.get());
  if (!closed_) SyncGraph(now);
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
    if (!MutantOn(Mutant::kDestinationLeaked)) ReleaseDestination(*transfer);
    if (MutantOn(Mutant::kReplacedGetMisses)) {
      Answer(std::exchange(transfer->pending_gets, nullptr), kNoSlot, {});
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
      // The best recent transfer is nearest to the link's own rate: several at once
      // share it.
      up_rate_ = std::max(up_rate_ * 0.95, static_cast<double>(transfer->bytes) / took);
    }
    AheadArrived(slot, live && transfer->status.has_value());
    // A value that can't be read now is not tried again at once.
    if (!transfer->status && transfer->status.error().code != Code::kCancelled) {
      ahead_rests_until_ = now + kWriteBackoff;
    }
  }
  if (dead) store_->Reap(slot);
  if (closed_) return;
  if (ahead) PrefetchAhead(now);
  RecordTransfers(now);
  if (pending_sets_ != nullptr) RetryPendingSets(now, false);
  if (transfer->background_at_start && transfer->to > transfer->from) {
    WriteBack(state(transfer->from), now);
  }
}

void Engine::FinishDown(Transfer& transfer, TimePoint now) {
  TierState& from = state(transfer.from);
  TierState& to = state(transfer.to);
  const std::uint32_t slot = transfer.id.slot;
  if (!transfer.status && !MutantOn(Mutant::kFailedMoveCommitted)) {
    ReleaseDestination(transfer);
    if (transfer.source_damaged) {
      PendingGet* const pending_gets = std::exchange(transfer.pending_gets, nullptr);
      DropCorrupt(from, slot, now);
      return Answer(pending_gets, kNoSlot, {});
    }
    if (from.gone) {  // The entry is in another tier, too.
      Enter(slot);
      return FetchAgain(transfer, now);
    }
    if (transfer.status.error().code == Code::kCancelled) {
      Enter(slot);
      return FetchAgain(transfer, now);
    }
    Answer(std::exchange(transfer.pending_gets, nullptr), kNoSlot, transfer.status);
    ++to.failed_moves;
    to.write_backoff_until = now + kWriteBackoff;
    if (transfer.status.error().code == Code::kCorrupt) ++counts_.corrupt;
    to.last_failure = std::move(transfer.status);  // Moved, which needs no memory.
    return Enter(slot);
  }
  const TierMask before = store_->slots().record(slot).copies;
  store_->LowerCopiesOf(slot).seal = std::move(transfer.seal);
  if (transfer.staging) {  // For a get on the host.
    store_->LowerCopiesOf(slot).staging = transfer.destination.block;
    staging_.push_back(transfer.id);
    Enter(slot);
    return FetchAgain(transfer, now);
  }
  store_->AddCopy(slot, transfer.to, transfer.destination);
  Requeue(slot, before);
  FetchAgain(transfer, now);
  if (!store_->IsLive(transfer.id)) return;
  const bool expired = transfer.reason == Reason::kExpired;
  const Why gone{expired ? Action::kExpire : Action::kDemote, transfer.reason, transfer.order};
  // Entries that continue it here are evicted first; it can be dropped after them,
  // being clean now.
  const bool leaf = store_->slots().record(slot).children[IndexOf(from.id)] == 0 ||
                    MutantOn(Mutant::kParentLeavesFirst);
  if (transfer.then_drop && leaf && Drop(from, slot, gone, now)) return;
  Log(slot, from.id, {Action::kBack, transfer.reason, transfer.order}, now);
}

// Bytes in memory do not match their checksums. Another copy may be good; without one
// the entry is destroyed.
void Engine::DropCorrupt(TierState& tier, std::uint32_t slot, TimePoint now) {
  ++counts_.corrupt;
  const Why why{Action::kDestroy, Reason::kCorrupt, {}};
  const Record& record = store_->slots().record(slot);
  if (tier.id == TierId::kDisk) store_->LowerCopiesOf(slot).damaged = true;
  if (record.copies != MaskOf(tier.id) &&
      Drop(tier, slot, {Action::kDrop, Reason::kCorrupt, {}}, now)) {
    return;
  }
  RemoveEvenIfLeased(slot, why, now);
}

void Engine::FinishScrub(Transfer& transfer, TimePoint now) {
  ++counts_.scrubbed;
  const std::uint32_t slot = transfer.id.slot;
  if (!transfer.status && transfer.status.error().code == Code::kCorrupt) {
    DropCorrupt(state(TierId::kDisk), slot, now);
  }
  FetchAgain(transfer, now);  // A get may have asked for it meanwhile.
}

// For gets that wait: their entry is gone, or was not brought up. Their key may have
// been set again, and that would not be a miss.
void Engine::FetchAgain(Transfer& transfer, TimePoint now) {
  while (transfer.pending_gets != nullptr) {
    PendingGet* const pending_get =
        std::exchange(transfer.pending_gets, transfer.pending_gets->next);
    Fetch(pending_get, now);
  }
}

// --- ahead of need ---

void Engine::WriteBack(TierState& tier, TimePoint now) {
  const std::optional<Duration>& after = settings_.options.write_back_after;
  if (tier.last() || !after) return;
  // In RELAXED, copying down can wait until entries are idle. At other levels every
  // dirty byte is pressure, and bytes that just arrived would make levels flap.
  const bool calm = level(tier.id) == Level::kRelaxed;
  const std::int64_t bound = (calm ? now - *after : now).time_since_epoch().count();
  CompleteChains(tier, now);
  Candidates aside(this);
  int nowhere = 0;
  int passed_by = 0;
  // In a full host tier a copy is of use only if the entries evicted before it have
  // one.
  const bool ends_only = tier.below->id == TierId::kHost && IsNearlyFull(*tier.below);
  while (tier.background < kBackgroundMax && nowhere < 16) {
    aside.MakeRoom();
    // The entry that is evicted next comes first.
    const bool foreseen = next_uses_.in_force || RanksByScore();
    const std::optional<EntryId> next =
        foreseen ? NextByOrder(tier, *tier.dirty, WorkflowOrder::CandidateFilter::kAny)
                 : tier.dirty->idle.Next(bound);
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
    const Going going = SendDown(tier, next->slot, why, Priority::kWriteBack, false, now);
    if (going == Going::kDown) continue;
    aside.Put(*next);
    if (going == Going::kFull) return;
    ++nowhere;
  }
}

}  // namespace spillway
