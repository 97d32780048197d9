// SPDX-License-Identifier: Apache-2.0
// Completing chains. If a chain has copies in a full host tier, a single new dirty
// entry at its end keeps all of it on the card, since the end is evicted first. So
// copies are moved together: a chain that lacks a few gets them, in place of copies of
// a chain that lacks more, which are of no use as they are. This is background work,
// and copies little: what each turn has added.
//
// With every turn of every agent all chains would soon be incomplete. This way nearly
// all entries that have a copy can be dropped at once, at any time.
#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include "cache/engine.h"

namespace spillway {

namespace {

// Slots, and with the steps along chains: a few milliseconds. Caches with more and
// smaller entries complete chains when memory is wanted (BackupTails).
constexpr std::uint32_t kMostSlots = 1 << 16;
constexpr std::uint32_t kMostLooks = 1 << 18;
// Time until the next call: if something was done, and otherwise. Looking takes about a
// hundredth of it.
constexpr Duration kSoon = std::chrono::milliseconds(50);
constexpr Duration kLater = std::chrono::milliseconds(500);
constexpr Duration kForOneLook = std::chrono::microseconds(1);
// Copies dropped because free space is fragmented.
constexpr int kForPieces = 8;

}  // namespace

// One look at all chains on the device. `lacking_` is, for each slot, how many of the
// entries that continue it have no copy below.
class Engine::Closing {
 public:
  Closing(Engine* engine, TierState* tier) : engine_(*engine), tier_(*tier), host_(*tier->below) {}

  // False: there are too many entries.
  bool Tick() {
    const std::uint32_t all = slots().high_water();
    if (all > kMostSlots) return false;
    lacking_.assign(all, 0);
    looks_ = all;
    for (std::uint32_t slot = 0; slot < all; ++slot) {
      if (!OnDevice(slot) || slots().record(slot).clean_in(tier_.id)) continue;
      for (std::uint32_t at = engine_.store_->ParentOf(slot); at != kNoSlot;
           at = engine_.store_->ParentOf(at)) {
        if (++looks_ > kMostLooks) return false;
        ++lacking_[at];
      }
    }
    return true;
  }

  std::uint32_t looks() const { return looks_; }

  // Copies go from the chains that lack most to those that lack least. True: some did.
  bool Rebalance(TimePoint now) {
    FindSources();
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
        going = engine_.SendDown(tier_, taker.slot, why, Priority::kWriteBack, false, now);
        // Free space may be fragmented.
      } while (going == Going::kNowhere && --pieces > 0 && TakeOne(taker, now));
      if (going == Going::kFull || pieces <= 0) break;
      some = some || going == Going::kDown;
    }
    return some;
  }

 private:
  struct Chain {
    std::uint32_t slot;
    // The first in its chain with a copy that can't be dropped because of the rest.
    std::uint32_t open;
    std::uint32_t lacking;
    std::int64_t last_use;  // Of `open`.

    // The chain that lacks most, and of those the one used last, has the least of its
    // copies.
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

  // A copy that is of no use as it is. Also one at the end of a chain if the entry
  // before it can't be evicted anyway: an older turn has left it behind.
  std::optional<Chain> AsSource(std::uint32_t slot) const {
    const Record& record = slots().record(slot);
    if (!OnDevice(slot) || !Has(record.copies, host_.id) ||
        record.children[IndexOf(host_.id)] > 0) {
      return std::nullopt;
    }
    if (lacking_[slot] > 0) return ChainOf(slot, slot);
    const std::uint32_t parent = engine_.store_->ParentOf(slot);
    if (parent == kNoSlot || lacking_[parent] == 0 || !slots().record(parent).clean_in(tier_.id) ||
        slots().record(parent).children[IndexOf(host_.id)] > 1) {
      return std::nullopt;
    }
    return ChainOf(slot, parent);
  }
  void FindSources() {
    for (std::uint32_t slot = 0; slot < lacking_.size(); ++slot) {
      if (const auto reclaim_server = AsSource(slot)) sources_.push_back(*reclaim_server);
    }
    std::make_heap(sources_.begin(), sources_.end(), Fuller);
  }
  static bool Fuller(const Chain& a, const Chain& b) { return a.IsFullerThan(b); }

  // Entries without a copy that continue an entry with one.
  void FindTakers(TimePoint now) {
    const TimePoint idle_since = now - *engine_.settings_.options.write_back_after;
    for (std::uint32_t slot = 0; slot < lacking_.size(); ++slot) {
      const Record& record = slots().record(slot);
      if (!OnDevice(slot) || record.clean_in(tier_.id) || !record.parent_declared()) continue;
      if (record.below != nullptr && record.below->transfer != nullptr) continue;
      if (engine_.store_->FactsOf(slot, tier_.id).last_use > idle_since) continue;
      std::uint32_t at = engine_.store_->ParentOf(slot);
      while (at != kNoSlot && !slots().record(at).clean_in(tier_.id)) {
        at = engine_.store_->ParentOf(at);
      }
      if (at != kNoSlot) takers_.push_back(ChainOf(slot, at));
    }
    // In a chain, the entry that is evicted first comes first.
    std::ranges::sort(takers_, [&](const Chain& a, const Chain& b) {
      if (a.open != b.open) return a.IsFullerThan(b);
      return lacking_[a.slot] < lacking_[b.slot];
    });
  }

  // Drops one copy to make room for the taker. False: no copy is of less use.
  bool TakeOne(const Chain& taker, TimePoint now) {
    const Why why{Action::kDrop, Reason::kRoom, engine_.OrderName(host_)};
    while (!sources_.empty()) {
      const Chain reclaim_server = sources_.front();
      if (reclaim_server.open == taker.open || !taker.IsFullerThan(reclaim_server)) return false;
      std::pop_heap(sources_.begin(), sources_.end(), Fuller);
      sources_.pop_back();
      // It may have been dropped already, for a copy that found no room.
      if (!AsSource(reclaim_server.slot) || !engine_.MayBeEvicted(host_, reclaim_server.slot))
        continue;
      const std::uint32_t parent = engine_.store_->ParentOf(reclaim_server.slot);
      if (!engine_.Drop(host_, reclaim_server.slot, why, now)) continue;
      // Its chain lacks one more now, and the entry before it may be the next to give.
      ++lacking_[reclaim_server.open];
      if (parent == kNoSlot) return true;
      if (parent != reclaim_server.open) ++lacking_[parent];
      if (const auto next = AsSource(parent)) {
        sources_.push_back(*next);
        std::push_heap(sources_.begin(), sources_.end(), Fuller);
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
  std::vector<Chain> sources_;  // A heap; first the one that lacks most.
};

// The last free part of a tier may be fragmented and of no use.
bool Engine::IsNearlyFull(const TierState& tier) const {
  return Lacking(tier, capacity(tier.id) / 32) > 0;
}

void Engine::CompleteChains(TierState& tier, TimePoint now) {
  if (tier.last() || tier.below->id != TierId::kHost || now < tier.no_close_until) return;
  tier.no_close_until = now + kLater;
  if (DirtyBytes(tier) == 0) return;
  if (!IsNearlyFull(*tier.below)) return;  // Chains are copied down as they come.
  try {
    Closing closing(this, &tier);
    if (closing.Tick() && closing.Rebalance(now)) {
      tier.no_close_until = now + std::max(kSoon, closing.looks() * kForOneLook);
    }
  } catch (const std::bad_alloc&) {
    return;  // Without memory to look with, nothing is lost.
  }
}

}  // namespace spillway
