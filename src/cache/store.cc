// SPDX-License-Identifier: Apache-2.0
#include "cache/store.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/saturating_add.h"

namespace spillway {

namespace {
// For counters that any thread reads and only the strand writes: the write need not be
// an atomic addition.
template <typename T>
void Add(std::atomic<T>& counter, T what) {
  counter.store(counter.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
}
}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const Settings& settings, TierStack tiers) {
  auto slots = SlotTable::Open(settings.entries_max);
  if (!slots) return slots.error();
  auto index = Index::Open(slots->get(), settings.hash_bits, settings.hash_seed);
  if (!index) return index.error();
  return std::unique_ptr<Store>(
      new Store(std::move(*slots), std::move(*index), std::move(tiers), settings));
}

Store::Store(std::unique_ptr<SlotTable> slots, std::unique_ptr<Index> index, TierStack tiers,
             const Settings& settings)
    : slots_(std::move(slots)),
      index_(std::move(index)),
      tiers_(std::move(tiers)),
      mask_(tiers_.mask()),
      top_(tiers_.device ? TierId::kDevice
           : tiers_.host ? TierId::kHost
                         : TierId::kDisk),
      keeps_lineage_(settings.keeps_lineage),
      unix_offset_(settings.unix_offset),
      key_group_(settings.key_group) {
  assert(mask_ != 0);
}

// Memory goes back to its tiers; blobs stay on disk for the next start.
Store::~Store() {
  for (std::uint32_t id = 0; id < slots_->high_water(); ++id) {
    if (!slots_->IsTaken(id)) continue;
    Slot& slot = slots_->slot(id);
    Record& record = slots_->record(id);
    for (const TierId tier : {TierId::kDevice, TierId::kHost}) {
      const bool there = record.copies == 0 ? ReservedIn(id) == tier : Has(record.copies, tier);
      if (!there) continue;
      memory(tier)->Free(BlockIn(id, tier), slot.size, record.clean_in(tier));
    }
    if (slot.key_bytes() > kInlineKeyBytes) delete[] slot.long_key;
    delete record.extra;
    if (record.below != nullptr) std::free(record.below->staging);  // NOLINT: aligned_alloc's.
    delete record.below;
  }
}

Bytes Store::NamesBytesOf(const NewEntry& entry) {
  Bytes bytes = entry.key.size() > kInlineKeyBytes ? entry.key.size() : 0;
  const SetOptions& options = entry.options;
  if (!options.agent.empty() || !options.meta.empty() || options.ttl) {
    bytes += sizeof(Extra) + options.agent.size() + options.meta.size();
  }
  return bytes;
}

Result<std::uint32_t> Store::Reserve(const NewEntry& entry, TierId tier, TimePoint now) {
  const std::uint32_t id = slots_->Take();
  if (id == kNoSlot) {
    return Error{Code::kBusy, fmt::format("all {} slots of the index are taken (entries_max)",
                                          slots_->capacity())};
  }
  Slot& slot = slots_->slot(id);
  slot.size = entry.bytes;
  slot.hash.store(entry.hash, std::memory_order_relaxed);
  Result<CopyDestination> destination = Error{Code::kNoMemory, "no memory"};
  try {
    WriteNames(id, entry, now);
    if (tier != TierId::kDevice) LowerCopiesOf(id);
    names_bytes_ += NamesBytesOf(entry);
  } catch (const std::bad_alloc&) {
    ForgetNames(id);
    slots_->Give(id);
    return destination.error();
  }
  try {
    destination = Allocate(id, tier);
  } catch (const std::bad_alloc&) {
    // Handled as if the tier had refused.
  }
  if (!destination) {
    if (!MutantOn(Mutant::kReservationLeaked)) Discard(id);
    return destination.error();
  }
  if (tier == TierId::kDevice) {
    slot.data.store(destination->block, std::memory_order_relaxed);
  } else {
    LowerCopies& below = LowerCopiesOf(id);
    below.host = destination->block;
    below.blob = destination->blob;
    below.blob_generation = slots_->record(id).generation;
    slot.data.store(destination->block, std::memory_order_relaxed);
  }
  tokens_reserved_ += entry.options.tokens;
  ++reservations_;
  return id;
}

// For a slot whose names were not all written.
void Store::ForgetNames(std::uint32_t id) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  if (slot.key_bytes() > kInlineKeyBytes) delete[] slot.long_key;
  delete record.extra;
  record.extra = nullptr;
}

