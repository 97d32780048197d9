// Closing chains: of a chain with copies in a full host tier, one new, unbacked
// entry at its end keeps all on the card, since it has to leave first. So copies
// move together: whoever lacks a few gets them, in place of copies in a chain that
// lacks more, which are of no use as they are. In quiet times, and little is copied
// for it: what each turn has added.
//
// With every turn of every agent all chains would be open before long. This way
// nearly all that has a copy can leave at once, at all times.
#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include "cache/engine.h"

namespace spillway {

namespace {

// Slots, and with steps along chains: a few milliseconds. Who has more, and
// smaller, entries closes chains when memory is wanted (BackEnds).
constexpr std::uint32_t kMostSlots = 1 << 16;
constexpr std::uint32_t kMostLooks = 1 << 18;
// Until the next time: while there is something to do, and else. Looking takes
// some hundredth of it.
constexpr Duration kSoon = std::chrono::milliseconds(50);
constexpr Duration kLater = std::chrono::milliseconds(500);
constexpr Duration kForOneLook = std::chrono::microseconds(1);
// Copies that go at a time because what is free lies in pieces.
constexpr int kForPieces = 8;

}  // namespace

// One look at all chains on the device. `lacking` is, for each slot, how many of
// those that continue it have no copy below.
class Engine::Closing {
 public:
  Closing(Engine* engine, TierState* tier) : engine_(*engine), tier_(*tier), host_(*tier->below) {}

  // False: there are too many.
  bool Look() {
    const std::uint32_t all = slots().high_water();
    if (all > kMostSlots) return false;
    lacking_.assign(all, 0);
    looks_ = all;
    for (std::uint32_t slot = 0; slot < all; ++slot) {
      if (!OnDevice(slot) || slots().record(slot).backed_in(tier_.id)) continue;
      for (std::uint32_t at = engine_.store_->ParentOf(slot); at != kNoSlot;
           at = engine_.store_->ParentOf(at)) {
        if (++looks_ > kMostLooks) return false;
        ++lacking_[at];
      }
    }
    return true;
  }

  std::uint32_t looks() const { return looks_; }

  // Copies go from those who lack most to those who lack least. True: some do.
  bool Trade(TimePoint now) {
    FindGivers();
    FindTakers(now);
    const Why why{Action::kBack, Reason::kIdle, engine_.OrderName(tier_)};
    bool some = false;
    int pieces = kForPieces;
    for (const Chain& taker : takers_) {
      const Bytes size = slots().slot(taker.slot).size;
      bool room = engine_.MayTake(host_, taker.slot, now);
      while (room && engine_.Lacking(host_, size) > 0) room = TakeOne(taker, now);
      if (!room) break;
      Going going = Going::kNowhere;
      do {
        going = engine_.SendDown(tier_, taker.slot, why, Priority::kWriteBehind, false, now);
        // What is free may lie in pieces.
      } while (going == Going::kNowhere && --pieces > 0 && TakeOne(taker, now));
      if (going == Going::kFull || pieces <= 0) break;
      some = some || going == Going::kDown;
    }
    return some;
  }

 private:
  struct Chain {
    std::uint32_t slot;
    std::uint32_t open;  // The first one in its chain that has a copy, and can't go for the rest.
    std::uint32_t lacking;
    std::int64_t last_use;  // Of that one.

    // Who lacks most, and then who was used last, has the least of its copies.
    bool IsFullerThan(const Chain& other) const {
      if (lacking != other.lacking) return lacking < other.lacking;
      return last_use < other.last_use;
    }
  };

  const SlotTable& slots() const { return engine_.store_->slots(); }
  bool OnDevice(std::uint32_t slot) const {
    return LeaseWord::StateOf(slots().slot(slot).word.Load()) == SlotState::kVisible &&
           Has(slots().record(slot).copies, tier_.id);
  }
  Chain ChainOf(std::uint32_t slot, std::uint32_t open) const {
    return {slot, open, lacking_[open],
            slots().slot(open).last_use.load(std::memory_order_relaxed)};
  }

