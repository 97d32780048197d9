// Prefetch ahead of the step: what a graph wants soon comes up before it is
// asked for, whole chains, the root first. It takes free memory, that of the
// dead, and that of backed entries the graph itself wants later; never that of
// an entry of whom nothing is known, and nothing without a copy below. What it
// brings is counted until it is read, or goes unread.
#include <algorithm>
#include <new>
#include <utility>

#include "base/room_for_one.h"
#include "base/times.h"
#include "cache/engine.h"

namespace spillway {

namespace {
constexpr std::size_t kInFlightMax = 4;
// Less likely ones come only into memory that is free.
constexpr double kLikely = 0.2;
// What takes long to load begins so much earlier than it must.
constexpr double kLoadTimes = 1.5;
constexpr double kLoadSlackS = 0.05;
// How many are looked at to make room for one, and how many of them in a row may
// be of no use.
constexpr std::size_t kTakenMax = 256;
constexpr int kLooksMax = 16;

}  // namespace

double Engine::EtaOf(const Outlook& outlook, TimePoint now) {
  return std::max(outlook.eta_s - InSeconds(now - outlook.as_of), 0.0);
}

bool Engine::IsSoon(const Outlook& outlook, TimePoint now) const {
  if (!outlook.wanted()) return false;
  if (outlook.steps <= settings_.options.prefetch_steps) return true;
  if (up_rate_ <= 0) return false;
  const double load = static_cast<double>(outlook.bytes) / up_rate_;
  return EtaOf(outlook, now) <= kLoadTimes * load + kLoadSlackS;
}

// Where a step reads it in place: on a GPU, or else in any memory.
bool Engine::IsUp(std::uint32_t slot) const {
  const bool gpu = store_->on_gpu();
  return store_->DataIn(slot, gpu ? std::optional(Place::kDevice) : std::nullopt) != nullptr;
}

void Engine::NoteSoon(const Outlook& outlook, TimePoint now) {
  if (single() || settings_.options.prefetch_steps == 0) return;
  if (IsUp(outlook.id.slot) || !IsSoon(outlook, now)) return;
  if (soon_.size() >= soon_.capacity()) return;  // Reserved when a graph came.
  if (std::ranges::find(soon_, outlook.id) == soon_.end()) soon_.push_back(outlook.id);
}

void Engine::PrefetchAhead(TimePoint now) {
  if (graph_ == nullptr || single() || closed_ || now < ahead_rests_until_) return;
  try {
    TryPrefetchAhead(now);
  } catch (const std::bad_alloc&) {
    // Another time.
  }
}

void Engine::TryPrefetchAhead(TimePoint now) {
  SettleAhead();
  for (Move* transfer : transfers_) {
    // Nobody wants it any more: its run has ended, or another branch was taken.
    if (!ahead_.contains(transfer->id.slot) || transfer->waiters != nullptr) continue;
    const Outlook* const outlook = outlooks_.Find(transfer->id);
    const bool wanted = outlook != nullptr && outlook->wanted();
    if (wanted) continue;
    transfer->cancelled.store(true, std::memory_order_relaxed);
  }
  std::erase_if(soon_, [&](EntryId id) {
    const Outlook* const outlook = outlooks_.Find(id);
    return outlook == nullptr || !store_->IsLive(id) || IsUp(id.slot) || !IsSoon(*outlook, now);
  });
  if (!outlooks_.in_force || level(top_->id) >= Level::kCritical || soon_.empty()) return;
  std::ranges::sort(soon_, [&](EntryId a, EntryId b) {
    const Outlook& of_a = *outlooks_.Find(a);
    const Outlook& of_b = *outlooks_.Find(b);
    if (of_a.steps != of_b.steps) return of_a.steps < of_b.steps;
    if (of_a.p != of_b.p) return of_a.p > of_b.p;
    if (of_a.bytes != of_b.bytes) return of_a.bytes < of_b.bytes;
    return a.slot < b.slot;
  });
  no_room_ = {};
  // Who runs reads its own at once: for that there must be room first.
  kept_for_running_ = 0;
  for (const EntryId id : soon_) {
    const Outlook& outlook = *outlooks_.Find(id);
    if (outlook.kind == Outlook::Kind::kRunning) kept_for_running_ += outlook.bytes;
  }
  for (const EntryId id : soon_) {
    if (outlooks_.Find(id)->kind == Outlook::Kind::kRunning) continue;
    if (!BringChain(id.slot, now)) return;
  }
}

// False: the link is busy enough.
bool Engine::BringChain(std::uint32_t slot, TimePoint now) {
  const Outlook& outlook = *outlooks_.Find(store_->IdOf(slot));
  std::vector<std::uint32_t> chain;
  for (std::uint32_t up = slot; up != kNoSlot; up = store_->ParentOf(up)) {
    if (!IsUp(up)) chain.push_back(up);
  }
  for (auto next = chain.rbegin(); next != chain.rend(); ++next) {
    const Below* const below = store_->slots().record(*next).below;
    if (below != nullptr && below->transfer != nullptr) continue;
    std::size_t in_flight = 0;
    Bytes bytes = store_->slots().slot(*next).size;
    for (const Move* transfer : transfers_) {
      if (transfer->to >= transfer->from || transfer->priority != Priority::kPrefetch) continue;
      ++in_flight;
      bytes += transfer->bytes;
    }
    // What can't arrive in time is not begun, but for the first.
    const bool in_time =
        up_rate_ <= 0 || static_cast<double>(bytes) / up_rate_ <= EtaOf(outlook, now);
    if (in_flight >= kInFlightMax || (in_flight > 0 && !in_time)) return false;
    if (!BringAhead(*next, outlook, now)) return true;
  }
  return true;
}

// False: there is no room for it.
bool Engine::BringAhead(std::uint32_t slot, const Outlook& outlook, TimePoint now) {
  const bool to_device =
      store_->on_gpu() && Has(store_->slots().record(slot).copies, TierId::kHost);
  const TierId id = to_device                             ? TierId::kDevice
                    : Has(store_->tiers(), TierId::kHost) ? TierId::kHost
                                                          : TierId::kDevice;
  TierState& tier = state(id);
  const Bytes size = store_->slots().slot(slot).size;
  if (level(id) >= Level::kCritical || tier.gone || size > GrowthLimit(tier)) return false;
  if (const Bytes lacking = Lacking(tier, size + kept_for_running_); lacking > 0) {
    if (outlook.p < kLikely || !DropLater(tier, outlook, lacking, now)) return false;
  }
  ahead_[slot] = {};  // Room in the table first.
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

// Room in a tier for what is wanted at `outlook`: all of `bytes`, or nobody goes.
bool Engine::DropLater(TierState& tier, const Outlook& outlook, Bytes bytes, TimePoint now) {
  if (tier.last()) return false;
  const double rate = outlook.conf * outlook.p / (EtaOf(outlook, now) + 1);
  // A look takes a while; who was found too little for is told at once, and so are
  // those who are wanted no sooner and need no less.
  std::optional<NoRoom>& no_room = no_room_[IndexOf(tier.id)];
  if (no_room && bytes >= no_room->bytes && outlook.steps >= no_room->steps &&
      rate <= no_room->rate) {
    return false;
  }
  const auto later = [&](EntryId id) {
    const Outlook* const other = outlooks_.Find(id);
    if (other == nullptr || ahead_.contains(id.slot)) return false;
    if (!other->wanted()) return true;
    return other->kind == Outlook::Kind::kWanted && other->steps > outlook.steps &&
           RateOf(*other, store_->FactsOf(id.slot, tier.id), now) < rate;
  };
  std::vector<EntryId> taken;
  std::vector<EntryId> going;
  taken.reserve(kTakenMax);
  going.reserve(kTakenMax);
  Bytes found = 0;
  for (int looks = 0; looks < kLooksMax && found < bytes && taken.size() < kTakenMax; ++looks) {
    const std::optional<EntryId> next = tier.backed->Next(level(tier.id));
    if (!next) break;
    taken.push_back(*next);
    if (!later(*next) || !MayGo(tier, next->slot)) continue;
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
  if (!enough) no_room = NoRoom{bytes, outlook.steps, rate};
  return enough;
}

// --- what came of it ---

void Engine::SettleAhead() {
  std::erase_if(ahead_, [&](const auto& each) {
    const Ahead& ahead = each.second;
    if (!store_->IsLive(ahead.id)) return true;
    const auto word = store_->slots().slot(each.first).word.Load();
    if (!ahead.arrived || LeaseWord::AcquiresOf(word) == ahead.uses_then) return false;
    counts_.ahead_useful += ahead.bytes;
    return true;
  });
}

// Somebody asked for it while it was on its way.
void Engine::AheadIsLate(std::uint32_t slot) {
  const auto found = ahead_.find(slot);
  if (found == ahead_.end()) return;
  counts_.ahead_late += found->second.bytes;
  ahead_.erase(found);
}

// It has arrived, or not; it is up no longer.
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