void Store::SetDeadline(std::uint32_t id, TimePoint deadline, std::unique_ptr<Extra> spare) {
  Record& record = slots_->record(id);
  // In the order in which DeadlineOf needs them, since readers may hold leases.
  if (record.extra == nullptr && spare != nullptr) {
    spare->deadline = deadline;
    std::atomic_ref(record.extra).store(spare.release(), std::memory_order_release);
    names_bytes_ += sizeof(Extra);
  } else if (record.extra != nullptr) {
    std::atomic_ref(record.extra->deadline).store(deadline, std::memory_order_relaxed);
  }
  const bool has = deadline != TimePoint::max();
  const bool had =
      std::atomic_ref(slots_->slot(id).has_deadline).exchange(has, std::memory_order_release);
  // A reservation has no copies, and is counted when it is committed.
  if (record.copies != 0) index_->CountDeadline(id, int{has} - int{had});
}

TierId Store::ReservedIn(std::uint32_t id) const {
  const LowerCopies* const below = slots_->record(id).below;
  if (below == nullptr) return TierId::kDevice;
  return below->host != nullptr ? TierId::kHost : TierId::kDisk;
}

void Store::WriteNames(std::uint32_t id, const NewEntry& entry, TimePoint now) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  const SetOptions& options = entry.options;
  slot.key_bytes_less_one = static_cast<std::uint16_t>(entry.key.size() - 1);
  if (entry.key.size() > kInlineKeyBytes) {
    slot.long_key = nullptr;
    slot.long_key = new char[entry.key.size()];
    std::memcpy(slot.long_key, entry.key.data(), entry.key.size());
  } else {
    std::memcpy(slot.inline_key, entry.key.data(), entry.key.size());
  }
  slot.SetGroup(GroupOf(entry.key));
  slot.has_deadline = options.ttl.has_value();
  slot.no_idle_ttl = !options.idle_ttl;
  if (slot.no_idle_ttl) some_stay_ = true;
  if (!options.agent.empty() || !options.meta.empty() || options.ttl) {
    record.extra = new Extra{
        std::string(options.agent), std::string(options.meta),
        options.ttl ? SaturatingAdd(entry.ttl_from.value_or(now), *options.ttl) : TimePoint::max()};
  }
  record.generation = NextGeneration();
  record.tokens = static_cast<std::uint32_t>(options.tokens);
  NameParent(id, options.parent);
}

std::uint64_t Store::NextGeneration() {
  if (MutantOn(Mutant::kGenerationsGoOn)) {
    static std::uint64_t never_reset = 0;
    generations_ = ++never_reset;
  }
  // The tag of an EntryId is never 0: that means "none" in rankings.
  do {
    ++generations_;
  } while (static_cast<std::uint32_t>(generations_) == 0);
  return generations_;
}

void Store::NameParent(std::uint32_t id, std::string_view name) {
  Record& record = slots_->record(id);
  if (!keeps_lineage_ || name.empty()) return;
  record.parent_generation = kAbsentParent;
  if (name == slots_->slot(id).key()) return;
  const std::uint32_t parent = index_->Lookup(index_->HashOf(name), name);
  if (parent == kNoSlot) return;
  record.parent_slot = parent;
  record.parent_generation = slots_->record(parent).generation;
}

void Store::Describe(std::uint32_t id, const SetOptions& options) {
  Record& record = slots_->record(id);
  const TimePoint deadline = record.extra == nullptr ? TimePoint::max() : record.extra->deadline;
  std::unique_ptr<Extra> extra;
  if (!options.agent.empty() || !options.meta.empty() || deadline != TimePoint::max()) {
    extra =
        std::make_unique<Extra>(std::string(options.agent), std::string(options.meta), deadline);
  }
  if (record.extra != nullptr) {
    names_bytes_ -= sizeof(Extra) + record.extra->agent.size() + record.extra->meta.size();
    delete record.extra;
  }
  if (extra != nullptr) names_bytes_ += sizeof(Extra) + extra->agent.size() + extra->meta.size();
  record.extra = extra.release();
  slots_->slot(id).no_idle_ttl = !options.idle_ttl;
  if (!options.idle_ttl) some_stay_ = true;
  tokens_reserved_ += options.tokens - Tokens{record.tokens};
  record.tokens = static_cast<std::uint32_t>(options.tokens);
  record.parent_slot = kNoSlot;
  record.parent_generation = 0;
  NameParent(id, options.parent);
}

