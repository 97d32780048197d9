// SPDX-License-Identifier: Apache-2.0
// Making room for a set: bytes, tokens, names and slots. It is planned before anything
// is evicted, so that a set that must be refused evicts nothing. And sets that wait
// while room is made below.
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "base/reserve_one.h"
#include "cache/engine.h"

namespace spillway {

// What is lacking. A victim takes its share off each.
struct Engine::Need {
  Bytes bytes = 0;
  Tokens tokens = 0;
  Bytes names = 0;
  std::uint64_t slots = 0;

  bool any() const { return bytes > 0 || tokens > 0 || names > 0 || slots > 0; }
  Reason reason() const {
    return bytes == 0 && names == 0 && slots == 0 ? Reason::kBudget : Reason::kRoom;
  }
  bool HelpedBy(Bytes b, Tokens t, Bytes n) const {
    return (bytes > 0 && b > 0) || (tokens > 0 && t > 0) || (names > 0 && n > 0) || slots > 0;
  }
  void Less(Bytes b, Tokens t, Bytes n) {
    bytes -= std::min(bytes, b);
    tokens -= std::min(tokens, t);
    names -= std::min(names, n);
    slots -= std::min<std::uint64_t>(slots, 1);
  }
};

namespace {

NewEntry WithOldFirst(NewEntry entry) {
  entry.old_goes_last = false;
  return entry;
}

Bytes NamesOf(const Store& store, std::uint32_t slot) {
  const Slot& where = store.slots().slot(slot);
  const Extra* extra = store.slots().record(slot).extra;
  Bytes bytes = where.key_bytes() > kInlineKeyBytes ? where.key_bytes() : 0;
  if (extra != nullptr) bytes += sizeof(Extra) + extra->agent.size() + extra->meta.size();
  return bytes;
}

}  // namespace

// --- admission ---

// Refuses in this order: every tier in EMERGENCY; other sets waiting already; no
// tokens, names or slots; no tier with room.
Result<std::uint32_t> Engine::Admit(const NewEntry& entry, TimePoint now, bool* soon) {
  if (pending_cancelled_) soon = nullptr;  // The cache is closing: no set waits.
  replaced_for_room_ = old_was_in_way_ = false;
  SyncGraph(now);
  const ProtectedParent protected_parent(this, entry);
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) CheckSampleAge(*tier, now);
  if (is_blocked() && !MutantOn(Mutant::kEmergencyAdmits)) {
    ++refused_blocked_;
    if (MutantOn(Mutant::kFailedSetErasesOld)) Erase(entry.hash, entry.key, now);
    return WhyBlocked(fmt::format("set '{}'", Printable(entry.key))).error();
  }
  if (soon != nullptr && pending_sets_ != nullptr && !waking_) {
    *soon = true;
    return Error{Code::kBusy, fmt::format("set '{}': other sets are already waiting for room",
                                          Printable(entry.key))};
  }
  const std::uint32_t old = entry.absent ? kNoSlot : store_->index().Lookup(entry.hash, entry.key);
  const bool is_kept = entry.old_stays || (entry.old_goes_last && single());
  const Staying staying(this, is_kept ? old : kNoSlot);
  Status room = MakeRoom(entry, old, now);
  if (!room && entry.old_goes_last && old != kNoSlot) {
    // There may be room if its parent goes, too, which has to come behind it.
    NothingStays();
    room = MakeRoom(WithOldFirst(entry), old, now);
  }
  if (!room) {
    ++(room.error().code == Code::kOverBudget ? refused_budget_ : refused_blocked_);
    if (MutantOn(Mutant::kFailedSetErasesOld)) Erase(entry.hash, entry.key, now);
    return room.error();
  }
  Result<std::uint32_t> slot = std::uint32_t{kNoSlot};
  if (single()) {
    // If nothing can make room, the reserve is used; memory granted to a neighbour is
    // not.
    if (!KeepReserve(*top_, entry, now) && top_->reservations.left() > 0) {
      ++refused_blocked_;
      return Error{
          Code::kBlocked,
          fmt::format("set '{}': nothing more may be evicted from the {} tier{}",
                      Printable(entry.key), store_->name(top_->id), ReservedForPeers(*top_))};
    }
    slot = PlaceIn(*top_, entry, now);
    if (!slot) ++refused_other_;
  } else {
    bool later = false;
    slot = PlaceSomewhere(entry, now, &later);
    if (soon != nullptr) *soon = !slot && later;
    if (!slot && !(later && soon != nullptr)) {
      ++(slot.error().code == Code::kBlocked ? refused_blocked_ : refused_other_);
    }
  }
  if (slot && MutantOn(Mutant::kVisibleBeforeCommit)) {
    if (store_->index().Lookup(entry.hash, entry.key) == kNoSlot) {
      store_->slots().slot(*slot).word.Publish(1);
      store_->index().Link(*slot);
    }
  }
  return slot;
}

