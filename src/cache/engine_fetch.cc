// Reads of what is not in memory: one load for each entry, however many wait;
// and what a restart finds on disk.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/mutant.h"
#include "base/printable.h"
#include "base/room_for_one.h"
#include "cache/engine.h"

namespace spillway {

namespace {
// Values lent from memory of no tier, because nobody in one has to make room
// for a single read: at most this much of the tier it would have gone to.
constexpr Bytes kPassingShare = 8;
constexpr Bytes kPassingMin = 64 * kMiB;
constexpr std::size_t kPage = 4096;

// Whoever waits is answered; without memory in few words.
void Tell(Waiter* waiter, Slot* leased, const Status& status) {
  Status copy;
  try {
    copy = status;
  } catch (const std::bad_alloc&) {
    copy = Error{status.error().code, "no memory"};
  }
  waiter->done(waiter, leased, std::move(copy));
}
}  // namespace

void Engine::Fetch(Waiter* waiter, TimePoint now) {
  try {
    TryFetch(waiter, now);
  } catch (const std::bad_alloc&) {
    ++counts_.fetches_failed;
    waiter->done(waiter, nullptr, NoMemory());
  }
}

// Throws only while it has neither answered nor noted who waits.
void Engine::TryFetch(Waiter* waiter, TimePoint now) {
  if (turned_away_) {
    return waiter->done(waiter, nullptr, Error{Code::kClosed, "closing"});
  }
  NoticeLoss(now);
  Follow(now);
  const std::uint32_t slot = store_->index().Lookup(waiter->hash, waiter->key);
  if (slot == kNoSlot) {
    if (!loading_) return waiter->done(waiter, nullptr, {});
    if (adopting_waits_) return waiter->done(waiter, nullptr, NoMemory());
    // It may be among what is still to be found.
    waiter->next = std::exchange(for_loading_, waiter);
    return;
  }
  waiter->next = nullptr;
  if (store_->DataIn(slot, waiter->where) != nullptr) return Answer(waiter, slot, {});
  ++counts_.fetches;
  Below& below = store_->BelowOf(slot);
  if (below.transfer == nullptr || MutantOn(Mutant::kTwoLoadsOfOne)) {
    if (Status up = Bring(slot, waiter->where, now); !up) {
      ++counts_.fetches_failed;
      return waiter->done(waiter, nullptr, std::move(up));
    }
  } else if (below.transfer->priority > Priority::kGet) {
    AheadIsLate(slot);
    mover_->Raise(below.transfer, Priority::kGet);
  }
  waiter->next = std::exchange(below.transfer->waiters, waiter);
}

void Engine::Abandon(Waiter* waiter) {
  const auto remove = [&](Waiter** list) {
    for (Waiter** at = list; *at != nullptr; at = &(*at)->next) {
      if (*at != waiter) continue;
      *at = waiter->next;
      return true;
    }
    return false;
  };
  if (remove(&for_loading_)) return;
  for (Move* transfer : transfers_) {
    if (remove(&transfer->waiters)) return;
  }
}

void Engine::Answer(Waiter* waiters, std::uint32_t slot, const Status& status) {
  while (waiters != nullptr) {
    Waiter* const waiter = std::exchange(waiters, waiters->next);
    Slot* leased = nullptr;
    if (slot != kNoSlot && store_->slots().slot(slot).word.Acquire() == LeaseWord::Got::kYes) {
      leased = &store_->slots().slot(slot);
      waiter->data = store_->DataIn(slot, waiter->where);
    }
    Tell(waiter, leased, status);
  }
}

void Engine::ExpireWaiters(TimePoint now) {
  if (for_loading_ == nullptr && transfers_.empty()) return;
  const Status late = Error{Code::kDeadline, "too late"};  // Short: needs no memory.
  const auto expire = [&](Waiter** at) {
    while (*at != nullptr) {
      Waiter* const waiter = *at;
      if (waiter->deadline > now) {
        at = &waiter->next;
        continue;
      }
      *at = waiter->next;
      waiter->done(waiter, nullptr, late);
    }
  };
  expire(&for_loading_);
  for (Move* transfer : transfers_) expire(&transfer->waiters);
}

// --- up ---

// Free room, or that of backed entries ranked lower than it was before this
// read: so one cold read displaces nobody, and the second may.
bool Engine::RoomAbove(TierState& tier, std::uint32_t slot, bool may_displace, TimePoint now,
                       Landing* landing) {
  const Bytes size = store_->slots().slot(slot).size;
  const Level at = level(tier.id);
  if (at >= Level::kCritical || tier.gone || size > GrowthLimit(tier)) return false;
  if (const Bytes need = Lacking(tier, size); need > 0) {
    if (!may_displace || tier.last() || !DropLower(tier, slot, need, now)) return false;
  }
  Result<Landing> got = store_->Allocate(slot, tier.id);
  if (!got) return false;
  *landing = *got;
  return true;
}

// Drops backed copies of entries ranked lower than `slot`, all of `bytes` or
// none.
bool Engine::DropLower(TierState& tier, std::uint32_t slot, Bytes bytes, TimePoint now) {
  const Level at = level(tier.id);
  Line& line = *tier.backed;
  const Facts own = store_->FactsOf(slot, tier.id);
  const EntryId own_id = store_->IdOf(slot);
  std::vector<EntryId> taken;
  Bytes found = 0;
  try {
    while (found < bytes) {
      RoomForOne(taken);
      const std::optional<EntryId> next = line.Next(at);
      if (!next) break;
      taken.push_back(*next);
      if (!line.Before(at, *next, store_->FactsOf(next->slot, tier.id), own_id, own)) break;
      if (store_->Leases(next->slot) == 0) found += store_->slots().slot(next->slot).size;
    }
  } catch (const std::bad_alloc&) {
    found = 0;
  }
  Bytes left = 0;
  for (const EntryId id : taken) {
    const Bytes size = store_->slots().slot(id.slot).size;
    const bool lower = line.Before(at, id, store_->FactsOf(id.slot, tier.id), own_id, own);
    const Why why{Action::kDrop, Reason::kRoom, OrderName(tier)};
    if (found >= bytes && left < bytes && lower && Drop(tier, id.slot, why, now)) {
      left += size;
    } else {
      Enter(id.slot);
    }
  }
  return left >= bytes;
}

// One step nearer to where it is wanted.
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
                   "the device has no room for it now, and nothing more may leave at once");
  }
  Status up = BringUp(slot, Priority::kGet, false, now);
  if (up || up.error().code != Code::kNoMemory) return up;
  return refused(Code::kBlocked, "the host, by way of which it goes, has no room for it now");
}