void Store::Abort(std::uint32_t id) {
  tokens_reserved_ -= slots_->record(id).tokens;
  --reservations_;
  Discard(id);
}

EntryId Store::Commit(std::uint32_t id, std::uint32_t old, TimePoint now) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  record.place = old == kNoSlot ? ++places_ : slots_->record(old).place;
  record.copies = MaskOf(ReservedIn(id));
  slot.last_use.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  // The parent may have been removed since admission. Its generation stays recorded, so
  // that Match stops here; the slot may hold another entry by now.
  if (ParentOf(id) == kNoSlot) record.parent_slot = kNoSlot;
  Attach(id, record.copies);
  --reservations_;
  tokens_reserved_ -= record.tokens;
  Add(tokens_, Tokens{record.tokens});
  Add(entries_, std::size_t{1});
  for (const TierId tier : kTierIds) entries_in_[IndexOf(tier)] += Has(record.copies, tier);
  slot.word.Publish(1);
  if (old == kNoSlot) {
    index_->Link(id);
  } else {
    index_->Replace(old, id);
  }
  return IdOf(id);
}

// A leased entry keeps one copy for its readers and becomes a zombie.
Store::Fate Store::Retire(std::uint32_t id, bool owned) {
  Record& record = slots_->record(id);
  Add(entries_, ~std::size_t{0});  // One less.
  Add(tokens_, -Tokens{record.tokens});
  Add(removed_hits_, LeaseWord::AcquiresOf(slots_->slot(id).word.Load()) - 1);
  for (const TierId tier : kTierIds) entries_in_[IndexOf(tier)] -= Has(record.copies, tier);
  if (owned) {
    Discard(id);
    return Fate::kFreed;
  }
  ++zombies_;
  // Readers need one copy, and a transfer its two; the others are not needed. On a GPU,
  // readers may have the host's copy as well as the device's.
  if (record.below != nullptr && record.below->transfer == nullptr) {
    const std::byte* const lent = slots_->slot(id).data.load(std::memory_order_relaxed);
    for (const TierId tier : {TierId::kDisk, TierId::kHost}) {
      const bool unused = Has(record.copies, tier) && record.copies != MaskOf(tier) &&
                          (tier == TierId::kDisk || (record.below->host != lent && !on_gpu()));
      if (unused) GiveBack(id, tier, record.below->host);
    }
  }
  return Fate::kZombie;
}

void Store::Reap(std::uint32_t id) {
  if (MutantOn(Mutant::kZombieNeverFreed)) return;
  assert(zombies_ > 0);
  --zombies_;
  Discard(id);
}

// Frees the copies of an entry, or the one allocation of a reservation, which has no
// copies yet.
void Store::Discard(std::uint32_t id) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  if (record.below != nullptr && record.below->staging != nullptr) {
    // On a GPU's host a value may be lent while it is on the device.
    if (slot.data.load(std::memory_order_relaxed) == record.below->staging) {
      slot.data.store(nullptr, std::memory_order_relaxed);
    }
    std::free(record.below->staging);  // NOLINT(cppcoreguidelines-no-malloc): aligned_alloc's.
    staging_bytes_ -= slot.size;
  }
  if (record.copies == 0 && slot.data.load(std::memory_order_relaxed) == nullptr &&
      (record.below == nullptr || record.below->blob == kNoBlob)) {
    // A reservation for which there was no room.
  } else if (record.copies == 0) {
    const TierId tier = ReservedIn(id);
    Free(tier, {BlockIn(id, tier), record.below ? record.below->blob : kNoBlob}, slot.size);
  } else {
    for (const TierId tier : kTierIds) {
      if (Has(record.copies, tier)) GiveBack(id, tier, BlockIn(id, tier));
    }
  }
  slot.data.store(nullptr, std::memory_order_relaxed);
  if (slot.key_bytes() > kInlineKeyBytes) {
    names_bytes_ -= slot.key_bytes();
    delete[] slot.long_key;
  }
  if (record.extra != nullptr) {
    names_bytes_ -= sizeof(Extra) + record.extra->agent.size() + record.extra->meta.size();
    delete record.extra;
    record.extra = nullptr;
  }
  if (record.below != nullptr) {
    below_bytes_ -= sizeof(LowerCopies);
    delete record.below;
    record.below = nullptr;
  }
  slots_->Give(id);
}