Status Engine::Describe(std::uint32_t reservation, const SetOptions& options, TimePoint now) {
  const Slot& slot = store_->slots().slot(reservation);
  if (Status good = Check(slot.key(), slot.size, options); !good) return good;
  const Record& record = store_->slots().record(reservation);
  const bool says_nothing = options.tokens == 0 && options.agent.empty() && options.meta.empty() &&
                            options.parent.empty() && options.idle_ttl != slot.no_idle_ttl;
  const bool was_told_nothing =
      record.tokens == 0 && record.extra == nullptr && !record.parent_declared();
  if (says_nothing && was_told_nothing) return {};
  store_->Describe(reservation, {});  // So that nothing is counted twice.
  NewEntry entry{slot.key(), slot.hash.load(std::memory_order_relaxed), slot.size, options};
  entry.reserved = true;
  const std::uint32_t old = store_->index().Lookup(entry.hash, entry.key);
  if (Status room = MakeRoom(entry, old, now); !room) {
    ++(room.error().code == Code::kOverBudget ? refused_budget_ : refused_blocked_);
    return room;
  }
  store_->Describe(reservation, options);
  return {};
}

// From the top down, into the first tier with room now. If there is none, starts to
// make room.
Result<std::uint32_t> Engine::PlaceSomewhere(const NewEntry& entry, TimePoint now, bool* later) {
  std::string why;
  const auto no = [&](const TierState& tier, std::string_view reason) {
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", store_->name(tier.id), reason);
  };
  // Bytes enter where they are: bytes on the host do not go up to a GPU first.
  const bool below_gpu = store_->on_gpu() && entry.place == Place::kHost;
  std::array<TierState*, kTiers + 1> tries{};
  std::size_t count = 0;
  for (TierState* tier = below_gpu ? top_->below : top_; tier != nullptr; tier = tier->below) {
    tries[count++] = tier;
  }
  bool passed_over = false;
  for (std::size_t at = 0; at < count; ++at) {
    TierState* const tier = tries[at];
    if (tier->blocked()) {
      no(*tier, "in emergency");
      continue;
    }
    if (tier->id == TierId::kDisk) {
      // Directly to disk only if memory can't take the entry at all, or not soon.
      if (*later) continue;
      if (store_->disk()->health() != BlobStore::Health::kGood) {
        // A disk that is still being read in takes it when that is done.
        *later = loading_ && entry.bytes <= store_->capacity(tier->id);
        no(*tier, store_->disk()->why());
        continue;
      }
    }
    if (tier->last() && tier->estimator.unknown() &&
        store_->bytes(tier->id) + entry.bytes > GrowthLimit(*tier)) {
      no(*tier, "its pressure is unknown, and it does not grow until it is known");
      continue;
    }
    if (entry.bytes > GrowthLimit(*tier)) {
      no(*tier, fmt::format("takes at most {} bytes", GrowthLimit(*tier)));
      continue;
    }
    const Bytes lacking = Excess(store_->bytes(tier->id) + entry.bytes, GrowthLimit(*tier));
    if (lacking > 0 && !passed_over && scores_ != nullptr && BelongsBelow(*tier, entry, now)) {
      passed_over = true;
      tries[count++] = tier;  // Tried last: no set is refused because of the score.
      continue;
    }
    const Why room{Action::kDrop, Reason::kRoom, OrderName(*tier)};
    const bool fits = DropForRoom(*tier, lacking, room, now) && KeepReserve(*tier, entry, now);
    if (fits) {
      Result<std::uint32_t> slot = PlaceIn(*tier, entry, now);
      if (slot) {
        StayUnderLimit(*tier, entry, now);
        return slot;
      }
      no(*tier, slot.error().message);
      if (slot.error().code != Code::kNoMemory) continue;
    } else {
      no(*tier, fmt::format("{} of {} bytes used, and nothing more may be evicted at once{}",
                            store_->bytes(tier->id), GrowthLimit(*tier), ReservedForPeers(*tier)));
    }
    *later = SendSomeDown(*tier, std::max(lacking, entry.bytes), room, Priority::kGiveBack, now) ||
             *later;
  }
  return Error{Code::kBlocked, fmt::format("set '{}': {}", Printable(entry.key), why)};
}

