// SPDX-License-Identifier: Apache-2.0
// Own ttls: when an entry ends by its writer's wish, and how the writer can change
// that.
#include <algorithm>
#include <memory>

#include "base/mutant.h"
#include "base/reserve_one.h"
#include "cache/engine.h"

namespace spillway {

TimePoint Engine::DeadlineOf(std::uint32_t slot) const {
  return spillway::DeadlineOf(store_->slots().slot(slot), store_->slots().record(slot));
}

void Engine::GiveDeadline(std::uint32_t reservation, TimePoint deadline) {
  std::unique_ptr<Extra> spare;
  if (store_->slots().record(reservation).extra == nullptr && deadline != TimePoint::max()) {
    spare = std::make_unique<Extra>();
  }
  store_->SetDeadline(reservation, deadline, std::move(spare));
}

// In place, wherever its copies are and even while it is leased: the value stays as it
// is.
void Engine::ChangeDeadline(std::uint32_t slot, TimePoint deadline) {
  if (DeadlineOf(slot) == deadline) return;
  const bool only_on_disk = store_->slots().record(slot).copies == MaskOf(TierId::kDisk);
  if (only_on_disk && MutantOn(Mutant::kDeadlineChangeDropped)) return;
  std::unique_ptr<Extra> spare;
  if (store_->slots().record(slot).extra == nullptr) spare = std::make_unique<Extra>();
  ReserveOne(deadlines_);
  // What follows needs no memory.
  store_->SetDeadline(slot, deadline, std::move(spare));
  TellDiskOfDeadline(slot);
  if (deadline != TimePoint::max()) NoteDeadline(store_->IdOf(slot), deadline);
}

// The disk records the deadline beside the value, or with the value if that is being
// written.
void Engine::TellDiskOfDeadline(std::uint32_t slot) {
  const Record& record = store_->slots().record(slot);
  if (record.below == nullptr || MutantOn(Mutant::kDeadlineUntold)) return;
  const Transfer* const going = record.below->transfer;
  if (Has(record.copies, TierId::kDisk)) {
    store_->disk()->ChangeDeadline(record.below->blob, store_->ExpiresUnixNs(slot));
    deletes_pending_ = true;
  } else if (going != nullptr && going->to == TierId::kDisk) {
    store_->disk()->ChangeDeadline(going->destination.blob, store_->ExpiresUnixNs(slot));
    deletes_pending_ = true;
  } else if (record.below->had_blob) {
    deletes_pending_ = true;  // That blob still has the old deadline, and must not be found again.
  }
}

// The caller has made room in deadlines_.
void Engine::NoteDeadline(EntryId id, TimePoint deadline) {
  constexpr std::size_t kFew = 1024;
  deadlines_.push_back({deadline, id});
  std::push_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  if (deadlines_.size() < kFew || deadlines_.size() / 2 < store_->entries()) return;
  // At least half of them are obsolete, so this costs nothing on average.
  std::erase_if(deadlines_, [&](const Deadline& noted) {
    return !store_->IsLive(noted.id) || DeadlineOf(noted.id.slot) != noted.at;
  });
  std::make_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
}

}  // namespace spillway
