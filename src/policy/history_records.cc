// SPDX-License-Identifier: Apache-2.0
#include "policy/history_records.h"

#include <algorithm>
#include <utility>

#include "base/reserved_memory.h"

namespace spillway {

void HistoryPool::Shrink() {
  const auto in_use = [this](std::size_t id) {
    return records_[id].here || records_[id].hash != 0;
  };
  std::size_t end = used_;
  while (end > 0 && !in_use(end - 1)) {
    --end;
    first_number_ = std::max({first_number_, records_[end].queued + 1, records_[end].life + 1});
  }
  if (end == used_) return;
  free_ = kNoRecord;
  for (std::size_t id = end; id-- > 0;) {  // The lowest is taken first.
    if (in_use(id)) continue;
    records_[id].first_child_record = free_;
    free_ = static_cast<HistoryRecordId>(id);
  }
  ForgetZeroed(&records_[end], (used_ - end) * sizeof(HistoryRecord));
  used_ = end;
}

HistoryRecordId GoneTable::Find(std::uint64_t hash) const {
  if (size_ == 0) return kNoRecord;
  const std::uint32_t mixed = Mix(hash);
  for (std::size_t at = mixed & mask();; at = (at + 1) & mask()) {
    const Cell cell = cells_[at];
    if (cell.empty()) return kNoRecord;
    if (cell.mixed == mixed && (*records_)[cell.record()].hash == hash) return cell.record();
  }
}

void GoneTable::Put(Cell cell) {
  std::size_t at = cell.mixed & mask();
  while (!cells_[at].empty()) at = (at + 1) & mask();
  cells_[at] = cell;
}

void GoneTable::Add(HistoryRecordId id) {
  if (2 * (size_ + 1) > cells_.size()) {
    ZeroedTable<Cell> old(cells_.size() == 0 ? 64 : 2 * cells_.size());
    if (old.size() == 0) throw std::bad_alloc();
    std::swap(old, cells_);
    for (std::size_t at = 0; at < old.size(); ++at) {
      if (!old[at].empty()) Put(old[at]);
    }
  }
  Put({id + 1, Mix((*records_)[id].hash)});
  ++size_;
}

void GoneTable::Remove(HistoryRecordId id) {
  std::size_t hole = Mix((*records_)[id].hash) & mask();
  while (cells_[hole].record_more != id + 1) hole = (hole + 1) & mask();
  --size_;
  for (std::size_t at = hole;;) {
    cells_[hole] = {};
    do {
      at = (at + 1) & mask();
      if (cells_[at].empty()) return;
      // A cell that is found without passing the hole stays.
    } while (((at - cells_[at].mixed) & mask()) < ((at - hole) & mask()));
    cells_[hole] = cells_[at];
    hole = at;
  }
}

}  // namespace spillway