// The old generation goes when nothing but it is in the way.
Result<std::uint32_t> Engine::ReserveIn(const TierState& tier, const NewEntry& entry,
                                        TimePoint now) {
  if (!goes_last_ || !store_->IsLive(*goes_last_)) return store_->Reserve(entry, tier.id, now);
  const std::uint32_t old = goes_last_->slot;
  const bool here = Has(store_->slots().record(old).copies, tier.id);
  if (tier.id != TierId::kDisk && !store_->memory(tier.id)->TakesInPlaceOf(
                                      here ? store_->BlockIn(old, tier.id) : nullptr,
                                      here ? store_->slots().slot(old).size : 0, entry.bytes)) {
    return Error{Code::kNoMemory,
                 fmt::format("set '{}': the {} tier does not take it in place of the old value",
                             Printable(entry.key), store_->name(tier.id))};
  }
  NothingStays();
  replaced_for_room_ = RemoveUnlessLeased(old, {Action::kDestroy, Reason::kReplaced, {}}, now);
  if (!replaced_for_room_) {  // A reader has just come.
    if (Status room = MakeRoom(WithOldFirst(entry), old, now); !room) return room.error();
  }
  return store_->Reserve(entry, tier.id, now);
}

Result<std::uint32_t> Engine::PlaceIn(TierState& tier, const NewEntry& entry, TimePoint now) {
  Result<std::uint32_t> slot = ReserveIn(tier, entry, now);
  // The card may be fuller than the account says (neighbours, slack in shared chunks).
  // Then more of our entries are evicted: each may free a chunk. That has an end: on a
  // card that others fill, emptying ours does not help.
  const Bytes have = store_->bytes(tier.id);
  const Bytes floor = have - std::min(have, 2 * entry.bytes + store_->capacity(tier.id) / 16);
  while (!slot && slot.error().code == Code::kNoMemory && store_->bytes(tier.id) > floor) {
    EvictionQueue& queue = tier.last() ? *tier.dirty : *tier.clean;
    ReserveOne(candidates_back_);
    std::optional<EntryId> next = NextByOrder(tier, queue);
    if (!next) break;
    const Action action = tier.last() ? Action::kDestroy : Action::kDrop;
    if (!DropOrRemove(tier, next->slot, {action, Reason::kRoom, OrderName(tier)}, now)) {
      candidates_back_.push_back(*next);
      continue;
    }
    slot = ReserveIn(tier, entry, now);
  }
  PutBack();
  return slot;
}

void Engine::PutBack() {
  for (EntryId id : candidates_back_) {
    if (store_->IsLive(id)) Enter(id.slot);
  }
  candidates_back_.clear();
}

// True: that many bytes have been freed in the tier. In the last tier it destroys last
// copies only in the eviction order.
bool Engine::DropForRoom(TierState& tier, Bytes lacking, const Why& why, TimePoint now) {
  const Bytes before = store_->bytes(tier.id);
  const auto enough = [&] { return before - store_->bytes(tier.id) >= lacking; };
  if (enough()) return true;
  if (!tier.last()) {
    DropCleanBytes(tier, lacking, why, now);
    return enough();
  }
  // Drops all that is lacking, or nothing: a set that must be refused evicts nothing.
  // For its parent a planned entry counts as removed.
  std::vector<EntryId> plan;
  Bytes found = 0;
  try {
    found = PlanDrops(tier, lacking, &plan);
  } catch (const std::bad_alloc&) {
    found = 0;
  }
  for (const EntryId id : plan) store_->Attach(id.slot, MaskOf(tier.id));
  for (const EntryId id : plan) {
    if (found < lacking || !DropOrRemove(tier, id.slot, why, now)) Enter(id.slot);
  }
  PutBack();
  return enough();
}

