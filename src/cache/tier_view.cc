// SPDX-License-Identifier: Apache-2.0
#include "base/mutant.h"
#include "base/prefetch.h"
#include "cache/store.h"

namespace spillway {

// Plans over a million entries spend their time here: each cache line is read once.
inline bool TierView::ReadOne(EntryId id, Facts* facts) const {
  const Slot& slot = store_->slots().slot(id.slot);
  const Record& record = store_->slots().record(id.slot);
  const std::uint64_t word = slot.word.Load();
  if (static_cast<std::uint32_t>(record.generation) != id.tag ||
      LeaseWord::StateOf(word) != SlotState::kVisible || !Holds(record)) {
    return false;
  }
  facts->tokens = record.tokens;
  facts->bytes = slot.size;
  facts->access_count = LeaseWord::AcquiresOf(word);
  facts->last_use = TimePoint(Duration(slot.last_use.load(std::memory_order_relaxed)));
  facts->place = record.place;
  facts->children =
      leaves_only_ && !MutantOn(Mutant::kParentBeforeChild) ? record.children[IndexOf(tier_)] : 0;
  return true;
}

bool TierView::Read(EntryId id, Facts* facts) const { return ReadOne(id, facts); }

RankMarks* TierView::Marks(EntryId id) const {
  // Marks belong to the strand, and so do the callers of this function.
  Record& record = const_cast<SlotTable&>(store_->slots()).record(id.slot);
  return static_cast<std::uint32_t>(record.generation) == id.tag ? &record.marks : nullptr;
}

void TierView::ReadMany(std::span<const EntryId> ids, Facts* facts, RankMarks** marks) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    marks[i] = ReadOne(ids[i], &facts[i])
                   ? &const_cast<SlotTable&>(store_->slots()).record(ids[i].slot).marks
                   : nullptr;
  }
}

void TierView::PrefetchMarks(EntryId id) const {
  PrefetchForWrite(&store_->slots().record(id.slot).marks);
}

void TierView::Prefetch(EntryId id) const {
  const Record* const record = &store_->slots().record(id.slot);
  PrefetchForWrite(&store_->slots().slot(id.slot));
  PrefetchForWrite(record);
  PrefetchForWrite(reinterpret_cast<const std::byte*>(record + 1) - 1);
}

}  // namespace spillway
