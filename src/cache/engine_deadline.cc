// Own ttls: when an entry ends by its writer's word, and what becomes of that
// when the writer changes its mind.
#include <algorithm>
#include <memory>

#include "base/room_for_one.h"
#include "cache/engine.h"

namespace spillway {

TimePoint Engine::DeadlineOf(std::uint32_t slot) const {
  if (!store_->slots().slot(slot).has_deadline) return TimePoint::max();
  return store_->slots().record(slot).extra->deadline;
}

void Engine::GiveDeadline(std::uint32_t reservation, TimePoint deadline) {
  std::unique_ptr<Extra> spare;
  if (store_->slots().record(reservation).extra == nullptr && deadline != TimePoint::max()) {
    spare = std::make_unique<Extra>();
  }
  store_->SetDeadline(reservation, deadline, std::move(spare));
}

bool Engine::ChangeDeadline(std::uint32_t slot, TimePoint deadline) {
  if (DeadlineOf(slot) == deadline) return true;
  const Record& record = store_->slots().record(slot);
  // A blob carries its deadline: what is on disk, or on its way there, or might be
  // found there again, would come back with the old one.
  const Below* const below = record.below;
  if (below != nullptr &&
      (Has(record.copies, TierId::kDisk) || below->transfer != nullptr || below->had_blob)) {
    return false;
  }
  std::unique_ptr<Extra> spare;
  if (record.extra == nullptr) spare = std::make_unique<Extra>();
  RoomForOne(deadlines_);
  const bool alone =
      store_->index().Rework(slot, [&] { store_->SetDeadline(slot, deadline, std::move(spare)); });
  if (alone && deadline != TimePoint::max()) NoteDeadline(store_->IdOf(slot), deadline);
  return alone;
}

// There is room for it already.
void Engine::NoteDeadline(EntryId id, TimePoint deadline) {
  constexpr std::size_t kFew = 1024;
  deadlines_.push_back({deadline, id});
  std::push_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  if (deadlines_.size() < kFew || deadlines_.size() / 2 < store_->entries()) return;
  // Half of them at least are of no use any more: so this costs nothing on average.
  std::erase_if(deadlines_, [&](const Deadline& noted) {
    return !store_->IsLive(noted.id) || DeadlineOf(noted.id.slot) != noted.at;
  });
  std::make_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
}

}  // namespace spillway
