#include "cache/store.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "base/later.h"
#include "base/mutant.h"

namespace spillway {

namespace {
// For counters that all may read and only the strand writes: it need not lock
// the line for that.
template <typename T>
void Add(std::atomic<T>& counter, T what) {
  counter.store(counter.load(std::memory_order_relaxed) + what, std::memory_order_relaxed);
}
}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const Settings& settings, std::unique_ptr<Tier> tier) {
  auto slots = SlotTable::Open(settings.entries_max);
  if (!slots) return slots.error();
  auto index = Index::Open(slots->get(), settings.hash_bits);
  if (!index) return index.error();
  return std::unique_ptr<Store>(
      new Store(std::move(*slots), std::move(*index), std::move(tier), settings));
}

Store::Store(std::unique_ptr<SlotTable> slots, std::unique_ptr<Index> index,
             std::unique_ptr<Tier> tier, const Settings& settings)
    : slots_(std::move(slots)),
      index_(std::move(index)),
      tier_(std::move(tier)),
      keeps_lineage_(settings.keeps_lineage) {}

Store::~Store() {
  for (std::uint32_t id = 0; id < slots_->high_water(); ++id) {
    if (LeaseWord::StateOf(slots_->slot(id).word.Load()) == SlotState::kFree) continue;
    Slot& slot = slots_->slot(id);
    tier_->Free(slot.data, slot.size);
    if (slot.key_bytes() > kInlineKeyBytes) delete[] slot.long_key;
    delete slots_->record(id).extra;
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

Result<std::uint32_t> Store::Reserve(const NewEntry& entry, TimePoint now) {
  const std::uint32_t id = slots_->Take();
  if (id == kNoSlot) {
    return Error{Code::kBusy, fmt::format("all {} slots of the index are taken (entries_max)",
                                          slots_->capacity())};
  }
  Result<std::byte*> block = tier_->Allocate(entry.bytes);
  if (!block) {
    if (!MutantOn(Mutant::kReservationLeaked)) slots_->Give(id);
    return block.error();
  }
  Slot& slot = slots_->slot(id);
  slot.data = *block;
  slot.size = entry.bytes;
  slot.hash.store(entry.hash, std::memory_order_relaxed);
  WriteNames(id, entry, now);
  bytes_ += entry.bytes;
  names_bytes_ += NamesBytesOf(entry);
  tokens_reserved_ += entry.options.tokens;
  ++reservations_;
  return id;
}

void Store::WriteNames(std::uint32_t id, const NewEntry& entry, TimePoint now) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  const SetOptions& options = entry.options;
  slot.key_bytes_less_one = static_cast<std::uint16_t>(entry.key.size() - 1);
  if (entry.key.size() > kInlineKeyBytes) {
    slot.long_key = new char[entry.key.size()];
    std::memcpy(slot.long_key, entry.key.data(), entry.key.size());
  } else {
    std::memcpy(slot.inline_key, entry.key.data(), entry.key.size());
  }
  slot.has_deadline = options.ttl.has_value();
  if (!options.agent.empty() || !options.meta.empty() || options.ttl) {
    record.extra = new Extra{std::string(options.agent), std::string(options.meta),
                             options.ttl ? Later(now, *options.ttl) : TimePoint::max()};
  }
  // The tag of an EntryId is never 0: that means "none" in rankings.
  if (MutantOn(Mutant::kGenerationsGoOn)) {
    static std::uint64_t never_reset = 0;
    generations_ = ++never_reset;
  }
  do {
    ++generations_;
  } while (static_cast<std::uint32_t>(generations_) == 0);
  record.generation = generations_;
  record.tokens = static_cast<std::uint32_t>(options.tokens);
  record.parent_declared = keeps_lineage_ && !options.parent.empty();
  if (record.parent_declared && options.parent != entry.key) {
    const std::uint32_t parent = index_->Lookup(index_->HashOf(options.parent), options.parent);
    if (parent != kNoSlot) {
      record.parent_slot = parent;
      record.parent_generation = slots_->record(parent).generation;
    }
  }
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
  slot.last_use.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  if (const std::uint32_t parent = ParentOf(id); parent != kNoSlot) {
    ++slots_->record(parent).children;
  } else {
    // It left between admission and now. The generation stays as it was named,
    // so that Match stops here; the slot may be anybody's by now.
    record.parent_slot = kNoSlot;
  }
  --reservations_;
  tokens_reserved_ -= record.tokens;
  Add(tokens_, Tokens{record.tokens});
  Add(entries_, std::size_t{1});
  slot.word.Publish(1);
  if (old == kNoSlot) {
    index_->Link(id);
  } else {
    index_->Replace(old, id);
  }
  return IdOf(id);
}

Store::Fate Store::Retire(std::uint32_t id, bool owned) {
  const Record& record = slots_->record(id);
  Add(entries_, ~std::size_t{0});
  Add(tokens_, -Tokens{record.tokens});
  Add(departed_hits_, FactsOf(id).access_count - 1);
  if (owned) {
    Discard(id);
    return Fate::kFreed;
  }
  ++zombies_;
  return Fate::kZombie;
}

void Store::Reap(std::uint32_t id) {
  if (MutantOn(Mutant::kZombieNeverFreed)) return;
  assert(zombies_ > 0);
  --zombies_;
  Discard(id);
}

void Store::Discard(std::uint32_t id) {
  Slot& slot = slots_->slot(id);
  Record& record = slots_->record(id);
  tier_->Free(slot.data, slot.size);
  assert(bytes_ >= slot.size);
  bytes_ -= slot.size;
  if (MutantOn(Mutant::kFreedTwiceInAccount)) bytes_ -= std::min(bytes_, slot.size);
  if (slot.key_bytes() > kInlineKeyBytes) {
    names_bytes_ -= slot.key_bytes();
    delete[] slot.long_key;
  }
  if (record.extra != nullptr) {
    names_bytes_ -= sizeof(Extra) + record.extra->agent.size() + record.extra->meta.size();
    delete record.extra;
    record.extra = nullptr;
  }
  slots_->Give(id);
}

std::uint32_t Store::ParentOf(std::uint32_t id) const {
  const Record& record = slots_->record(id);
  if (record.parent_generation == 0 || record.parent_slot == kNoSlot) return kNoSlot;
  const bool live =
      slots_->record(record.parent_slot).generation == record.parent_generation &&
      LeaseWord::StateOf(slots_->slot(record.parent_slot).word.Load()) == SlotState::kVisible;
  return live ? record.parent_slot : kNoSlot;
}

std::uint32_t Store::Detach(std::uint32_t id) {
  const std::uint32_t parent = ParentOf(id);
  if (parent != kNoSlot) {
    assert(slots_->record(parent).children > 0);
    --slots_->record(parent).children;
  }
  return parent;
}

void Store::Attach(std::uint32_t id) {
  const std::uint32_t parent = ParentOf(id);
  if (parent != kNoSlot) ++slots_->record(parent).children;
}

bool Store::Read(EntryId id, Facts* facts) const {
  if (!IsLive(id)) return false;
  *facts = FactsOf(id.slot);
  return true;
}

std::uint8_t* Store::Marks(EntryId id) const {
  Record& record = slots_->record(id.slot);
  return static_cast<std::uint32_t>(record.generation) == id.tag ? &record.marks : nullptr;
}

void Store::ReadMany(std::span<const EntryId> ids, Facts* facts, std::uint8_t** marks) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    marks[i] = IsLive(ids[i]) ? &slots_->record(ids[i].slot).marks : nullptr;
    if (marks[i] != nullptr) facts[i] = FactsOf(ids[i].slot);
  }
}

