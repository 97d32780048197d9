// The strand's part of the Inlet: it stocks lanes, and enrols who came by them.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include "cache/engine.h"
#include "cache/engine_need.h"

namespace spillway {

namespace {
// A lane's stock is at most such a part of the slots, and of the bytes.
constexpr std::uint64_t kPartOfSlots = 512;
constexpr Bytes kPartOfBytes = 4096;
// Fewer than this are not worth an event.
constexpr std::uint64_t kStockLeast = 8;
// Of what is free, such a part.
constexpr std::uint64_t kPartOfFree = 8;
// Entries leave early only where so many have left for room, without a pause as long
// as this, that the next will follow in a moment.
constexpr std::uint64_t kChurnLeast = 1024;
constexpr Duration kPause = std::chrono::seconds(1);
// And only so many, on average, for each that comes.
constexpr Bytes kLeaveForOneMost = 4;
}  // namespace

bool Engine::MayStock() const {
  return single() && top_->id == TierId::kDevice && !store_->on_gpu() && !turned_away_ &&
         !closed_ && !loading_ && graph_ == nullptr && uses_ == nullptr && parked_ == nullptr &&
         level() <= Level::kNormal && !top_->gone.load(std::memory_order_relaxed) &&
         !top_->gauge.unknown() && LeftFree(*top_) == 0 &&
         !top_->firm->policy.rule->RunsAfterSet(Level::kEmergency);
}

// How many more a lane should get that has `have`.
std::uint32_t Engine::StockFor(Bytes bytes, std::uint32_t have, TimePoint now) const {
  const Bytes each = std::max<Bytes>(bytes, 1);
  std::uint64_t most =
      std::min<std::uint64_t>(Inlet::kStockMost, store_->slots().capacity() / kPartOfSlots);
  if (capacity() != Tier::kUnlimited) most = std::min(most, capacity() / kPartOfBytes / each);
  if (most < kStockLeast) return 0;
  std::uint64_t more = most - std::min<std::uint64_t>(most, have);
  if (IsChurning(now)) {
    // Where many would have to leave for each, one by one is soon enough.
    const bool many = store_->bytes() < store_->entries() * each / kLeaveForOneMost;
    return many ? 0 : static_cast<std::uint32_t>(more);
  }
  // Nobody leaves for it: a part of what is free.
  more = std::min(more, (store_->slots().capacity() - store_->slots().in_use()) / kPartOfFree);
  more = std::min(more, Excess(GrowthLimit(*top_), store_->bytes()) / kPartOfFree / each);
  return more < kStockLeast ? 0 : static_cast<std::uint32_t>(more);
}

void Engine::NoteRoomMade(std::size_t entries, TimePoint now) {
  if (now - room_made_at_ > kPause) room_made_ = 0;
  room_made_ += entries;
  room_made_at_ = now;
}

bool Engine::IsChurning(TimePoint now) const {
  return room_made_ >= kChurnLeast && now - room_made_at_ <= kPause;
}

void Engine::Stock(Inlet::Lane* lane, Bytes bytes, TimePoint now) {
  if (Inlet::Lane* const other = inlet_.Another(*lane); other != nullptr) TidyUp(other, now);
  const std::lock_guard held(lane->lock);
  EnrolAll(lane, now);
  Follow(now);
  // Other lanes are not shut: that pressure is unknown by now is for the next event to say.
  const bool may = MayStock() && !IsSampleOld(*top_, now);
  if (!may || lane->bytes != bytes) Unstock(lane);
  if (!may) return inlet_.SetOpen(false);
  const std::uint32_t lacking = StockFor(bytes, lane->ready_count, now);
  const std::uint32_t full = lane->ready_count + lacking;
  lane->bytes = bytes;
  inlet_.NoteStocked(*lane);  // First: what is in it is shut off and given back, whatever fails.
  bool room = lacking > 0 && MakeRoomAhead(lacking, lane, now);
  bool let_go = false;
  // Some who were to leave may have been leased meanwhile.
  const auto fits = [&] { return Excess(store_->bytes() + bytes, GrowthLimit(*top_)) == 0; };
  while (room && lane->ready_count < full && fits()) {
    const Result<std::uint32_t> slot = store_->ReserveAhead(bytes);
    if (slot) {
      lane->PutBack(*slot);
    } else {
      // The card is fuller than the account says, by the slack of size classes. Once:
      // places of other sizes may be of no use.
      Need need;
      need.slots = full - lane->ready_count;
      room = !std::exchange(let_go, true) && slot.error().code == Code::kNoMemory &&
             IsChurning(now) && LetGoAhead(&need, full, lane, now);
    }
  }
  NoteMoves(now);
  if (lane->ready_count == 0) {
    lane->wishes = 0;  // Not again soon.
    inlet_.NoteEmpty(*lane);
  }
}

// Who has not set anything since the last time has gone elsewhere.
void Engine::TidyUp(Inlet::Lane* lane, TimePoint now) {
  if (!lane->lock.try_lock()) return;
  const std::lock_guard held(lane->lock, std::adopt_lock);
  if (std::exchange(lane->used, false)) return;
  EnrolAll(lane, now);
  Unstock(lane);
}

void Engine::ShutInlet(const Clock& clock) {
  if (!inlet_.any_stocked()) return;
  inlet_.Shut([&](Inlet::Lane& lane) {
    if (lane.came_count() > 0) EnrolAll(&lane, clock.Now());
  });
}

void Engine::ReopenInlet() {
  const bool may = MayStock();
  if (!may) UnstockAll();
  inlet_.SetOpen(may);
  inlet_.Reopen();
}

// What is lacking for so many, in the order in force; who has just the size leaves
// its place to the lane. False: nothing more may leave.
bool Engine::MakeRoomAhead(std::uint32_t entries, Inlet::Lane* lane, TimePoint now) {
  const Bytes bytes = lane->bytes;
  Need need;
  need.bytes = Excess(store_->bytes() + entries * bytes, GrowthLimit(*top_));
  need.slots = Excess<std::uint64_t>(std::uint64_t{store_->slots().in_use()} + entries,
                                     store_->slots().capacity());
  return !need.any() || LetGoAhead(&need, lane->ready_count + entries, lane, now);
}

// A lane that is full takes no more places. False: nobody has left.
bool Engine::LetGoAhead(Need* need, std::uint32_t full, Inlet::Lane* lane, TimePoint now) {
  room_plan_.clear();
  bool enough = PlanRoom(need, kNoSlot, &room_plan_);
  try {
    chosen_.reserve(room_plan_.size());
  } catch (const std::bad_alloc&) {
    enough = false;
  }
  if (!enough) {
    Unplan(&room_plan_);
    return false;
  }
  const Why why{Action::kDestroy, Reason::kRoom, OrderName(*top_)};
  for (const Victim& victim : room_plan_) {
    const std::uint32_t slot = victim.id.slot;
    const Record& record = store_->slots().record(slot);
    store_->Attach(slot, record.copies);
    if (!record.has_children() && TakeUnlessLeased(slot)) {
      chosen_.push_back(slot);
      LetGoOfParent(slot, record.copies);
    } else {
      Enter(slot);
    }
  }
  NoteRoomMade(chosen_.size(), now);
  const bool any = !chosen_.empty();
  for (const std::uint32_t slot : chosen_) store_->PrefetchRemoval(slot);
  for (const std::uint32_t slot : chosen_) store_->Hide(slot);
  for (const std::uint32_t slot : chosen_) {
    Part(slot, why, now);
    if (store_->IsLikeAhead(slot, lane->bytes) && lane->ready_count < full) {
      store_->Recycle(slot);
      lane->PutBack(slot);
    } else {
      store_->Retire(slot, true);
    }
  }
  chosen_.clear();
  return any;
}

void Engine::EnrolAll(Inlet::Lane* lane, TimePoint now) {
  const std::uint32_t count = lane->came_count();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t slot = lane->came[i];
    store_->Enrol(slot);
    ++sets_;
    if (scores_ != nullptr) Welcome(slot, now);
    Enter(slot);
  }
  lane->enrolled.store(lane->came_ever.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void Engine::Unstock(Inlet::Lane* lane) {
  while (lane->ready_count > 0) store_->Abort(lane->ready[--lane->ready_count]);
  inlet_.NoteEmpty(*lane);
}

// All are shut.
Engine::Stocked Engine::stocked() const {
  Stocked all;
  inlet_.ForEachStocked([&](const Inlet::Lane& lane) {
    all.slots += lane.ready_count;
    all.bytes += lane.ready_count * lane.bytes;
  });
  return all;
}

// All are shut. True: there was something.
bool Engine::UnstockAll() {
  const bool any = inlet_.any_stocked();
  inlet_.ForEachStocked([&](Inlet::Lane& lane) { Unstock(&lane); });
  return any;
}

}  // namespace spillway