// Returns the bytes of the planned entries, which count as removed for their parents.
Bytes Engine::PlanDrops(TierState& tier, Bytes lacking, std::vector<EntryId>* plan) {
  Bytes found = 0;
  while (found < lacking) {
    ReserveOne(candidates_back_);
    ReserveOne(*plan);
    const std::optional<EntryId> next = NextByOrder(tier, *tier.dirty);
    if (!next) break;
    if (!MayBeEvicted(tier, next->slot)) {
      old_was_in_way_ = old_was_in_way_ || next->slot == stays_;
      candidates_back_.push_back(*next);
      continue;
    }
    plan->push_back(*next);
    found += store_->slots().slot(next->slot).size;
    const std::uint32_t parent = store_->Detach(next->slot, MaskOf(tier.id));
    if (parent != kNoSlot) Enter(parent);
  }
  return found;
}

// --- room for a set, planned ---

// While pressure is UNKNOWN the tier does not grow beyond what it held when that began.
Bytes Engine::GrowthLimit(const TierState& tier) const {
  const Bytes limit = capacity(tier.id);
  if (!tier.estimator.unknown() || limit == Tier::kUnlimited) return limit;
  if (MutantOn(Mutant::kUnknownGrows)) return limit;
  return std::min(limit, tier.unknown_ceiling);
}

// Makes room for tokens, names and slots. With a single tier also for bytes, because
// there evicting is destroying. With a tier below, room for bytes is made by dropping
// clean copies, tier by tier.
Status Engine::MakeRoom(const NewEntry& entry, std::uint32_t old, TimePoint now) {
  const Options& options = settings_.options;
  const EntryId old_id = old == kNoSlot ? EntryId{} : store_->IdOf(old);
  if (options.token_budget && entry.options.tokens > *options.token_budget) {
    return Error{Code::kOverBudget,
                 fmt::format("set '{}': {} tokens are more than the whole token budget of {}",
                             Printable(entry.key), entry.options.tokens, *options.token_budget)};
  }
  // A victim may be leased between plan and removal; then plan again.
  for (int attempt = 0; attempt < 8; ++attempt) {
    const bool old_live = old != kNoSlot && store_->IsLive(old_id);
    Need need;
    if (single() && !entry.reserved && !MutantOn(Mutant::kCapacityIgnored)) {
      need.bytes = Excess(store_->bytes() + entry.bytes, GrowthLimit(*top_));
    }
    if (options.token_budget) {
      const Tokens replaced = old_live ? Tokens{store_->slots().record(old).tokens} : 0;
      const Tokens reserved =
          MutantOn(Mutant::kBudgetForgetsReserved) ? 0 : store_->tokens_reserved();
      const Tokens after = store_->tokens() + reserved + entry.options.tokens - replaced;
      need.tokens = Excess(after, *options.token_budget);
    }
    need.names =
        Excess(store_->names_bytes() + Store::NamesBytesOf(entry), options.names_bytes_max);
    need.slots =
        Excess<std::uint64_t>(std::uint64_t{store_->slots().in_use()} + (entry.reserved ? 0 : 1),
                              store_->slots().capacity());
    goes_last_.reset();
    const bool room_lacks = need.bytes > 0 || need.names > 0 || need.slots > 0;
    if (entry.old_goes_last && old_live && room_lacks && store_->Leases(old) == 0) {
      goes_last_ = old_id;
      need.Less(store_->slots().slot(old).size, 0, NamesOf(*store_, old));
    }
    if (!need.any()) return {};

    const Need lacking = need;
    std::vector<Victim>& plan = room_plan_;
    plan.clear();
    if (!PlanRoom(&need, old_live ? old : kNoSlot, &plan)) {
      CancelPlan(&plan);
      if (lacking.reason() == Reason::kBudget) {
        return Error{
            Code::kOverBudget,
            fmt::format("set '{}': {} tokens over the token budget of {}, and nothing more "
                        "may be evicted",
                        Printable(entry.key), need.tokens, *options.token_budget)};
      }
      return Error{
          Code::kBlocked,
          fmt::format("set '{}': the {} tier is full ({} of {} bytes{}) and nothing more "
                      "may be evicted",
                      Printable(entry.key), store_->name(top_->id), store_->bytes(),
                      GrowthLimit(*top_), top_->estimator.unknown() ? ", pressure unknown" : "")};
    }
    for (const Victim& victim : plan) {
      const Record& record = store_->slots().record(victim.id.slot);
      store_->Attach(victim.id.slot, record.copies);
      const bool leaf = !record.has_children() || victim.reason == Reason::kReplaced ||
                        MutantOn(Mutant::kParentBeforeChild);
      const Why why{Action::kDestroy, victim.reason,
                    victim.reason == Reason::kReplaced ? std::string_view() : OrderName(*top_)};
      const bool gone = leaf && RemoveUnlessLeased(victim.id.slot, why, now);
      if (!gone) Enter(victim.id.slot);
      if (gone && victim.reason == Reason::kReplaced) replaced_for_room_ = true;
    }
  }
  return Error{Code::kBlocked, fmt::format("set '{}': everything that could be evicted is leased",
                                           Printable(entry.key))};
}

