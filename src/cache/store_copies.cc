// SPDX-License-Identifier: Apache-2.0
// The store's copies: adding, dropping and locating them, and the accounts per tier.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <new>
#include <utility>

#include "base/mutant.h"
#include "cache/store.h"

namespace spillway {

LowerCopies& Store::LowerCopiesOf(std::uint32_t id) {
  Record& record = slots_->record(id);
  if (record.below == nullptr) {
    record.below = new LowerCopies();
    below_bytes_ += sizeof(LowerCopies);
  }
  return *record.below;
}

std::byte* Store::BlockIn(std::uint32_t id, TierId tier) const {
  const Record& record = slots_->record(id);
  if (tier == TierId::kHost) return record.below == nullptr ? nullptr : record.below->host;
  // An entry with a copy on the device lends that one.
  return tier == TierId::kDevice ? slots_->slot(id).data.load(std::memory_order_relaxed) : nullptr;
}

const std::byte* Store::DataIn(std::uint32_t id, std::optional<Place> where) const {
  const std::byte* const data = slots_->slot(id).data.load(std::memory_order_relaxed);
  if (!where || !on_gpu()) return data;
  const Record& record = slots_->record(id);
  if (*where == Place::kDevice) return Has(record.copies, TierId::kDevice) ? data : nullptr;
  if (record.below == nullptr) return nullptr;
  return record.below->host != nullptr ? record.below->host : record.below->staging;
}

Result<CopyDestination> Store::AllocateIn(TierId tier, Bytes bytes, const BlobFacts& facts) {
  CopyDestination destination;
  if (tier == TierId::kDisk) {
    Result<BlobId> blob = tiers_.disk->Allocate(facts);
    if (!blob) return blob.error();
    destination.blob = *blob;
  } else {
    Result<std::byte*> block = memory(tier)->Allocate(bytes);
    if (!block) return block.error();
    destination.block = *block;
  }
  bytes_[IndexOf(tier)] += bytes;
  return destination;
}

Result<CopyDestination> Store::Allocate(std::uint32_t id, TierId tier) {
  return AllocateIn(tier, slots_->slot(id).size,
                    tier == TierId::kDisk ? BlobFactsOf(id) : BlobFacts());
}

void Store::Free(TierId tier, const CopyDestination& destination, Bytes bytes) {
  if (tier == TierId::kDisk) {
    tiers_.disk->Free(destination.blob);
  } else {
    memory(tier)->Free(destination.block, bytes);
  }
  Bytes& account = bytes_[IndexOf(tier)];
  assert(account >= bytes);
  account -= bytes;
  if (MutantOn(Mutant::kFreedTwiceInAccount)) account -= std::min(account, bytes);
}

void Store::AddCopy(std::uint32_t id, TierId tier, const CopyDestination& destination) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  assert(!Has(record.copies, tier) && tier != TierId::kDevice);
  if (tier == TierId::kHost) {
    LowerCopiesOf(id).host = destination.block;
    // This copy may be lent from now on, if no other is.
    if (slot.data.load(std::memory_order_relaxed) == nullptr) {
      slot.data.store(destination.block, std::memory_order_release);
    }
  } else {
    LowerCopiesOf(id).blob = destination.blob;
    LowerCopiesOf(id).blob_generation = record.generation;
  }
  Attach(id, MaskOf(tier));
  ++entries_in_[IndexOf(tier)];
  SetCopies(id, record.copies | MaskOf(tier));
}

bool Store::AddToDevice(std::uint32_t id, const CopyDestination& destination) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  assert(!Has(record.copies, TierId::kDevice));
  // A reader on the host of a GPU has the host's copy, and keeps it.
  if (slot.data.load(std::memory_order_relaxed) == nullptr || on_gpu()) {
    slot.data.store(destination.block, std::memory_order_release);
  } else if (!index_->Rework(
                 id, [&] { slot.data.store(destination.block, std::memory_order_release); })) {
    return false;
  }
  Attach(id, MaskOf(TierId::kDevice));
  ++entries_in_[IndexOf(TierId::kDevice)];
  SetCopies(id, record.copies | MaskOf(TierId::kDevice));
  return true;
}

