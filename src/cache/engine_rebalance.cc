// SPDX-License-Identifier: Apache-2.0
// Trading places in the host tier: when it is full, a copy of an entry that stays on
// the device for long makes way for a copy of one that is evicted from the device
// sooner. Nothing is destroyed; what changes is which bytes can be given back at once.
//
// Without this, the entries copied down first would keep their places for good: once
// they are used again, others are idle and have no copy. What a new dirty entry at the
// end of a chain does is in engine_close.cc.
#include <algorithm>
#include <array>
#include <span>

#include "cache/engine.h"

namespace spillway {

namespace {
// Slots examined for one trade: more for a larger copy, and most if otherwise an entry
// would be destroyed.
std::uint32_t LooksFor(Bytes bytes, bool urgent) {
  if (urgent) return 4096;
  return static_cast<std::uint32_t>(std::clamp<Bytes>(bytes / (8 * kKiB), 64, 1024));
}
// Slots examined for ends of chains, per call.
constexpr std::uint32_t kEndsLooks = 8192;
// The pause after an unsuccessful look.
constexpr Duration kRest = std::chrono::milliseconds(50);
constexpr Duration kShortRest = std::chrono::milliseconds(2);
}  // namespace

// Whether `other`, which is in both tiers, is evicted from the upper one later than
// `slot`. For a copy made only for safety the difference must be large enough that the
// trade is not undone the next moment.
bool Engine::IsEvictedLater(const TierState& from, std::uint32_t other, std::uint32_t slot,
                            bool urgent, TimePoint now) const {
  const Facts theirs = store_->FactsOf(other, from.id);
  const Facts own = store_->FactsOf(slot, from.id);
  // Children are evicted before parents.
  const bool parent = store_->slots().record(other).children[IndexOf(from.id)] > 0 &&
                      store_->slots().record(slot).children[IndexOf(from.id)] == 0;
  if (urgent && parent) return true;  // It can't be evicted now; it may be copied down later.
  const Duration margin = settings_.options.write_back_after.value_or(Duration::zero());
  const Duration own_idle = now - own.last_use;
  const Duration their_idle = now - theirs.last_use;
  const bool for_long = their_idle < own_idle / 4 && own_idle - their_idle > margin;
  if (next_uses_.in_force || RanksByScore()) {
    // A score changes by itself as time passes, and would undo its own trades.
    if (!urgent && !next_uses_.in_force && !for_long) return false;
    const Level at = level(from.id);
    const EntryId own_id = store_->IdOf(slot);
    const EntryId other_id = store_->IdOf(other);
    if (from.dirty->Before(at, own_id, own, other_id, theirs)) return true;
    return urgent && parent && !from.dirty->Before(at, other_id, theirs, own_id, own);
  }
  return for_long || (urgent && theirs.last_use >= own.last_use);
}

// Whether the host's copy of `other` may make way for one of `slot`, once `children` of
// the entries that continue it there have been dropped.
bool Engine::MayRebalanceBackups(const TierState& host, std::uint32_t other, std::uint32_t slot,
                                 std::uint32_t children, bool urgent, TimePoint now) const {
  const TierState& from = *Above(host);
  const TierMask both = static_cast<TierMask>(MaskOf(host.id) | MaskOf(from.id));
  const Record& record = store_->slots().record(other);
  if (other == slot || (record.copies & both) != both) return false;
  if (record.children[IndexOf(host.id)] > children) return false;  // They must be dropped first.
  const std::uint64_t word = store_->slots().slot(other).word.Load();
  if (LeaseWord::StateOf(word) != SlotState::kVisible || !MayBeEvicted(host, other)) return false;
  return IsEvictedLater(from, other, slot, urgent, now);
}

// The end of a chain and the entries before it, until one is as large as `slot`. Empty:
// there is none so large, or not all of them may be dropped.
std::span<const std::uint32_t> Engine::EndOfChain(const TierState& host, std::uint32_t end,
                                                  std::uint32_t slot, bool urgent, TimePoint now,
                                                  std::array<std::uint32_t, 4>* ends) const {
  const Bytes size = store_->slots().slot(slot).size;
  std::uint32_t at = end;
  for (std::size_t count = 0; count < ends->size(); ++count) {
    if (at == kNoSlot || !MayRebalanceBackups(host, at, slot, count == 0 ? 0 : 1, urgent, now))
      return {};
    (*ends)[count] = at;
    if (store_->slots().slot(at).size >= size) return std::span(*ends).first(count + 1);
    at = store_->ParentOf(at);
  }
  return {};
}

// True: a copy at least as large was dropped from the host tier for `slot`.
bool Engine::RebalanceBackups(TierState& host, std::uint32_t slot, Priority priority,
                              TimePoint now) {
  TierState* const from = Above(host);
  const bool urgent = !IsBackground(priority);
  TimePoint& not_until = urgent ? host.no_urgent_rebalance_until : host.no_rebalance_until;
  if (host.id != TierId::kHost || from == nullptr || now < not_until) return false;
  // If memory is wanted now, its children are copied first.
  if (urgent && store_->slots().record(slot).children[IndexOf(from->id)] > 0) return false;
  const std::uint32_t all = store_->slots().high_water();
  const Bytes size = store_->slots().slot(slot).size;
  const std::uint32_t parent = store_->ParentOf(slot);
  const Why why{Action::kDrop, Reason::kRoom, OrderName(host)};
  std::array<std::uint32_t, 4> ends{};
  bool parent_would = false;
  for (std::uint32_t looks = std::min(all, LooksFor(size, urgent)); looks > 0; --looks) {
    const std::uint32_t at = host.rebalance_cursor >= all ? 0 : host.rebalance_cursor;
    host.rebalance_cursor = at + 1;
    if (store_->slots().record(at).children[IndexOf(host.id)] > 0) continue;
    const std::span<const std::uint32_t> going = EndOfChain(host, at, slot, urgent, now, &ends);
    if (going.empty()) continue;
    if (going.back() == parent) {
      parent_would = going.size() == 1;  // It would be the next that wants its copy back.
      continue;
    }
    // The entry before them is the next that makes way.
    if (const std::uint32_t next = store_->ParentOf(going.back()); next != kNoSlot) {
      host.rebalance_cursor = next;
    }
    bool gone = true;
    for (const std::uint32_t one : going) gone = gone && Drop(host, one, why, now);
    if (gone) return true;
  }
  if (parent_would && Drop(host, parent, why, now)) return true;
  not_until = now + (urgent ? kShortRest : kRest);
  return false;
}

// Whether an entry not far before it in its chain is clean.
bool Engine::KeepsOthers(const TierState& tier, std::uint32_t slot) const {
  constexpr int kFar = 16;
  std::uint32_t at = store_->ParentOf(slot);
  for (int steps = 0; at != kNoSlot && steps < kFar; ++steps) {
    const Record& record = store_->slots().record(at);
    if (record.clean_in(tier.id)) return Has(record.copies, tier.id);
    at = store_->ParentOf(at);
  }
  return false;
}

// Dirty ends of chains that are clean otherwise: without a copy each keeps its chain on
// the card, and memory is wanted now.
void Engine::BackupTails(TierState& tier, Reason reason, TimePoint now) {
  if (tier.last() || tier.below->id != TierId::kHost) return;
  const std::uint32_t all = store_->slots().high_water();
  const Why why{Action::kDemote, reason, OrderName(tier)};
  for (std::uint32_t looks = std::min(all, kEndsLooks); looks > 0; --looks) {
    const std::uint32_t at = tier.ends_hand >= all ? 0 : tier.ends_hand;
    tier.ends_hand = at + 1;
    if (!IsEnd(tier, at) || !KeepsOthers(tier, at)) continue;
    if (SendDown(tier, at, why, Priority::kGiveBack, reason == Reason::kReserve, now) ==
        Going::kFull) {
      break;
    }
  }
}

bool Engine::IsEnd(const TierState& tier, std::uint32_t slot) const {
  const Record& record = store_->slots().record(slot);
  if (!Has(record.copies, tier.id) || record.clean_in(tier.id)) return false;
  if (LeaseWord::StateOf(store_->slots().slot(slot).word.Load()) != SlotState::kVisible) {
    return false;
  }
  if (record.below != nullptr && record.below->transfer != nullptr) return false;
  const std::uint32_t below = record.children[IndexOf(tier.below->id)];
  return record.parent_declared() && record.children[IndexOf(tier.id)] <= below;
}

}  // namespace spillway
