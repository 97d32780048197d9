// SPDX-License-Identifier: Apache-2.0
// Reads of values that are not in memory: one load for each entry, however many gets
// wait for it. And the values that a start finds on disk.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/mutant.h"
#include "base/printable.h"
#include "base/reserve_one.h"
#include "cache/engine.h"

namespace spillway {

namespace {
// Values lent from staging buffers, because a single read is no reason to evict: at
// most this share of the tier that the value would have gone to.
constexpr Bytes kStagingShare = 8;
constexpr Bytes kStagingMin = 64 * kMiB;
constexpr std::size_t kPage = 4096;

// Answers a waiting get; without memory for the message, with a shorter one.
void Tell(PendingGet* pending_get, Slot* leased, const Status& status) {
  Status copy;
  try {
    copy = status;
  } catch (const std::bad_alloc&) {
    copy = Error{status.error().code, "no memory"};
  }
  pending_get->done(pending_get, leased, std::move(copy));
}
}  // namespace

void Engine::Fetch(PendingGet* pending_get, TimePoint now) {
  try {
    TryFetch(pending_get, now);
  } catch (const std::bad_alloc&) {
    ++counts_.fetches_failed;
    pending_get->done(pending_get, nullptr, NoMemory());
  }
}

// Throws only before it has answered or queued the waiting get.
void Engine::TryFetch(PendingGet* pending_get, TimePoint now) {
  if (pending_cancelled_) {
    return pending_get->done(pending_get, nullptr, Error{Code::kClosed, "closing"});
  }
  NoticeLoss(now);
  SyncGraph(now);
  const std::uint32_t slot = store_->index().Lookup(pending_get->hash, pending_get->key);
  if (slot == kNoSlot) {
    if (!loading_) return pending_get->done(pending_get, nullptr, {});
    if (adopting_waits_) return pending_get->done(pending_get, nullptr, NoMemory());
    // It may be among the blobs that are still to be found.
    pending_get->next = std::exchange(for_loading_, pending_get);
    return;
  }
  pending_get->next = nullptr;
  if (store_->DataIn(slot, pending_get->where) != nullptr) return Answer(pending_get, slot, {});
  ++counts_.fetches;
  LowerCopies& below = store_->LowerCopiesOf(slot);
  if (below.transfer == nullptr || MutantOn(Mutant::kTwoLoadsOfOne)) {
    if (Status up = Bring(slot, pending_get->where, now); !up) {
      ++counts_.fetches_failed;
      return pending_get->done(pending_get, nullptr, std::move(up));
    }
  } else if (below.transfer->priority > Priority::kGet) {
    AheadIsLate(slot);
    transfer_queue_->Raise(below.transfer, Priority::kGet);
  }
  pending_get->next = std::exchange(below.transfer->pending_gets, pending_get);
}

// The get waits either for the disk to be read in, or for a transfer.
void Engine::Abandon(PendingGet* pending_get) {
  const auto remove = [&](PendingGet** list) {
    for (PendingGet** at = list; *at != nullptr; at = &(*at)->next) {
      if (*at != pending_get) continue;
      *at = pending_get->next;
      return true;
    }
    return false;
  };
  if (remove(&for_loading_)) return;
  for (Transfer* transfer : transfers_) {
    if (remove(&transfer->pending_gets)) return;
  }
}

void Engine::Answer(PendingGet* pending_gets, std::uint32_t slot, const Status& status) {
  while (pending_gets != nullptr) {
    PendingGet* const pending_get = std::exchange(pending_gets, pending_gets->next);
    Slot* leased = nullptr;
    if (slot != kNoSlot && store_->slots().slot(slot).word.Acquire() == LeaseWord::Got::kYes) {
      leased = &store_->slots().slot(slot);
      pending_get->data = store_->DataIn(slot, pending_get->where);
    }
    Tell(pending_get, leased, status);
  }
}

void Engine::ExpirePendingGets(TimePoint now) {
  if (for_loading_ == nullptr && transfers_.empty()) return;
  const Status late = Error{Code::kDeadline, "too late"};  // Short: needs no memory.
  const auto expire = [&](PendingGet** at) {
    while (*at != nullptr) {
      PendingGet* const pending_get = *at;
      if (pending_get->deadline > now) {
        at = &pending_get->next;
        continue;
      }
      *at = pending_get->next;
      pending_get->done(pending_get, nullptr, late);
    }
  };
  expire(&for_loading_);
  for (Transfer* transfer : transfers_) expire(&transfer->pending_gets);
}

// --- up ---

// Free room, or that of clean entries ranked lower than this one was before the read:
// so one cold read evicts nothing, and a second one may.
bool Engine::RoomAbove(TierState& tier, std::uint32_t slot, bool may_displace, TimePoint now,
                       CopyDestination* destination) {
  const Bytes size = store_->slots().slot(slot).size;
  if (LevelForGrowth(tier) >= Level::kCritical || tier.gone || size > GrowthLimit(tier))
    return false;
  if (const Bytes need = Lacking(tier, size); need > 0) {
    if (!may_displace || tier.last() || !DropLower(tier, slot, need, now)) return false;
  }
  Result<CopyDestination> got = store_->Allocate(slot, tier.id);
  if (!got) return false;
  *destination = *got;
  return true;
}

// Drops clean copies of entries ranked lower than `slot`: all of `bytes`, or nothing.
bool Engine::DropLower(TierState& tier, std::uint32_t slot, Bytes bytes, TimePoint now) {
  const Level at = level(tier.id);
  EvictionQueue& queue = *tier.clean;
  const Facts own = store_->FactsOf(slot, tier.id);
  const EntryId own_id = store_->IdOf(slot);
  std::vector<EntryId> taken;
  Bytes found = 0;
  try {
    while (found < bytes) {
      ReserveOne(taken);
      const std::optional<EntryId> next = queue.Next(at);
      if (!next) break;
      taken.push_back(*next);
      if (!queue.Before(at, *next, store_->FactsOf(next->slot, tier.id), own_id, own)) break;
      if (store_->Leases(next->slot) == 0) found += store_->slots().slot(next->slot).size;
    }
  } catch (const std::bad_alloc&) {
    found = 0;
  }
  Bytes left = 0;
  for (const EntryId id : taken) {
    const Bytes size = store_->slots().slot(id.slot).size;
    const bool lower = queue.Before(at, id, store_->FactsOf(id.slot, tier.id), own_id, own);
    const Why why{Action::kDrop, Reason::kRoom, OrderName(tier)};
    if (found >= bytes && left < bytes && lower && Drop(tier, id.slot, why, now)) {
      left += size;
    } else {
      Enter(id.slot);
    }
  }
  return left >= bytes;
}

// Starts the transfer that brings it one step nearer to `where`.
Status Engine::Bring(std::uint32_t slot, std::optional<Place> where, TimePoint now) {
  if (where != Place::kDevice) return BringUp(slot, Priority::kGet, true, now);
  const auto refused = [&](Code code, std::string_view why) {
    return Error{code, fmt::format("get '{}', {} bytes: {}; without `where` it is read on the host",
                                   Printable(store_->slots().slot(slot).key()),
                                   store_->slots().slot(slot).size, why)};
  };
  if (top_->gone) return refused(Code::kUnavailable, "the device is lost");
  if (Has(store_->slots().record(slot).copies, TierId::kHost)) {
    if (BringToDevice(slot, Priority::kGet, now)) return {};
    return refused(Code::kBlocked,
                   "the device has no room for it now, and nothing more may be evicted at once");
  }
  Status up = BringUp(slot, Priority::kGet, false, now);
  if (up || up.error().code != Code::kNoMemory) return up;
  return refused(Code::kBlocked,
                 "the host tier, through which it is copied, has no room for it now");
}

// From disk, or from a GPU to where the host can read it.
Status Engine::BringUp(std::uint32_t slot, Priority priority, bool may_lend, TimePoint now) {
  auto transfer = std::make_unique<Transfer>();
  const bool off_gpu = Has(store_->slots().record(slot).copies, TierId::kDevice) && !top_->gone;
  transfer->from = off_gpu ? TierId::kDevice : TierId::kDisk;
  if (off_gpu) transfer->source = store_->BlockIn(slot, TierId::kDevice);
  transfer->priority = priority;
  transfer->started = now;
  const Bytes size = store_->slots().slot(slot).size;
  const bool get = priority == Priority::kGet;
  bool placed = false;
  // Into the tier next to the disk, usually the host's.
  for (const TierId id : {TierId::kHost, TierId::kDevice}) {
    if (!Has(store_->tiers(), id) || placed) continue;
    if (id == TierId::kDevice && store_->on_gpu()) continue;
    transfer->to = id;
    placed = RoomAbove(state(id), slot, get, now, &transfer->destination);
  }
  if (!placed && may_lend) {
    const TierId id = Has(store_->tiers(), TierId::kHost) ? TierId::kHost : TierId::kDevice;
    const Bytes share = Has(store_->tiers(), id) ? store_->capacity(id) / kStagingShare : 0;
    const Bytes most = std::max(kStagingMin, share);
    // No tick may have run for a while: buffers that are not leased any more are freed
    // first.
    if (store_->staging_bytes() + size > most) FreeStaging(now);
    if (store_->staging_bytes() > 0 && store_->staging_bytes() + size > most) {
      return Error{
          Code::kBusy,
          fmt::format("get '{}': staging buffers already lend {} bytes, and no tier has room",
                      Printable(store_->slots().slot(slot).key()), store_->staging_bytes())};
    }
    transfer->destination.block = static_cast<std::byte*>(
        std::aligned_alloc(kPage, std::max<Bytes>(1, (size + kPage - 1) / kPage) * kPage));
    if (transfer->destination.block == nullptr) {
      return Error{Code::kNoMemory, fmt::format("get '{}': no memory for {} bytes",
                                                Printable(store_->slots().slot(slot).key()), size)};
    }
    transfer->to = TierId::kHost;
    transfer->staging = placed = true;
    store_->CountStaging(size, 0);
  }
  if (!placed) return Error{Code::kNoMemory, "no tier above has free room"};
  if (!StartTransfer(std::move(transfer), slot)) {
    return Error{Code::kBusy, "too many leases on one entry, or no thread to copy it"};
  }
  return {};
}

// For a get on the device, room is made as for a set.
bool Engine::RoomOnDevice(std::uint32_t slot, TimePoint now, CopyDestination* destination) {
  TierState& tier = *top_;
  const Bytes size = store_->slots().slot(slot).size;
  if (tier.blocked() || size > GrowthLimit(tier)) return false;
  const Why why{Action::kDrop, Reason::kRoom, OrderName(tier)};
  if (const Bytes lacking = Lacking(tier, size); lacking > 0) {
    DropCleanBytes(tier, lacking, why, now);
    if (Lacking(tier, size) > 0) return false;
  }
  // Free bytes may be fragmented, and the card fuller than the account says.
  for (int attempt = 0; attempt < 8; ++attempt) {
    Result<CopyDestination> got = store_->Allocate(slot, tier.id);
    if (got) {
      *destination = *got;
      return true;
    }
    if (got.error().code != Code::kNoMemory) return false;
    const Bytes before = store_->bytes(tier.id);
    DropCleanBytes(tier, size, why, now);
    if (store_->bytes(tier.id) == before) return false;
  }
  return false;
}

bool Engine::BringToDevice(std::uint32_t slot, Priority priority, TimePoint now) {
  auto transfer = std::make_unique<Transfer>();
  CopyDestination* const destination = &transfer->destination;
  const bool room = priority == Priority::kGet ? RoomOnDevice(slot, now, destination)
                                               : RoomAbove(*top_, slot, true, now, destination);
  if (!room) return false;
  transfer->from = TierId::kHost;
  transfer->to = TierId::kDevice;
  transfer->priority = priority;
  transfer->started = now;
  transfer->source = store_->BlockIn(slot, TierId::kHost);
  return StartTransfer(std::move(transfer), slot);
}

bool Engine::Prefetch(std::uint64_t hash, std::string_view key, TimePoint now) {
  SyncGraph(now);
  const std::uint32_t slot = store_->index().Lookup(hash, key);
  if (slot == kNoSlot) return false;
  const TierMask copies = store_->slots().record(slot).copies;
  const bool to_gpu = store_->on_gpu() && Has(copies, TierId::kHost);
  if (store_->DataIn(slot, store_->on_gpu() ? std::optional(Place::kDevice) : std::nullopt) !=
      nullptr) {
    return true;
  }
  if (store_->LowerCopiesOf(slot).transfer != nullptr) return true;
  if (to_gpu) {
    // Only into free room; otherwise the value stays in host memory.
    if (top_->gone || Lacking(*top_, store_->slots().slot(slot).size) > 0) return true;
    counts_.prefetched += BringToDevice(slot, Priority::kPrefetch, now) ? 1 : 0;
    return true;
  }
  if (!BringUp(slot, Priority::kPrefetch, false, now)) return false;
  ++counts_.prefetched;
  return true;
}

void Engine::FinishUp(Transfer& transfer, TimePoint now) {
  const std::uint32_t slot = transfer.id.slot;
  PendingGet* const pending_gets = std::exchange(transfer.pending_gets, nullptr);
  if (!transfer.status) {
    ReleaseDestination(transfer);
    counts_.fetches_failed += transfer.priority == Priority::kGet ? 1 : 0;
    const Code code = transfer.status.error().code;
    // The source in memory is blamed only if it was checked: it may be good, and only
    // its copy damaged.
    if (code == Code::kCorrupt && (transfer.from == TierId::kDisk || transfer.source_damaged)) {
      // A miss for the waiting gets, and for all later ones.
      DropCorrupt(state(transfer.from), slot, now);
      return Answer(pending_gets, kNoSlot, {});
    }
    if (transfer.from == TierId::kDisk) ++state(TierId::kDisk).failed_moves;
    Enter(slot);
    if (MutantOn(Mutant::kFailedLoadForgotten)) return;
    if (code == Code::kCancelled) {  // Before these gets waited.
      transfer.pending_gets = pending_gets;
      return FetchAgain(transfer, now);
    }
    return Answer(pending_gets, kNoSlot, transfer.status);
  }
  LowerCopies& below = store_->LowerCopiesOf(slot);
  const TierMask before = store_->slots().record(slot).copies;
  below.seal = std::move(transfer.seal);
  if (transfer.staging) {
    below.staging = transfer.destination.block;
    // Leases on the copy of a lost device keep that copy.
    if (!Has(before, TierId::kDevice)) {
      store_->slots().slot(slot).data.store(below.staging, std::memory_order_release);
    }
    staging_.push_back(transfer.id);
  } else if (transfer.to == TierId::kHost) {
    store_->AddCopy(slot, TierId::kHost, transfer.destination);
  } else if (!store_->AddToDevice(slot, transfer.destination)) {
    ReleaseDestination(transfer);  // It is leased where it is; another time.
    NoteCandidate(slot);
    return Answer(pending_gets, slot, {});
  } else if (transfer.from == TierId::kHost) {
    ++counts_.promoted;
  }
  if (!transfer.staging) NoteArrival(transfer, now);
  Requeue(slot, before);
  if (store_->on_gpu()) {
    transfer.pending_gets = pending_gets;
    FetchAgain(transfer, now);  // One step nearer; usually it is there now.
    if (!store_->IsLive(transfer.id)) return;
  } else {
    Answer(pending_gets, slot, {});
  }
  if (!Has(store_->slots().record(slot).copies, TierId::kDevice)) NoteCandidate(slot);
}

// Frees staging buffers that are not leased any more. Rework makes sure of that: it
// fails while there is a lease.
void Engine::FreeStaging(TimePoint) {
  std::erase_if(staging_, [&](EntryId id) {
    if (!store_->IsLive(id)) return true;  // Freed with its slot.
    Slot& slot = store_->slots().slot(id.slot);
    std::byte*& block = store_->LowerCopiesOf(id.slot).staging;
    const auto take = [&] {
      // On a GPU's host a value may be lent while it is on the device.
      if (slot.data.load(std::memory_order_relaxed) != block) return;
      slot.data.store(nullptr, std::memory_order_release);
    };
    if (!store_->index().Rework(id.slot, take)) return false;
    if (MutantOn(Mutant::kStagingLeaked)) return true;
    store_->CountStaging(0, slot.size);
    std::free(block);  // NOLINT(cppcoreguidelines-no-malloc): aligned_alloc's.
    block = nullptr;
    return true;
  });
}

// --- what a start finds on disk ---

// Adopts entry by entry; without memory for one, keeps the rest for the next call.
bool Engine::Adopt(std::vector<BlobStore::Found>* found, bool done, TimePoint now) {
  std::size_t adopted = 0;
  try {
    for (; adopted < found->size(); ++adopted) AdoptOne(&(*found)[adopted], now);
  } catch (const std::bad_alloc&) {
    found->erase(found->begin(), found->begin() + static_cast<std::ptrdiff_t>(adopted));
    adopting_waits_ = true;
    Answer(std::exchange(for_loading_, nullptr), kNoSlot, NoMemory());
    return false;
  }
  adopting_waits_ = false;
  if (done) EndLoading(now);
  return true;
}

// Whether the key was set again or erased since the start.
bool Engine::IsReplaced(const BlobStore::Found& blob) const {
  const std::string& key = blob.facts.key;
  const std::uint32_t group = store_->GroupOf(key);
  return store_->index().Lookup(store_->index().HashOf(key), key) != kNoSlot ||
         (cleared_during_recovery_ >> group & 1) != 0 ||
         (keys_written_during_recovery_.contains(key) && !MutantOn(Mutant::kOldBlobAdopted));
}

void Engine::FreeReplaced(const std::vector<BlobStore::Found>& found) {
  for (const BlobStore::Found& blob : found) {
    if (IsReplaced(blob)) store_->disk()->Free(blob.id);
  }
}

// Throws only before anything has changed.
void Engine::AdoptOne(BlobStore::Found* blob, TimePoint now) {
  ReserveOne(deadlines_);
  ReserveOne(orphans_);
  Result<std::uint32_t> slot = Error{Code::kBusy, ""};
  if (!IsReplaced(*blob) && !closed_) slot = store_->Adopt(*blob, now);
  if (!slot) {  // Or no use: it has expired, or there is no slot.
    if (!closed_) store_->disk()->Free(blob->id);
    return;
  }
  const EntryId id = store_->Commit(*slot, kNoSlot, now);
  if (graph_ != nullptr) Introduce(id.slot, now);
  if (scores_ != nullptr) OnInsert(id.slot, now);
  Enter(id.slot);
  const Record& record = store_->slots().record(id.slot);
  if (store_->slots().slot(id.slot).has_deadline) NoteDeadline(id, record.extra->deadline);
  if (!blob->facts.parent.empty()) {
    orphans_.push_back({id, std::move(blob->facts.parent), blob->facts.parent_generation});
  }
}

void Engine::EndLoading(TimePoint now) {
  for (const Orphan& orphan : orphans_) {
    if (store_->IsLive(orphan.id)) {
      store_->LinkToParent(orphan.id.slot, orphan.parent, orphan.generation);
    }
  }
  orphans_ = {};
  recovery_failed_ = store_->disk()->has_unseen();
  if (recovery_failed_) FreeUnseen();
  keys_written_during_recovery_ = {};
  loading_ = false;
  PendingGet* pending_gets = std::exchange(for_loading_, nullptr);
  while (pending_gets != nullptr) {
    PendingGet* const pending_get = std::exchange(pending_gets, pending_gets->next);
    Fetch(pending_get, now);
  }
  if (pending_sets_ != nullptr) RetryPendingSets(now, false);
}

}  // namespace spillway
