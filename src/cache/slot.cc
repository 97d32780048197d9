// SPDX-License-Identifier: Apache-2.0
#include "cache/slot.h"

#include <cassert>
#include <new>

#include <fmt/format.h>

#include "base/reserved_memory.h"

namespace spillway {

Result<std::unique_ptr<SlotTable>> SlotTable::Open(std::uint64_t entries_max) {
  if (entries_max == 0 || entries_max >= kNoSlot) {
    return Error{Code::kInvalidArgument, fmt::format("entries_max is {}: it must be from 1 to {}",
                                                     entries_max, kNoSlot - 1)};
  }
  void* slots = ReserveZeroed(entries_max * sizeof(Slot));
  if (slots == nullptr) return Error{Code::kNoMemory, "no address space for the index"};
  void* records = ReserveZeroed(entries_max * sizeof(Record));
  if (records == nullptr) {
    UnreserveZeroed(slots, entries_max * sizeof(Slot));
    return Error{Code::kNoMemory, "no address space for the index"};
  }
  return std::unique_ptr<SlotTable>(
      new SlotTable(static_cast<Slot*>(slots), static_cast<Record*>(records), entries_max));
}

SlotTable::SlotTable(Slot* slots, Record* records, std::uint64_t capacity)
    : slots_(slots),
      records_(records),
      capacity_(capacity),
      slabs_(SlabOf(static_cast<std::uint32_t>(capacity - 1)) + 1) {
  static_assert(kSlabSlots * sizeof(Slot) == kLargePageBytes);
  static_assert(sizeof(Record) == sizeof(Slot), "slabs of both end on borders of large pages");
  for (std::uint32_t slab = 0; slab < slabs_.size(); ++slab) slabs_[slab].used_to = BeginOf(slab);
}

SlotTable::~SlotTable() {
  UnreserveZeroed(slots_, capacity_ * sizeof(Slot));
  UnreserveZeroed(records_, capacity_ * sizeof(Record));
}

// Slabs with free slots first, so that few slabs are in use and the others can be
// trimmed.
std::uint32_t SlotTable::Take() {
  std::uint32_t id = kNoSlot;
  while (id == kNoSlot && first_listed_ != kNoSlot) {
    Slab& slab = slabs_[first_listed_];
    id = TakeFrom(&slab, EndOf(first_listed_));
    if (id != kNoSlot) break;
    slab.listed = false;
    first_listed_ = slab.next;
  }
  if (id == kNoSlot) id = TakeUnused();
  if (id == kNoSlot) return kNoSlot;
  records_[id] = Record();
  ++slabs_[SlabOf(id)].in_use;
  ++in_use_;
  return id;
}

// From a slab below the high water.
std::uint32_t SlotTable::TakeFrom(Slab* slab, std::uint32_t end) {
  if (slab->free_head != kNoSlot) {
    const std::uint32_t id = slab->free_head;
    slab->free_head = records_[id].parent_slot;
    return id;
  }
  if (end > high_water_.load(std::memory_order_relaxed) || slab->used_to == end) return kNoSlot;
  slots_[slab->used_to].word.Reserve();
  return slab->used_to++;
}

// From a slab that is unused since it began, or from the last one.
std::uint32_t SlotTable::TakeUnused() {
  if (first_blank_ != kNoSlot) {
    const std::uint32_t blank = first_blank_;
    Slab& slab = slabs_[blank];
    first_blank_ = slab.next;
    slab.listed = true;
    slab.next = first_listed_;
    first_listed_ = blank;
    return TakeFrom(&slab, EndOf(blank));
  }
  const std::uint32_t id = high_water_.load(std::memory_order_relaxed);
  if (id >= capacity_) return kNoSlot;
  new (&records_[id]) Record();
  slots_[id].word.Reserve();
  slabs_[SlabOf(id)].used_to = id + 1;
  high_water_.store(id + 1, std::memory_order_release);
  return id;
}

void SlotTable::Give(std::uint32_t slot) {
  assert(in_use_ > 0);
  const std::uint32_t of = SlabOf(slot);
  Slab& slab = slabs_[of];
  records_[slot].parent_slot = slab.free_head;
  records_[slot].generation = 0;
  slab.free_head = slot;
  --slab.in_use;
  --in_use_;
  if (slab.listed) return;
  slab.listed = true;
  slab.next = first_listed_;
  first_listed_ = of;
}

// --- giving memory back ---

// The first slab is small, and keeps its memory.
void SlotTable::Trim() {
  bool any = false;
  const std::uint32_t used = high_water();
  for (std::uint32_t slab = 1; slab < slabs_.size() && BeginOf(slab) < used; ++slab) {
    if (slabs_[slab].in_use > 0 || slabs_[slab].used_to == BeginOf(slab)) continue;
    if (!Blank(slab)) break;  // This kernel can't do it.
    any = true;
  }
  if (any) Relist();
}

// The lease words come first. A reader that found a link to one of these slots before
// it was unlinked, and has added to the old lease word, will subtract from the new one.
// The old words, as they were when they were swapped out, tell how many such readers
// there are. A reader that adds later does both on the new word.
bool SlotTable::Blank(std::uint32_t slab) {
  const std::uint32_t begin = BeginOf(slab);
  const std::uint32_t used = slabs_[slab].used_to - begin;
  const bool swapped = SwapForZeroed(&slots_[begin], kLargePageBytes, [&](const std::byte* was) {
    const Slot* const old = reinterpret_cast<const Slot*>(was);
    for (std::uint32_t i = 0; i < used; ++i) {
      const std::uint64_t readers = LeaseWord::LeasesOf(old[i].word.Load());
      if (readers > 0) slots_[begin + i].word.Await(readers);
    }
  });
  if (!swapped) return false;
  ForgetZeroed(&records_[begin], kLargePageBytes);
  slabs_[slab].free_head = kNoSlot;
  slabs_[slab].used_to = begin;
  return true;
}

// Rebuilds both lists after some slabs have become unused.
void SlotTable::Relist() {
  const auto blank = [&](std::uint32_t slab) { return slabs_[slab].used_to == BeginOf(slab); };
  std::uint32_t* link = &first_listed_;
  while (*link != kNoSlot) {
    Slab& slab = slabs_[*link];
    if (blank(*link)) {
      slab.listed = false;
      *link = slab.next;
    } else {
      link = &slab.next;
    }
  }
  std::uint32_t used = high_water();
  while (used > kFirstSlab && blank(SlabOf(used - 1))) used = BeginOf(SlabOf(used - 1));
  high_water_.store(used, std::memory_order_release);
  first_blank_ = kNoSlot;
  for (std::uint32_t slab = used == 0 ? 0 : SlabOf(used - 1); slab > 0; --slab) {
    if (!blank(slab)) continue;
    slabs_[slab].next = first_blank_;
    first_blank_ = slab;
  }
}

}  // namespace spillway