void Store::Prefetch(EntryId id) const {
  const Record* const record = &slots_->record(id.slot);
  __builtin_prefetch(&slots_->slot(id.slot), 1);
  __builtin_prefetch(record, 1);
  __builtin_prefetch(reinterpret_cast<const std::byte*>(record + 1) - 1, 1);
}

void Store::PrefetchRemoval(std::uint32_t id) const {
  const Slot& slot = slots_->slot(id);
  index_->PrefetchBucket(slot.hash.load(std::memory_order_relaxed));
  tier_->PrefetchFree(slot.data, slot.size);
}

bool Store::IsLive(EntryId id) const {
  return static_cast<std::uint32_t>(slots_->record(id.slot).generation) == id.tag &&
         LeaseWord::StateOf(slots_->slot(id.slot).word.Load()) == SlotState::kVisible;
}

Facts Store::FactsOf(std::uint32_t id) const {
  const Slot& slot = slots_->slot(id);
  const Record& record = slots_->record(id);
  Facts facts;
  facts.tokens = record.tokens;
  facts.bytes = slot.size;
  facts.access_count = LeaseWord::AcquiresOf(slot.word.Load());
  facts.last_use = TimePoint(Duration(slot.last_use.load(std::memory_order_relaxed)));
  facts.place = record.place;
  facts.children = MutantOn(Mutant::kParentBeforeChild) ? 0 : record.children;
  return facts;
}

Bytes Store::index_bytes() const {
  return slots_->high_water() * (sizeof(Slot) + sizeof(Record)) + index_->bytes() + names_bytes_;
}

}  // namespace spillway
