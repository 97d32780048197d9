// SPDX-License-Identifier: Apache-2.0
// Accounts, by brute force: every byte of every tier has exactly one owner.
#include <fmt/format.h>

#include "base/printable.h"
#include "cache/testing/group_counts.h"
#include "tiersim/world_parts.h"

namespace spillway::tiersim {

// After every event.
void World::Compare() {
  for (const TierId tier : kTierIds) {
    if (!plan_.Has(tier)) continue;
    const Bytes allocated =
        tier == TierId::kDisk ? disk_->allocated() : memory_[IndexOf(tier)]->allocated();
    const Bytes bytes = store().bytes(tier);
    if (bytes != allocated && !(tier == TierId::kDisk && loading_)) {
      return Fail(sim::kAccounting, fmt::format("{}: {} bytes accounted, {} allocated", Name(tier),
                                                bytes, allocated));
    }
    if (bytes > store().capacity(tier)) {
      return Fail(sim::kAccounting, fmt::format("{}: {} bytes in a tier of {}", Name(tier), bytes,
                                                store().capacity(tier)));
    }
    Mark(bytes);
  }
  if (store().entries() != ledger_.live()) {
    Fail(sim::kValues, fmt::format("{} entries are there, {} were set and have not gone",
                                   store().entries(), ledger_.live()));
  }
}

void World::Audit() {
  if (dead_ || verdict_.failed()) return;
  std::array<Bytes, kTiers> bytes{};
  std::array<Bytes, kTiers> backed{};
  std::array<std::size_t, kTiers> entries{};
  std::map<BlobId, std::uint32_t> blobs;
  std::map<std::uint64_t, std::array<std::uint32_t, kTiers>> children;  // By generation.
  Bytes passing = 0;
  const SlotTable& slots = store().slots();
  const auto own = [&](BlobId blob, std::uint32_t slot) {
    if (!blobs.emplace(blob, slot).second)
      Fail(sim::kOneOwner, fmt::format("blob {} is in two entries", blob));
  };
  for (std::uint32_t id = 0; id < slots.high_water(); ++id) {
    const Slot& slot = slots.slot(id);
    const Record& record = slots.record(id);
    const SlotState state = LeaseWord::StateOf(slot.word.Load());
    if (!slots.IsTaken(id)) continue;
    const TierMask copies = record.copies == 0 ? MaskOf(store().ReservedIn(id)) : record.copies;
    for (const TierId tier : kTierIds) {
      if (!Has(copies, tier)) continue;
      bytes[IndexOf(tier)] += slot.size;
      if (record.clean_in(tier)) backed[IndexOf(tier)] += slot.size;
    }
    if (Has(copies, TierId::kDisk)) own(record.below->blob, id);
    if (record.below != nullptr && record.below->staging != nullptr) passing += slot.size;
    if (state != SlotState::kVisible) continue;
    const KeyNo key = ledger_.NumberOf(slot.key());
    const SetNo set = key == kNoKey ? 0 : ledger_.current(key);
    if (set == 0 || ledger_.at(set).generation != record.generation) {
      return Fail(sim::kValues, fmt::format("'{}' is there, and had gone", Printable(slot.key())));
    }
    if (store().index().Lookup(slot.hash.load(), slot.key()) != id) {
      return Fail(sim::kValues,
                  fmt::format("'{}' is there, and can't be found", Printable(slot.key())));
    }
    if (!core_->engine().IsQueued(id)) {
      return Fail(sim::kOneOwner,
                  fmt::format("'{}' is a leaf and stands in no line", Printable(slot.key())));
    }
    const bool in_memory = Has(copies, TierId::kDevice) || Has(copies, TierId::kHost) ||
                           (record.below != nullptr && record.below->staging != nullptr);
    if ((slot.data.load() != nullptr) != in_memory && slot.size > 0) {
      return Fail(sim::kAllOrNothing,
                  fmt::format("'{}' is lent from nowhere", Printable(slot.key())));
    }
    // Bytes that can be read are the bytes that were set, wherever in memory they are.
    for (const std::byte* block :
         {Has(copies, TierId::kHost) ? record.below->host : nullptr, slot.data.load()}) {
      if (block == nullptr || slot.size == 0) continue;
      const Bytes wrong = sim::Value(set, slot.size).FirstWrong(block);
      if (wrong != slot.size) {
        return Fail(sim::kAllOrNothing,
                    fmt::format("'{}': byte {} of {} in memory is not that of set {}",
                                Printable(slot.key()), wrong, slot.size, set));
      }
    }
    for (const TierId tier : kTierIds) entries[IndexOf(tier)] += Has(copies, tier) ? 1 : 0;
    const std::uint32_t parent = store().ParentOf(id);
    if (parent == kNoSlot) continue;
    for (const TierId tier : kTierIds) {
      if (Has(copies, tier)) ++children[slots.record(parent).generation][IndexOf(tier)];
    }
  }
  for (std::uint32_t id = 0; id < slots.high_water(); ++id) {
    if (LeaseWord::StateOf(slots.slot(id).word.Load()) != SlotState::kVisible) continue;
    if (slots.record(id).children != children[slots.record(id).generation]) {
      return Fail(sim::kAccounting,
                  fmt::format("'{}' counts its children wrong", Printable(slots.slot(id).key())));
    }
  }
  if (const std::string wrong = spillway::testing::WrongCounts(store()); !wrong.empty()) {
    return Fail(sim::kAccounting, wrong);
  }
  for (const Transfer* transfer : under_way_) {
    if (transfer->owner != core_.get()) continue;
    if (transfer->staging) {
      passing += transfer->bytes;
    } else if (transfer->to != transfer->from) {
      bytes[IndexOf(transfer->to)] += transfer->bytes;
      if (transfer->to == TierId::kDisk) own(transfer->destination.blob, transfer->id.slot);
    }
  }
  for (const TierId tier : kTierIds) {
    if (!plan_.Has(tier)) continue;
    const std::size_t at = IndexOf(tier);
    if (tier == TierId::kDisk && loading_) continue;
    if (bytes[at] != store().bytes(tier) || backed[at] != store().clean_bytes(tier) ||
        entries[at] != store().entries(tier)) {
      return Fail(
          sim::kAccounting,
          fmt::format("{}: {} bytes of copies and landings, {} backed, {} entries; accounted "
                      "are {}, {}, {}",
                      Name(tier), bytes[at], backed[at], entries[at], store().bytes(tier),
                      store().clean_bytes(tier), store().entries(tier)));
    }
  }
  if (passing != store().staging_bytes()) {
    return Fail(sim::kAccounting,
                fmt::format("{} bytes are lent from outside the tiers, {} accounted", passing,
                            store().staging_bytes()));
  }
  if (disk_ != nullptr && !loading_) {
    for (const auto& [blob, meta] : disk_->blobs()) {
      if (!blobs.contains(blob)) {
        return Fail(sim::kOneOwner, fmt::format("blob {} (set {}) is nobody's", blob, meta));
      }
    }
    if (blobs.size() != disk_->blobs().size()) Fail(sim::kOneOwner, "an entry's blob is not there");
  }
  for (WatchedTier* tier : memory_) {
    if (tier != nullptr) tier->seen().CheckMemory();
  }
}

// After everything was cleared and nothing is in flight.
void World::CheckEmpty(std::string_view when) {
  for (const TierId tier : kTierIds) {
    if (plan_.Has(tier) && (store().bytes(tier) != 0 || store().entries(tier) != 0)) {
      Fail(sim::kOneOwner,
           fmt::format("{}: {} bytes stay in the {} tier", when, store().bytes(tier), Name(tier)));
    }
  }
  if (store().staging_bytes() != 0) {
    Fail(sim::kOneOwner, fmt::format("{}: {} bytes stay lent from outside the tiers", when,
                                     store().staging_bytes()));
  }
  if (store().slots().in_use() != 0 || store().zombies() != 0 || store().reservations() != 0) {
    Fail(sim::kOneOwner,
         fmt::format("{}: {} slots stay, {} dead and {} reserved", when, store().slots().in_use(),
                     store().zombies(), store().reservations()));
  }
  if (store().names_bytes() != 0) Fail(sim::kOneOwner, fmt::format("{}: names stay", when));
  if (disk_ != nullptr && !disk_->blobs().empty()) {
    Fail(sim::kOneOwner, fmt::format("{}: {} blobs stay", when, disk_->blobs().size()));
  }
}

}  // namespace spillway::tiersim
