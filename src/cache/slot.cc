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
    : slots_(slots), records_(records), capacity_(capacity) {}

SlotTable::~SlotTable() {
  UnreserveZeroed(slots_, capacity_ * sizeof(Slot));
  UnreserveZeroed(records_, capacity_ * sizeof(Record));
}

std::uint32_t SlotTable::Take() {
  std::uint32_t id = free_head_;
  if (id != kNoSlot) {
    free_head_ = records_[id].parent_slot;
  } else {
    id = high_water_.load(std::memory_order_relaxed);
    if (id >= capacity_) return kNoSlot;
    new (&slots_[id]) Slot();
    new (&records_[id]) Record();
    slots_[id].word.Reserve();
    high_water_.store(id + 1, std::memory_order_release);
  }
  records_[id] = Record();
  ++in_use_;
  return id;
}

void SlotTable::Give(std::uint32_t slot) {
  assert(in_use_ > 0);
  records_[slot].parent_slot = free_head_;
  records_[slot].generation = 0;
  free_head_ = slot;
  --in_use_;
}

}  // namespace spillway
