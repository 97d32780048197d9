#include "cache/inlet.h"

#include <cassert>

#include "base/thread_number.h"
#include "cache/advice.h"

namespace spillway {

std::uint32_t Inlet::Lane::Take(Bytes of, bool* stock) {
  if (of == bytes && ready_count > 0) {
    used = true;
    wanted = of;
    wishes = kWishesLeast;  // Well used: it is stocked again as soon as it is empty.
    // Not at every one: the strand may be busy.
    --ready_count;
    *stock = ready_count < kLow && ready_count % 8 == 0;
    return ready[ready_count];
  }
  if (of != bytes && of != wanted) wishes = 0;
  wanted = of;
  *stock = ++wishes > kWishesLeast;
  return kNoSlot;
}

void Inlet::Lane::Came(std::uint32_t slot) {
  const std::uint32_t count = came_count();
  assert(count < kStockMost);
  came[count] = slot;
  came_ever.store(came_ever.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool Inlet::IsPlain(std::string_view key, Bytes bytes, const SetOptions& options) {
  return key.size() <= kInlineKeyBytes && bytes <= kBytesMost && options.tokens == 0 &&
         options.agent.empty() && options.meta.empty() && options.parent.empty() && !options.ttl &&
         Advice(options).empty();
}

Inlet::Lane& Inlet::LaneFor(Bytes bytes) {
  return lanes_[(ThreadNumber() + ((bytes * 0x9e3779b97f4a7c15ULL) >> 60)) % kLanes];
}

void Inlet::Reopen() {
  for (std::size_t i = 0; i < kLanes; ++i) {
    if ((shut_ >> i & 1) != 0) lanes_[i].lock.unlock();
  }
  shut_ = 0;
}

Inlet::Lane* Inlet::Another(const Lane& than) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    hand_ = (hand_ + 1) % kLanes;
    if ((stocked_ >> hand_ & 1) != 0 && &lanes_[hand_] != &than) return &lanes_[hand_];
  }
  return nullptr;
}

std::uint64_t Inlet::came() const {
  std::uint64_t count = 0;
  for (const Lane& lane : lanes_) count += lane.came_ever.load(std::memory_order_acquire);
  return count;
}

std::size_t Inlet::waiting() const {
  std::size_t count = 0;
  for (const Lane& lane : lanes_) count += lane.came_count();
  return count;
}

}  // namespace spillway