// Off the disk, or off a GPU to where the host can read it.
Status Engine::BringUp(std::uint32_t slot, Priority priority, bool may_lend, TimePoint now) {
  auto transfer = std::make_unique<Move>();
  const bool off_gpu = Has(store_->slots().record(slot).copies, TierId::kDevice) && !top_->gone;
  transfer->from = off_gpu ? TierId::kDevice : TierId::kDisk;
  if (off_gpu) transfer->source = store_->BlockIn(slot, TierId::kDevice);
  transfer->priority = priority;
  transfer->started = now;
  const Bytes size = store_->slots().slot(slot).size;
  const bool get = priority == Priority::kGet;
  bool placed = false;
  // Into the tier next to the disk, as a rule the host's.
  for (const TierId id : {TierId::kHost, TierId::kDevice}) {
    if (!Has(store_->tiers(), id) || placed) continue;
    if (id == TierId::kDevice && store_->on_gpu()) continue;
    transfer->to = id;
    placed = RoomAbove(state(id), slot, get, now, &transfer->landing);
  }
  if (!placed && may_lend) {
    const TierId id = Has(store_->tiers(), TierId::kHost) ? TierId::kHost : TierId::kDevice;
    const Bytes share = Has(store_->tiers(), id) ? store_->capacity(id) / kPassingShare : 0;
    const Bytes most = std::max(kPassingMin, share);
    // Nobody may have looked for a while, and what was lent be nobody's any more.
    if (store_->passing_bytes() + size > most) FreePassing(now);
    if (store_->passing_bytes() > 0 && store_->passing_bytes() + size > most) {
      return Error{
          Code::kBusy,
          fmt::format("get '{}': {} bytes are lent from outside the tiers already, and no "
                      "tier has room",
                      Printable(store_->slots().slot(slot).key()), store_->passing_bytes())};
    }
    transfer->landing.block = static_cast<std::byte*>(
        std::aligned_alloc(kPage, std::max<Bytes>(1, (size + kPage - 1) / kPage) * kPage));
    if (transfer->landing.block == nullptr) {
      return Error{Code::kNoMemory, fmt::format("get '{}': no memory for {} bytes",
                                                Printable(store_->slots().slot(slot).key()), size)};
    }
    transfer->to = TierId::kHost;
    transfer->passing = placed = true;
    store_->CountPassing(size, 0);
  }
  if (!placed) return Error{Code::kNoMemory, "no tier above has free room"};
  if (!StartMove(std::move(transfer), slot)) {
    return Error{Code::kBusy, "too many leases on one entry, or no thread to carry it"};
  }
  return {};
}