// If readers get this very copy, it is exchanged for the next one while no lease is
// held.
bool Store::DropCopy(std::uint32_t id, TierId tier) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  assert(Has(record.copies, tier) && record.copies != MaskOf(tier));
  std::byte* const block = BlockIn(id, tier);
  if (tier != TierId::kDisk && slot.data.load(std::memory_order_relaxed) == block) {
    // From now on readers get the next copy, if that is in memory.
    std::byte* const next =
        tier == TierId::kDevice && record.below != nullptr ? record.below->host : nullptr;
    const auto lend_next = [&] { slot.data.store(next, std::memory_order_release); };
    // A transfer between other tiers reads another copy, and may go on.
    if (!index_->Rework(id, lend_next, PinsOf(id))) return false;
  } else if (tier == TierId::kHost && on_gpu() && Leases(id) > PinsOf(id)) {
    return false;  // This copy may be the one that is leased.
  }
  Detach(id, MaskOf(tier));
  --entries_in_[IndexOf(tier)];
  GiveBack(id, tier, block);
  return true;
}

// A damaged blob is quarantined: its place on disk is not used again.
void Store::GiveBack(std::uint32_t id, TierId tier, std::byte* block) {
  Record& record = slots_->record(id);
  const Bytes size = slots_->slot(id).size;
  const bool clean = record.clean_in(tier);
  SetCopies(id, static_cast<TierMask>(record.copies & ~MaskOf(tier)));
  if (tier == TierId::kDisk) {
    if (!MutantOn(Mutant::kErasedBlobStays)) {
      record.below->damaged ? tiers_.disk->Quarantine(record.below->blob)
                            : tiers_.disk->Free(record.below->blob);
    }
    record.below->blob = kNoBlob;
    record.below->damaged = false;
    record.below->had_blob = true;
  } else {
    memory(tier)->Free(block, size, clean);
    if (tier == TierId::kHost) record.below->host = nullptr;
  }
  Bytes& account = bytes_[IndexOf(tier)];
  assert(account >= size);
  account -= size;
  if (MutantOn(Mutant::kFreedTwiceInAccount)) account -= std::min(account, size);
}

// Marks the blocks that remain as clean or dirty; a block that was just copied up is
// clean from the start.
void Store::SetCopies(std::uint32_t id, TierMask after) {
  Record& record = slots_->record(id);
  // ForEach reads it on any thread; only the strand writes.
  const TierMask before = record.copies;
  std::atomic_ref(record.copies).store(after, std::memory_order_relaxed);
  const Bytes size = slots_->slot(id).size;
  for (const TierId tier : {TierId::kDevice, TierId::kHost}) {
    const bool was = Has(before, tier) && (before & LowerCopiesMask(tier)) != 0;
    const bool is = Has(after, tier) && (after & LowerCopiesMask(tier)) != 0;
    if (was == is) continue;
    Bytes& clean = clean_bytes_[IndexOf(tier)];
    clean = is ? clean + size : clean - size;
    if (!is && MutantOn(Mutant::kCleanMarkKept)) continue;
    if (Has(after, tier)) memory(tier)->SetClean(BlockIn(id, tier), size, is);
  }
}

// Zombies that are still leased are in memory: their blobs are freed now, since the
// disk tier will be gone when their last lease is released.
std::unique_ptr<BlobStore> Store::CloseDisk() {
  if (tiers_.disk == nullptr) return nullptr;
  for (std::uint32_t id = 0; id < slots_->high_water(); ++id) {
    const Record& record = slots_->record(id);
    if (!slots_->IsTaken(id) || !Has(record.copies, TierId::kDisk)) continue;
    tiers_.disk->Free(record.below->blob);
    bytes_[IndexOf(TierId::kDisk)] -= slots_->slot(id).size;
    SetCopies(id, static_cast<TierMask>(record.copies & ~MaskOf(TierId::kDisk)));
    record.below->blob = kNoBlob;
  }
  return std::move(tiers_.disk);
}