  // Copies that are of no use as they are. One at the end of a chain, too, if the
  // one before it can't leave anyway: that is what an older turn has left behind.
  std::optional<Chain> AsGiver(std::uint32_t slot) const {
    const Record& record = slots().record(slot);
    if (!OnDevice(slot) || !Has(record.copies, host_.id) ||
        record.children[IndexOf(host_.id)] > 0) {
      return std::nullopt;
    }
    if (lacking_[slot] > 0) return ChainOf(slot, slot);
    const std::uint32_t parent = engine_.store_->ParentOf(slot);
    if (parent == kNoSlot || lacking_[parent] == 0 || !slots().record(parent).backed_in(tier_.id) ||
        slots().record(parent).children[IndexOf(host_.id)] > 1) {
      return std::nullopt;
    }
    return ChainOf(slot, parent);
  }
  void FindGivers() {
    for (std::uint32_t slot = 0; slot < lacking_.size(); ++slot) {
      if (const auto giver = AsGiver(slot)) givers_.push_back(*giver);
    }
    std::make_heap(givers_.begin(), givers_.end(), Fuller);
  }
  static bool Fuller(const Chain& a, const Chain& b) { return a.IsFullerThan(b); }

  // Those without a copy behind one that has one.
  void FindTakers(TimePoint now) {
    const TimePoint idle_since = now - *engine_.settings_.options.write_behind_after;
    for (std::uint32_t slot = 0; slot < lacking_.size(); ++slot) {
      const Record& record = slots().record(slot);
      if (!OnDevice(slot) || record.backed_in(tier_.id) || !record.parent_declared()) continue;
      if (record.below != nullptr && record.below->transfer != nullptr) continue;
      if (engine_.store_->FactsOf(slot, tier_.id).last_use > idle_since) continue;
      std::uint32_t at = engine_.store_->ParentOf(slot);
      while (at != kNoSlot && !slots().record(at).backed_in(tier_.id)) {
        at = engine_.store_->ParentOf(at);
      }
      if (at != kNoSlot) takers_.push_back(ChainOf(slot, at));
    }
    // In a chain whoever leaves first comes first.
    std::ranges::sort(takers_, [&](const Chain& a, const Chain& b) {
      if (a.open != b.open) return a.IsFullerThan(b);
      return lacking_[a.slot] < lacking_[b.slot];
    });
  }

  // One copy goes for it. False: nobody has any of less use.
  bool TakeOne(const Chain& taker, TimePoint now) {
    const Why why{Action::kDrop, Reason::kRoom, engine_.OrderName(host_)};
    while (!givers_.empty()) {
      const Chain giver = givers_.front();
      if (giver.open == taker.open || !taker.IsFullerThan(giver)) return false;
      std::pop_heap(givers_.begin(), givers_.end(), Fuller);
      givers_.pop_back();
      // For a copy that found no room some may have gone already.
      if (!AsGiver(giver.slot) || !engine_.MayGo(host_, giver.slot)) continue;
      const std::uint32_t parent = engine_.store_->ParentOf(giver.slot);
      if (!engine_.Drop(host_, giver.slot, why, now)) continue;
      // Its chain lacks one more now, and who comes before may be the next.
      ++lacking_[giver.open];
      if (parent == kNoSlot) return true;
      if (parent != giver.open) ++lacking_[parent];
      if (const auto next = AsGiver(parent)) {
        givers_.push_back(*next);
        std::push_heap(givers_.begin(), givers_.end(), Fuller);
      }
      return true;
    }
    return false;
  }

  Engine& engine_;
  TierState& tier_;
  TierState& host_;
  std::uint32_t looks_ = 0;
  std::vector<std::uint32_t> lacking_;
  std::vector<Chain> takers_;
  std::vector<Chain> givers_;  // A heap; first the one that lacks most.
};

// What is left of it may lie in pieces, and be of no use.
bool Engine::IsNearlyFull(const TierState& tier) const {
  return Lacking(tier, capacity(tier.id) / 32) > 0;
}

void Engine::CloseChains(TierState& tier, TimePoint now) {
  if (tier.last() || tier.below->id != TierId::kHost || now < tier.no_close_until) return;
  tier.no_close_until = now + kLater;
  if (FirmBytes(tier) == 0) return;
  if (!IsNearlyFull(*tier.below)) return;  // Chains go down as they come.
  try {
    Closing closing(this, &tier);
    if (closing.Look() && closing.Trade(now)) {
      tier.no_close_until = now + std::max(kSoon, closing.looks() * kForOneLook);
    }
  } catch (const std::bad_alloc&) {
    return;  // No memory to look with; nothing is lost.
  }
}

}  // namespace spillway