// For who reads it there, room is made as for a set.
bool Engine::RoomOnDevice(std::uint32_t slot, TimePoint now, Landing* landing) {
  TierState& tier = *top_;
  const Bytes size = store_->slots().slot(slot).size;
  if (tier.blocked() || size > GrowthLimit(tier)) return false;
  const Why why{Action::kDrop, Reason::kRoom, OrderName(tier)};
  if (const Bytes lacking = Lacking(tier, size); lacking > 0) {
    DropBackedBytes(tier, lacking, why, now);
    if (Lacking(tier, size) > 0) return false;
  }
  // Free bytes may lie in pieces, and the card be fuller than the account says.
  for (int attempt = 0; attempt < 8; ++attempt) {
    Result<Landing> got = store_->Allocate(slot, tier.id);
    if (got) {
      *landing = *got;
      return true;
    }
    if (got.error().code != Code::kNoMemory) return false;
    const Bytes before = store_->bytes(tier.id);
    DropBackedBytes(tier, size, why, now);
    if (store_->bytes(tier.id) == before) return false;
  }
  return false;
}

bool Engine::BringToDevice(std::uint32_t slot, Priority priority, TimePoint now) {
  auto transfer = std::make_unique<Move>();
  Landing* const landing = &transfer->landing;
  const bool room = priority == Priority::kGet ? RoomOnDevice(slot, now, landing)
                                               : RoomAbove(*top_, slot, true, now, landing);
  if (!room) return false;
  transfer->from = TierId::kHost;
  transfer->to = TierId::kDevice;
  transfer->priority = priority;
  transfer->started = now;
  transfer->source = store_->BlockIn(slot, TierId::kHost);
  return StartMove(std::move(transfer), slot);
}

bool Engine::Prefetch(std::uint64_t hash, std::string_view key, TimePoint now) {
  Follow(now);
  const std::uint32_t slot = store_->index().Lookup(hash, key);
  if (slot == kNoSlot) return false;
  const TierMask copies = store_->slots().record(slot).copies;
  const bool to_gpu = store_->on_gpu() && Has(copies, TierId::kHost);
  if (store_->DataIn(slot, store_->on_gpu() ? std::optional(Place::kDevice) : std::nullopt) !=
      nullptr) {
    return true;
  }
  if (store_->BelowOf(slot).transfer != nullptr) return true;
  if (to_gpu) {
    // Into free room only; otherwise it is in memory, at least.
    if (top_->gone || Lacking(*top_, store_->slots().slot(slot).size) > 0) return true;
    counts_.prefetched += BringToDevice(slot, Priority::kPrefetch, now) ? 1 : 0;
    return true;
  }
  if (!BringUp(slot, Priority::kPrefetch, false, now)) return false;
  ++counts_.prefetched;
  return true;
}

