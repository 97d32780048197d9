// SPDX-License-Identifier: Apache-2.0
// Prefetch ahead of the step: entries that a graph wants soon are brought up before
// they are asked for, whole chains, the root first. Their room comes from free memory,
// from entries the graph has retired, and from clean entries that the graph itself
// wants later; never from an entry of which the graph knows nothing, nor from one
// without a copy below. Prefetched bytes are counted as useful, late or wasted.
#include <algorithm>
#include <new>
#include <ranges>
#include <utility>

#include "base/reserve_one.h"
#include "base/times.h"
#include "cache/engine.h"

namespace spillway {

namespace {
constexpr std::size_t kInFlightMax = 4;
// Entries less likely to be used are brought up into free memory only.
constexpr double kLikely = 0.2;
// A load begins this much earlier than its measured duration asks for.
constexpr double kLoadTimes = 1.5;
constexpr double kLoadSlackS = 0.05;
// How many entries are examined to make room for one, and how many of them in a row may
// be unsuitable.
constexpr std::size_t kTakenMax = 256;
constexpr int kLooksMax = 16;

}  // namespace

// Seconds until the predicted use, from now.
double Engine::EtaOf(const NextUse& next_use, TimePoint now) {
  return std::max(next_use.eta_s - InSeconds(now - next_use.as_of), 0.0);
}

// Within the setting's number of steps, or so soon that loading must begin now.
bool Engine::IsSoon(const NextUse& next_use, TimePoint now) const {
  if (!next_use.wanted()) return false;
  if (next_use.steps <= settings_.options.prefetch_steps) return true;
  if (up_rate_ <= 0) return false;
  const double load = static_cast<double>(next_use.bytes) / up_rate_;
  return EtaOf(next_use, now) <= kLoadTimes * load + kLoadSlackS;
}

// Whether a step can read it in place: on a GPU, or otherwise in any memory.
bool Engine::IsUp(std::uint32_t slot) const {
  const bool gpu = store_->on_gpu();
  return store_->DataIn(slot, gpu ? std::optional(Place::kDevice) : std::nullopt) != nullptr;
}

void Engine::NoteSoon(const NextUse& next_use, TimePoint now) {
  if (single() || settings_.options.prefetch_steps == 0) return;
  if (IsUp(next_use.id.slot) || !IsSoon(next_use, now)) return;
  if (soon_.size() >= soon_.capacity()) return;  // Reserved by Attach.
  if (std::ranges::find(soon_, next_use.id) == soon_.end()) soon_.push_back(next_use.id);
}

void Engine::PrefetchAhead(TimePoint now) {
  if (graph_ == nullptr || single() || closed_ || now < ahead_rests_until_) return;
  try {
    TryPrefetchAhead(now);
  } catch (const std::bad_alloc&) {
    // The next call tries again.
  }
}

void Engine::TryPrefetchAhead(TimePoint now) {
  CancelPrefetchOf();
  for (Transfer* transfer : transfers_) {
    // The graph does not want it any more: its run has ended, or took another branch.
    if (!ahead_.contains(transfer->id.slot) || transfer->pending_gets != nullptr) continue;
    const NextUse* const next_use = next_uses_.Find(transfer->id);
    const bool wanted = next_use != nullptr && next_use->wanted();
    if (wanted) continue;
    transfer->cancelled.store(true, std::memory_order_relaxed);
  }
  std::erase_if(soon_, [&](EntryId id) {
    const NextUse* const next_use = next_uses_.Find(id);
    return next_use == nullptr || !store_->IsLive(id) || IsUp(id.slot) || !IsSoon(*next_use, now);
  });
  if (!next_uses_.in_force || LevelForGrowth(*top_) >= Level::kCritical || soon_.empty()) return;
  std::ranges::sort(soon_, [&](EntryId a, EntryId b) {
    const NextUse& of_a = *next_uses_.Find(a);
    const NextUse& of_b = *next_uses_.Find(b);
    if (of_a.steps != of_b.steps) return of_a.steps < of_b.steps;
    if (of_a.p != of_b.p) return of_a.p > of_b.p;
    if (of_a.bytes != of_b.bytes) return of_a.bytes < of_b.bytes;
    return a.slot < b.slot;
  });
  no_room_ = {};
  // A running step reads its own entries at once: keep room for them first.
  kept_for_running_ = 0;
  for (const EntryId id : soon_) {
    const NextUse& next_use = *next_uses_.Find(id);
    if (next_use.kind == NextUse::Kind::kRunning) kept_for_running_ += next_use.bytes;
  }
  for (const EntryId id : soon_) {
    if (next_uses_.Find(id)->kind == NextUse::Kind::kRunning) continue;
    if (!BringChain(id.slot, now)) return;
  }
}

// False: enough transfers are in flight.
bool Engine::BringChain(std::uint32_t slot, TimePoint now) {
  const NextUse& next_use = *next_uses_.Find(store_->IdOf(slot));
  std::vector<std::uint32_t> chain;
  for (std::uint32_t up = slot; up != kNoSlot; up = store_->ParentOf(up)) {
    if (!IsUp(up)) chain.push_back(up);
  }
  for (const std::uint32_t next : std::views::reverse(chain)) {
    const LowerCopies* const below = store_->slots().record(next).below;
    if (below != nullptr && below->transfer != nullptr) continue;
    std::size_t in_flight = 0;
    Bytes bytes = store_->slots().slot(next).size;
    for (const Transfer* transfer : transfers_) {
      if (transfer->to >= transfer->from || transfer->priority != Priority::kPrefetch) continue;
      ++in_flight;
      bytes += transfer->bytes;
    }
    // A load that can't arrive in time is not begun, except the first.
    const bool in_time =
        up_rate_ <= 0 || static_cast<double>(bytes) / up_rate_ <= EtaOf(next_use, now);
    if (in_flight >= kInFlightMax || (in_flight > 0 && !in_time)) return false;
    if (!BringAhead(next, next_use, now)) return true;
  }
  return true;
}

// False: there is no room for it.
bool Engine::BringAhead(std::uint32_t slot, const NextUse& next_use, TimePoint now) {
  const bool to_device =
      store_->on_gpu() && Has(store_->slots().record(slot).copies, TierId::kHost);
  const TierId id = to_device                             ? TierId::kDevice
                    : Has(store_->tiers(), TierId::kHost) ? TierId::kHost
                                                          : TierId::kDevice;
  TierState& tier = state(id);
  const Bytes size = store_->slots().slot(slot).size;
  if (LevelForGrowth(tier) >= Level::kCritical || tier.gone || size > GrowthLimit(tier))
    return false;
  if (const Bytes lacking = Lacking(tier, size + kept_for_running_); lacking > 0) {
    if (next_use.p < kLikely || !DropAfterwards(tier, next_use, lacking, now)) return false;
  }
  ahead_[slot] = {};  // Allocates, before the transfer starts.
  const bool going = to_device ? BringToDevice(slot, Priority::kPrefetch, now)
                               : BringUp(slot, Priority::kPrefetch, false, now).has_value();
  if (!going) {
    ahead_.erase(slot);
    return false;
  }
  ++counts_.prefetched;
  counts_.ahead += size;
  ahead_[slot] = {store_->IdOf(slot), size,
                  LeaseWord::AcquiresOf(store_->slots().slot(slot).word.Load()), false};
  return true;
}

// Makes room in a tier for an entry with this next use: drops all of `bytes`, or
// nothing.
bool Engine::DropAfterwards(TierState& tier, const NextUse& next_use, Bytes bytes, TimePoint now) {
  if (tier.last()) return false;
  const double rate = next_use.conf * next_use.p / (EtaOf(next_use, now) + 1);
  // Cache failed prefetch reservations within one scan: a scan is slow, and would fail
  // again for an entry that is wanted no sooner and needs no less.
  std::optional<NoRoom>& no_room = no_room_[IndexOf(tier.id)];
  if (no_room && bytes >= no_room->bytes && next_use.steps >= no_room->steps &&
      rate <= no_room->rate) {
    return false;
  }
  const auto later = [&](EntryId id) {
    const NextUse* const other = next_uses_.Find(id);
    if (other == nullptr || ahead_.contains(id.slot)) return false;
    if (!other->wanted()) return true;
    return other->kind == NextUse::Kind::kWanted && other->steps > next_use.steps &&
           RateOf(*other, store_->FactsOf(id.slot, tier.id), now) < rate;
  };
  std::vector<EntryId> taken;
  std::vector<EntryId> going;
  taken.reserve(kTakenMax);
  going.reserve(kTakenMax);
  Bytes found = 0;
  for (int looks = 0; looks < kLooksMax && found < bytes && taken.size() < kTakenMax; ++looks) {
    const std::optional<EntryId> next = tier.clean->Next(level(tier.id));
    if (!next) break;
    taken.push_back(*next);
    if (!later(*next) || !MayBeEvicted(tier, next->slot)) continue;
    going.push_back(*next);
    found += store_->slots().slot(next->slot).size;
    looks = 0;
  }
  const Why why{Action::kDrop, Reason::kRoom, OrderName(tier)};
  const Bytes before = store_->bytes(tier.id);
  if (found >= bytes) {
    for (const EntryId id : going) Drop(tier, id.slot, why, now);
  }
  for (const EntryId id : taken) {
    if (store_->IsLive(id)) Enter(id.slot);
  }
  const bool enough = before - std::min(before, store_->bytes(tier.id)) >= bytes;
  if (!enough) no_room = NoRoom{bytes, next_use.steps, rate};
  return enough;
}

// --- what came of it ---

// A prefetched entry that was read since it arrived was useful.
void Engine::CancelPrefetchOf() {
  std::erase_if(ahead_, [&](const auto& each) {
    const Ahead& ahead = each.second;
    if (!store_->IsLive(ahead.id)) return true;
    const auto word = store_->slots().slot(each.first).word.Load();
    if (!ahead.arrived || LeaseWord::AcquiresOf(word) == ahead.uses_then) return false;
    counts_.ahead_useful += ahead.bytes;
    return true;
  });
}

// A get asked for it while it was in flight.
void Engine::AheadIsLate(std::uint32_t slot) {
  const auto found = ahead_.find(slot);
  if (found == ahead_.end()) return;
  counts_.ahead_late += found->second.bytes;
  ahead_.erase(found);
}

// The transfer has ended, with or without success.
void Engine::AheadArrived(std::uint32_t slot, bool arrived) {
  const auto found = ahead_.find(slot);
  if (found == ahead_.end()) return;
  found->second.arrived = arrived;
  if (!arrived) AheadGone(slot);
}

void Engine::AheadGone(std::uint32_t slot) {
  const auto found = ahead_.find(slot);
  if (found == ahead_.end()) return;
  const auto word = store_->slots().slot(slot).word.Load();
  const bool used = LeaseWord::AcquiresOf(word) != found->second.uses_then;
  (used ? counts_.ahead_useful : counts_.ahead_wasted) += found->second.bytes;
  ahead_.erase(found);
}

}  // namespace spillway
