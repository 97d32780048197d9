#include "policy/entry_notes.h"

#include <utility>

namespace spillway {

NoteId GoneTable::Find(std::uint64_t hash) const {
  if (size_ == 0) return kNoNote;
  const std::uint32_t mixed = Mix(hash);
  for (std::size_t at = mixed & mask();; at = (at + 1) & mask()) {
    const Cell cell = cells_[at];
    if (cell.empty()) return kNoNote;
    if (cell.mixed == mixed && (*notes_)[cell.note()].hash == hash) return cell.note();
  }
}

void GoneTable::Put(Cell cell) {
  std::size_t at = cell.mixed & mask();
  while (!cells_[at].empty()) at = (at + 1) & mask();
  cells_[at] = cell;
}

void GoneTable::Add(NoteId id) {
  if (2 * (size_ + 1) > cells_.size()) {
    ZeroedTable<Cell> old(cells_.size() == 0 ? 64 : 2 * cells_.size());
    if (old.size() == 0) throw std::bad_alloc();
    std::swap(old, cells_);
    for (std::size_t at = 0; at < old.size(); ++at) {
      if (!old[at].empty()) Put(old[at]);
    }
  }
  Put({id + 1, Mix((*notes_)[id].hash)});
  ++size_;
}

void GoneTable::Remove(NoteId id) {
  std::size_t hole = Mix((*notes_)[id].hash) & mask();
  while (cells_[hole].note_more != id + 1) hole = (hole + 1) & mask();
  --size_;
  for (std::size_t at = hole;;) {
    cells_[hole] = {};
    do {
      at = (at + 1) & mask();
      if (cells_[at].empty()) return;
      // Who would be found without passing the hole stays.
    } while (((at - cells_[at].mixed) & mask()) < ((at - hole) & mask()));
    cells_[hole] = cells_[at];
    hole = at;
  }
}

}  // namespace spillway