// True: the plan is enough. Entries that were popped and are not part of it are back in their
// queues.
bool Engine::PlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan) {
  bool enough = false;
  try {
    enough = TryPlanRoom(need, old, plan);
  } catch (const std::bad_alloc&) {
    enough = false;
  }
  PutBack();
  return enough;
}

// The old generation of the key comes first, since it is replaced anyway; then entries
// in eviction order until nothing is lacking.
bool Engine::TryPlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan) {
  const auto take = [&](std::uint32_t slot, Tokens tokens, Reason reason) {
    plan->push_back({store_->IdOf(slot), reason});
    need->Less(store_->slots().slot(slot).size, tokens, NamesOf(*store_, slot));
    const std::uint32_t parent = store_->Detach(slot, store_->slots().record(slot).copies);
    if (parent != kNoSlot && !store_->slots().record(parent).has_children()) Enter(parent);
  };
  bool old_planned = goes_last_ && goes_last_->slot == old;
  const bool old_helps = need->bytes > 0 || need->names > 0 || need->slots > 0;
  if (old_planned) {
    // Its share has been taken off.
  } else if (old != kNoSlot && old_helps && old == stays_) {
    old_was_in_way_ = true;
  } else if (old != kNoSlot && old_helps && store_->Leases(old) == 0) {
    ReserveOne(*plan);
    take(old, 0, Reason::kReplaced);  // Its tokens are not counted any more.
    old_planned = true;
  }
  bool one_more = MutantOn(Mutant::kRoomTakesTooMuch);
  // From the bottom up: entries that are only in upper tiers come after all that are
  // below.
  TierState* from = bottom_;
  while (need->any() || std::exchange(one_more, false)) {
    ReserveOne(candidates_back_);
    ReserveOne(*plan);
    const std::optional<EntryId> next = NextByOrder(*from, *from->dirty);
    if (!next) {
      from = Above(*from);
      if (from == nullptr) break;
      continue;
    }
    const std::uint32_t slot = next->slot;
    const Tokens tokens = slot == old ? 0 : Tokens{store_->slots().record(slot).tokens};
    // An entry that contributes nothing may still have to go before its parent, which
    // does; but not before the old generation, which goes in any case.
    const std::uint32_t parent = store_->ParentOf(slot);
    const bool useful =
        need->HelpedBy(store_->slots().slot(slot).size, tokens, NamesOf(*store_, slot)) ||
        (parent != kNoSlot && !(old_planned && parent == old)) || !need->any();
    if ((slot == old && old_planned) || slot == stays_ || store_->Leases(slot) > 0 || !useful ||
        (!single() && store_->slots().record(slot).has_children())) {
      candidates_back_.push_back(*next);
      continue;
    }
    take(slot, tokens, need->reason());
  }
  return !need->any();
}

void Engine::CancelPlan(std::vector<Victim>* plan) {
  while (!plan->empty()) {
    const std::uint32_t slot = plan->back().id.slot;
    store_->Attach(slot, store_->slots().record(slot).copies);
    Enter(slot);
    plan->pop_back();
  }
}

// On a shared card also what the reserve and grants lack, but never more than `bytes`:
// the entry need not restore a reserve that others have used.
Bytes Engine::Lacking(const TierState& tier, Bytes bytes) const {
  const Bytes room = Excess(store_->bytes(tier.id) + bytes, GrowthLimit(tier));
  const Bytes left_free = LeftFree(tier);
  if (left_free == 0) return room;
  return std::max(room, std::min(bytes, Excess(left_free + bytes, FreeMemory(tier))));
}