void Engine::FinishUp(Move& transfer, TimePoint now) {
  const std::uint32_t slot = transfer.id.slot;
  Waiter* const waiters = std::exchange(transfer.waiters, nullptr);
  if (!transfer.status) {
    ReleaseLanding(transfer);
    counts_.fetches_failed += transfer.priority == Priority::kGet ? 1 : 0;
    const Code code = transfer.status.error().code;
    // From memory it is the source only if that was looked at: it may be good,
    // and just not have arrived so.
    if (code == Code::kCorrupt && (transfer.from == TierId::kDisk || transfer.source_damaged)) {
      // A miss for whoever waits, and for everybody after.
      Condemn(state(transfer.from), slot, now);
      return Answer(waiters, kNoSlot, {});
    }
    if (transfer.from == TierId::kDisk) ++state(TierId::kDisk).failed_moves;
    Enter(slot);
    if (MutantOn(Mutant::kFailedLoadForgotten)) return;
    return Answer(waiters, kNoSlot, transfer.status);
  }
  Below& below = store_->BelowOf(slot);
  const TierMask before = store_->slots().record(slot).copies;
  below.seal = std::move(transfer.seal);
  if (transfer.passing) {
    below.passing = transfer.landing.block;
    // Who still has it on a device that is lost keeps that.
    if (!Has(before, TierId::kDevice)) {
      store_->slots().slot(slot).data.store(below.passing, std::memory_order_release);
    }
    passing_.push_back(transfer.id);
  } else if (transfer.to == TierId::kHost) {
    store_->AddCopy(slot, TierId::kHost, transfer.landing);
  } else if (!store_->AddToDevice(slot, transfer.landing)) {
    ReleaseLanding(transfer);  // It is being read where it is; another time.
    NoteCandidate(slot);
    return Answer(waiters, slot, {});
  } else if (transfer.from == TierId::kHost) {
    ++counts_.promoted;
  }
  if (!transfer.passing) NoteArrival(transfer, now);
  Reline(slot, before);
  if (store_->on_gpu()) {
    transfer.waiters = waiters;
    FetchAgain(transfer, now);  // One step nearer, as a rule there.
    if (!store_->IsLive(transfer.id)) return;
  } else {
    Answer(waiters, slot, {});
  }
  if (!Has(store_->slots().record(slot).copies, TierId::kDevice)) NoteCandidate(slot);
}

void Engine::FreePassing(TimePoint) {
  std::erase_if(passing_, [&](EntryId id) {
    if (!store_->IsLive(id)) return true;  // Freed with its slot.
    Slot& slot = store_->slots().slot(id.slot);
    std::byte*& block = store_->BelowOf(id.slot).passing;
    const auto take = [&] {
      // On a GPU's host a value may be lent while it is on the device.
      if (slot.data.load(std::memory_order_relaxed) != block) return;
      slot.data.store(nullptr, std::memory_order_release);
    };
    if (!store_->index().Rework(id.slot, take)) return false;
    if (MutantOn(Mutant::kPassingLeaked)) return true;
    store_->CountPassing(0, slot.size);
    std::free(block);  // NOLINT(cppcoreguidelines-no-malloc): aligned_alloc's.
    block = nullptr;
    return true;
  });
}

// --- what was there before ---

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

// Set anew or erased since the start.
bool Engine::IsReplaced(const BlobStore::Found& blob) const {
  const std::string& key = blob.facts.key;
  return store_->index().Lookup(store_->index().HashOf(key), key) != kNoSlot || cleared_early_ ||
         (written_early_.contains(key) && !MutantOn(Mutant::kOldBlobAdopted));
}

void Engine::FreeReplaced(const std::vector<BlobStore::Found>& found) {
  for (const BlobStore::Found& blob : found) {
    if (IsReplaced(blob)) store_->disk()->Free(blob.id);
  }
}

// Throws only while nothing has changed.
void Engine::AdoptOne(BlobStore::Found* blob, TimePoint now) {
  RoomForOne(deadlines_);
  RoomForOne(orphans_);
  Result<std::uint32_t> slot = Error{Code::kBusy, ""};
  if (!IsReplaced(*blob) && !closed_) slot = store_->Adopt(*blob, now);
  if (!slot) {  // Or of no use: too long ago, no slot.
    if (!closed_) store_->disk()->Free(blob->id);
    return;
  }
  const EntryId id = store_->Commit(*slot, kNoSlot, now);
  if (graph_ != nullptr) Introduce(id.slot, now);
  if (scores_ != nullptr) Welcome(id.slot, now);
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
  blind_ = store_->disk()->has_unseen();
  if (blind_) FreeUnseen();
  written_early_ = {};
  loading_ = false;
  Waiter* waiters = std::exchange(for_loading_, nullptr);
  while (waiters != nullptr) {
    Waiter* const waiter = std::exchange(waiters, waiters->next);
    Fetch(waiter, now);
  }
  if (parked_ != nullptr) WakeParked(now, false);
}

}  // namespace spillway
