#include "cache/store.h"

namespace spillway {

bool TierView::Read(EntryId id, Facts* facts) const {
  if (!store_->IsLive(id) || !Holds(store_->slots().record(id.slot))) return false;
  *facts = FactsOf(id.slot);
  return true;
}

RankMarks* TierView::Marks(EntryId id) const {
  // Marks are the strand's alone, and so is whoever calls this.
  Record& record = const_cast<SlotTable&>(store_->slots()).record(id.slot);
  return static_cast<std::uint32_t>(record.generation) == id.tag ? &record.marks : nullptr;
}

void TierView::ReadMany(std::span<const EntryId> ids, Facts* facts, RankMarks** marks) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    marks[i] = Read(ids[i], &facts[i]) ? Marks(ids[i]) : nullptr;
  }
}

void TierView::Prefetch(EntryId id) const {
  const Record* const record = &store_->slots().record(id.slot);
  __builtin_prefetch(&store_->slots().slot(id.slot), 1);
  __builtin_prefetch(record, 1);
  __builtin_prefetch(reinterpret_cast<const std::byte*>(record + 1) - 1, 1);
}

Facts TierView::FactsOf(std::uint32_t slot) const {
  Facts facts = store_->FactsOf(slot, tier_);
  if (!leaves_only_) facts.children = 0;
  return facts;
}

}  // namespace spillway