Bytes Engine::LeftFree(const TierState& tier) {
  if (tier.estimator.unknown() || tier.estimator.total() == 0) return 0;
  return (tier.reserve == 0 ? 0 : tier.estimator.Raised(tier.reserve)) + tier.reservations.left();
}

std::string Engine::ReservedForPeers(const TierState& tier) {
  const Bytes bytes = tier.reservations.left();
  return bytes == 0 ? ""
                    : fmt::format("; {} free bytes are reserved for neighbours that asked", bytes);
}

void Engine::ReserveForPeer(TierId id, std::uint64_t who, Bytes bytes,
                            std::optional<Bytes> others) {
  TierState& tier = state(id);
  if (others) tier.reservations.See(*others);
  tier.reservations.Set(who, bytes);
  if (bytes == 0 && pending_sets_ != nullptr) RetryPendingSets(TimePoint(), false);
}

TierState* Engine::Above(const TierState& tier) const {
  TierState* above = top_ == &tier ? nullptr : top_;
  while (above != nullptr && above->below != &tier) above = above->below;
  return above;
}

// On a shared card the cache grows into free memory only beyond the reserve. Past that,
// it evicts. False: nothing can be evicted. With a single tier the reserve is used
// then: refusing sets is left to EMERGENCY.
bool Engine::KeepReserve(TierState& tier, const NewEntry& entry, TimePoint now) {
  const Bytes left_free = LeftFree(tier);
  if (left_free == 0 || MutantOn(Mutant::kReserveIgnored)) return true;
  Need need;
  const Bytes to_come = goes_last_ && single() ? store_->slots().slot(goes_last_->slot).size : 0;
  need.bytes = std::min(entry.bytes, Excess(left_free + entry.bytes, FreeMemory(tier) + to_come));
  if (!need.any()) return true;
  const Why why{tier.last() ? Action::kDestroy : Action::kDrop, Reason::kReserve, OrderName(tier)};
  if (!single()) return DropForRoom(tier, need.bytes, why, now);
  std::vector<Victim> plan;
  if (!PlanRoom(&need, kNoSlot, &plan)) {
    CancelPlan(&plan);
    return false;
  }
  for (const Victim& victim : plan) {
    const Record& record = store_->slots().record(victim.id.slot);
    store_->Attach(victim.id.slot, record.copies);
    if (record.has_children() || !RemoveUnlessLeased(victim.id.slot, why, now)) {
      Enter(victim.id.slot);
    }
  }
  return true;
}

// --- sets that wait ---

void Engine::AddPendingSet(PendingSet* pending_set) {
  pending_set->before = last_pending_set_;
  pending_set->next = nullptr;
  (last_pending_set_ == nullptr ? pending_sets_ : last_pending_set_->next) = pending_set;
  last_pending_set_ = pending_set;
}

void Engine::RemovePendingSet(PendingSet* pending_set) {
  (pending_set->before == nullptr ? pending_sets_ : pending_set->before->next) = pending_set->next;
  (pending_set->next == nullptr ? last_pending_set_ : pending_set->next->before) =
      pending_set->before;
  pending_set->before = pending_set->next = nullptr;
}

// First come, first served: stops at the first set that still finds no room. Retries
// may call this function again; `waking_` stops that.
void Engine::RetryPendingSets(TimePoint now, bool look_at_deadlines) {
  if (waking_) return;
  waking_ = true;
  if (look_at_deadlines) {
    for (PendingSet* at = pending_sets_; at != nullptr;) {
      PendingSet* const pending_set = std::exchange(at, at->next);
      if (pending_set->deadline > now) continue;
      RemovePendingSet(pending_set);
      pending_set->retry(pending_set, true);
    }
  }
  while (pending_sets_ != nullptr && !MutantOn(Mutant::kPendingSetNeverRetried)) {
    PendingSet* const first = pending_sets_;
    // The set may be destroyed as soon as it has succeeded.
    PendingSet* const rest = first->next;
    if (!first->retry(first, false)) break;
    pending_sets_ = rest;
    (rest == nullptr ? last_pending_set_ : rest->before) = nullptr;
  }
  waking_ = false;
}

}  // namespace spillway