std::uint32_t Store::ParentOf(std::uint32_t id) const {
  const Record& record = slots_->record(id);
  if (record.parent_slot == kNoSlot) return kNoSlot;
  const bool live =
      slots_->record(record.parent_slot).generation == record.parent_generation &&
      LeaseWord::StateOf(slots_->slot(record.parent_slot).word.Load()) == SlotState::kVisible;
  return live ? record.parent_slot : kNoSlot;
}

std::uint32_t Store::Detach(std::uint32_t id, TierMask tiers) {
  const std::uint32_t parent = ParentOf(id);
  if (parent == kNoSlot) return parent;
  for (const TierId tier : kTierIds) {
    if (!Has(tiers, tier)) continue;
    assert(slots_->record(parent).children[IndexOf(tier)] > 0);
    --slots_->record(parent).children[IndexOf(tier)];
  }
  return parent;
}

void Store::Attach(std::uint32_t id, TierMask tiers) {
  const std::uint32_t parent = ParentOf(id);
  if (parent == kNoSlot) return;
  for (const TierId tier : kTierIds) {
    if (Has(tiers, tier)) ++slots_->record(parent).children[IndexOf(tier)];
  }
}

void Store::PrefetchRemoval(std::uint32_t id) const {
  const Slot& slot = slots_->slot(id);
  index_->PrefetchToChange(slot.hash.load(std::memory_order_relaxed));
  if (top_ == TierId::kDevice) {
    tiers_.device->PrefetchFree(slot.data.load(std::memory_order_relaxed), slot.size);
  }
}

bool Store::IsLive(EntryId id) const {
  return static_cast<std::uint32_t>(slots_->record(id.slot).generation) == id.tag &&
         LeaseWord::StateOf(slots_->slot(id.slot).word.Load()) == SlotState::kVisible;
}

Facts Store::FactsOf(std::uint32_t id, TierId tier) const {
  const Slot& slot = slots_->slot(id);
  const Record& record = slots_->record(id);
  Facts facts;
  facts.tokens = record.tokens;
  facts.bytes = slot.size;
  facts.access_count = LeaseWord::AcquiresOf(slot.word.Load());
  facts.last_use = TimePoint(Duration(slot.last_use.load(std::memory_order_relaxed)));
  facts.place = record.place;
  facts.children = MutantOn(Mutant::kParentBeforeChild) ? 0 : record.children[IndexOf(tier)];
  return facts;
}

void Store::Shrink() {
  index_->Shrink();
  slots_->Trim();
  for (const TierId tier : {TierId::kDevice, TierId::kHost}) {
    if (memory(tier) != nullptr) memory(tier)->ReleaseAll();
  }
}

Bytes Store::index_bytes() const {
  return slots_->high_water() * (sizeof(Slot) + sizeof(Record)) + index_->bytes() + names_bytes_ +
         below_bytes_;
}

// --- tiers ---

Bytes Store::capacity(TierId tier) const {
  return tier == TierId::kDisk ? tiers_.disk->capacity() : memory(tier)->capacity();
}

Bytes Store::held(TierId tier) const {
  return tier == TierId::kDisk ? tiers_.disk->held() : memory(tier)->held();
}

Bytes Store::clean(TierId tier) const {
  return tier == TierId::kDisk ? 0 : std::min(memory(tier)->clean(), bytes(tier));
}

std::string_view Store::name(TierId tier) const {
  return tier == TierId::kDisk ? tiers_.disk->name() : memory(tier)->name();
}

}  // namespace spillway
