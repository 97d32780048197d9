// The Inlet lets small new entries in beside the strand. An event of its own for
// each costs more than all the rest of it, and two threads that set at once would
// wait for one another. So the strand stocks *lanes* with reservations, up to 192
// at a time: slots that are private, with a block of one size each. Whoever sets a
// new key of that size takes one, writes key and bytes, and links it into the
// index itself. The entry can be read from then on. The strand enrols it, which is
// the rest of a commit (counts, rankings, what is learnt), with the next event,
// and many together.
//
// 1. While an event runs no lane lets anybody in, and all who came are enrolled:
//    events find everything as if each set had been one of them. Only Stock itself
//    runs beside other lanes. It looks up no key, and meets only who is enrolled.
// 2. A stocked reservation is one like any other in the account: the cache never
//    holds more than it may. It is made of what is free, and given back before
//    anybody leaves for room. Where entries leave for room one after another, they
//    leave for the stock, too, in the order in force, a moment before they would
//    have. It is always a small part of the cache.
// 3. Lanes are stocked and open only while a set could not be refused, delayed or
//    told to anybody: one tier that the host can write to, no level above NORMAL,
//    no reserve, no graph, no trace (Engine::MayStock).
// 4. A lane's lock is held for as long as a small copy takes. Who holds it waits
//    for nothing but a bucket of the index; events wait for it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/brief_lock.h"
#include "base/prefetch.h"
#include "cache/slot.h"
#include "spillway/cache.h"
#include "spillway/units.h"

namespace spillway {

class Inlet {
 public:
  static constexpr std::size_t kLanes = 16;
  static constexpr std::uint32_t kStockMost = 192;
  static constexpr std::uint32_t kLow = 112;  // From here on there should be more soon.
  static constexpr Bytes kBytesMost = 4 * kKiB;

  // Guarded by its lock, unless said otherwise.
  struct alignas(64) Lane {
    BriefLock lock;
    // Written under the lock, read anywhere: who came ever, and who of them is enrolled.
    std::atomic<std::uint64_t> came_ever{0};
    std::atomic<std::uint64_t> enrolled{0};
    std::uint32_t ready_count = 0;
    Bytes bytes = 0;           // Of each block in stock.
    Bytes wanted = 0;          // Of the sets that found none of theirs,
    std::uint32_t wishes = 0;  // so many in a row.
    bool used = false;         // Since the strand last looked.
    std::array<std::uint32_t, kStockMost> ready{};
    std::array<std::uint32_t, kStockMost> came{};

    // A reservation of that size; kNoSlot: there is none. `stock`: there should be
    // some, or more, soon.
    std::uint32_t Take(Bytes of, bool* stock);
    void PutBack(std::uint32_t slot) { ready[ready_count++] = slot; }
    void Came(std::uint32_t slot);
    std::uint32_t came_count() const {
      return static_cast<std::uint32_t>(came_ever.load(std::memory_order_relaxed) -
                                        enrolled.load(std::memory_order_relaxed));
    }
    // Fetches what those will be written to who are taken next.
    void PrefetchNext(const SlotTable& slots) const {
      if (ready_count >= 4) PrefetchForWrite(&slots.slot(ready[ready_count - 4]));
      if (ready_count < 2) return;
      const Slot& soon = slots.slot(ready[ready_count - 2]);
      PrefetchForWrite(soon.data.load(std::memory_order_relaxed));
    }
  };

  // --- any thread ---

  bool open() const { return open_.load(std::memory_order_relaxed); }
  // Whether a set says nothing that only the strand can hear.
  static bool IsPlain(std::string_view key, Bytes bytes, const SetOptions& options);
  // Threads and sizes each have one, as far as there are enough.
  Lane& LaneFor(Bytes bytes);
  // All who came ever; and who of them was not enrolled yet, if nobody comes meanwhile.
  std::uint64_t came() const;
  std::size_t waiting() const;

  // --- strand only ---

  void SetOpen(bool open) { open_.store(open, std::memory_order_relaxed); }
  // Those that were stocked and not emptied since: nobody can come by another.
  void NoteStocked(const Lane& lane) { stocked_ |= 1U << (&lane - lanes_.data()); }
  void NoteEmpty(const Lane& lane) { stocked_ &= ~(1U << (&lane - lanes_.data())); }
  bool any_stocked() const { return stocked_ != 0; }
  // Nobody comes from here on; `each` is shown the lanes that were stocked.
  template <typename Each>
  void Shut(Each&& each) {
    shut_ = stocked_;
    ForEachStocked([&](Lane& lane) {
      lane.lock.lock();
      each(lane);
    });
  }
  void Reopen();
  // Another lane that was stocked, each in turn; null: there is none.
  Lane* Another(const Lane& than);
  template <typename Each>
  void ForEachStocked(Each&& each) const {
    for (std::size_t i = 0; i < kLanes; ++i) {
      if ((stocked_ >> i & 1) != 0) each(lanes_[i]);
    }
  }
  template <typename Each>
  void ForEachStocked(Each&& each) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      if ((stocked_ >> i & 1) != 0) each(lanes_[i]);
    }
  }

 private:
  // A lane is stocked after so many sets of one size: who sets now and then is
  // served well by an event.
  static constexpr std::uint32_t kWishesLeast = 64;

  alignas(64) std::atomic<bool> open_{false};
  alignas(64) std::uint32_t stocked_ = 0;  // A bit each.
  std::uint32_t shut_ = 0;                 // Of those that are locked for an event.
  std::size_t hand_ = 0;                   // Where Another looks first.
  std::array<Lane, kLanes> lanes_;
};

}  // namespace spillway