void Store::Forsake(std::uint32_t id) {
  Record& record = slots_->record(id);
  if (!Has(record.copies, TierId::kDisk)) return;
  --entries_in_[IndexOf(TierId::kDisk)];
  bytes_[IndexOf(TierId::kDisk)] -= slots_->slot(id).size;
  SetCopies(id, static_cast<TierMask>(record.copies & ~MaskOf(TierId::kDisk)));
  record.below->blob = kNoBlob;
}

// --- facts stored on disk with the bytes ---

std::optional<std::int64_t> Store::ExpiresUnixNs(std::uint32_t id) const {
  const TimePoint deadline = DeadlineOf(slots_->slot(id), slots_->record(id));
  if (deadline == TimePoint::max()) return std::nullopt;
  return deadline.time_since_epoch().count() + unix_offset_;
}

BlobFacts Store::BlobFactsOf(std::uint32_t id) const {
  const Slot& slot = slots_->slot(id);
  const Record& record = slots_->record(id);
  BlobFacts facts;
  facts.key = slot.key();
  facts.generation = record.generation;
  facts.size = slot.size;
  facts.tokens = record.tokens;
  facts.access_count = LeaseWord::AcquiresOf(slot.word.Load());
  if (record.extra != nullptr) {
    facts.agent = record.extra->agent;
    facts.meta = record.extra->meta;
    facts.expires_unix_ns = ExpiresUnixNs(id);
  }
  facts.no_idle_ttl = slot.no_idle_ttl;
  facts.parent_declared = record.parent_declared();
  if (const std::uint32_t parent = ParentOf(id); parent != kNoSlot) {
    facts.parent = slots_->slot(parent).key();
    facts.parent_generation = record.parent_generation;
  }
  return facts;
}

Result<std::uint32_t> Store::Adopt(const BlobStore::Found& found, TimePoint now) {
  const BlobFacts& facts = found.facts;
  const std::uint32_t id = slots_->Take();
  if (id == kNoSlot) return Error{Code::kBusy, "all slots of the index are taken (entries_max)"};
  NewEntry entry;
  entry.key = facts.key;
  entry.hash = index_->HashOf(facts.key);
  entry.bytes = facts.size;
  entry.options.tokens = std::min<Tokens>(facts.tokens, kTokensMax);
  entry.options.agent = facts.agent;
  entry.options.meta = facts.meta;
  entry.options.idle_ttl = !facts.no_idle_ttl;
  if (facts.expires_unix_ns) {
    entry.options.ttl =
        Duration(*facts.expires_unix_ns - unix_offset_ - now.time_since_epoch().count());
  }
  Slot& slot = slots_->slot(id);
  slot.size = facts.size;
  slot.hash.store(entry.hash, std::memory_order_relaxed);
  try {
    WriteNames(id, entry, now);
    LowerCopiesOf(id);
  } catch (const std::bad_alloc&) {
    ForgetNames(id);
    slots_->Give(id);
    throw;
  }
  if (facts.parent_declared) slots_->record(id).parent_generation = kAbsentParent;
  LowerCopies& below = LowerCopiesOf(id);
  below.blob = found.id;
  below.blob_generation = facts.generation;
  bytes_[IndexOf(TierId::kDisk)] += facts.size;
  names_bytes_ += NamesBytesOf(entry);
  tokens_reserved_ += entry.options.tokens;
  ++reservations_;
  return id;
}

void Store::LinkToParent(std::uint32_t id, std::string_view key, std::uint64_t blob_generation) {
  Record& record = slots_->record(id);
  const std::uint32_t parent = index_->Lookup(index_->HashOf(key), key);
  if (parent == kNoSlot || parent == id || record.parent_slot != kNoSlot) return;
  const Record& other = slots_->record(parent);
  if (other.below == nullptr || other.below->blob == kNoBlob ||
      other.below->blob_generation != blob_generation) {
    return;
  }
  // Readers of chains read the link: it must not change under a lease.
  if (index_->Rework(id, [&] {
        record.parent_slot = parent;
        record.parent_generation = other.generation;
      })) {
    Attach(id, record.copies);
  }
}

}  // namespace spillway
