// Making room for a set: bytes, tokens, names and slots. Planned before it is
// done, so that a set that can't be helped costs nobody anything. And sets that wait
// while room is made below.
#include <algorithm>
#include <array>
#include <new>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "base/room_for_one.h"
#include "cache/engine.h"
#include "cache/engine_need.h"

namespace spillway {

namespace {

Bytes NamesOf(const Store& store, std::uint32_t slot) {
  const Slot& where = store.slots().slot(slot);
  const Extra* extra = store.slots().record(slot).extra;
  Bytes bytes = where.key_bytes() > kInlineKeyBytes ? where.key_bytes() : 0;
  if (extra != nullptr) bytes += sizeof(Extra) + extra->agent.size() + extra->meta.size();
  return bytes;
}

}  // namespace

// --- admission ---

Result<std::uint32_t> Engine::Admit(const NewEntry& entry, TimePoint now, bool* soon) {
  if (turned_away_) soon = nullptr;  // There is nobody left to wait.
  replaced_for_room_ = false;
  Follow(now);
  const SparedParent spared(this, entry);
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) CheckSampleAge(*tier, now);
  if (is_blocked() && !MutantOn(Mutant::kEmergencyAdmits)) {
    ++refused_blocked_;
    if (MutantOn(Mutant::kFailedSetErasesOld)) Erase(entry.hash, entry.key, now);
    return WhyBlocked(fmt::format("set '{}'", Printable(entry.key))).error();
  }
  if (soon != nullptr && parked_ != nullptr && !waking_) {
    *soon = true;
    return Error{Code::kBusy,
                 fmt::format("set '{}': others wait for room, too", Printable(entry.key))};
  }
  const std::uint32_t old = entry.absent ? kNoSlot : store_->index().Lookup(entry.hash, entry.key);
  if (Status room = MakeRoom(entry, old, now); !room) {
    ++(room.error().code == Code::kOverBudget ? refused_budget_ : refused_blocked_);
    if (MutantOn(Mutant::kFailedSetErasesOld)) Erase(entry.hash, entry.key, now);
    return room.error();
  }
  Result<std::uint32_t> slot = std::uint32_t{kNoSlot};
  if (single()) {
    // The reserve is used where nothing can make room, a promise is not.
    if (!KeepReserve(*top_, entry, now) && top_->grants.left() > 0) {
      ++refused_blocked_;
      return Error{Code::kBlocked,
                   fmt::format("set '{}': nothing more may leave the {} tier{}",
                               Printable(entry.key), store_->name(top_->id), Promised(*top_))};
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

// From the top down: where there is room now. Nowhere: where it is being made.
Result<std::uint32_t> Engine::PlaceSomewhere(const NewEntry& entry, TimePoint now, bool* later) {
  std::string why;
  const auto no = [&](const TierState& tier, std::string_view reason) {
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", store_->name(tier.id), reason);
  };
  // Bytes enter where they are: what the host has does not go up to a GPU first.
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
      // Straight to disk only what memory can't take at all, or not soon.
      if (*later) continue;
      if (store_->disk()->health() != BlobStore::Health::kGood) {
        // One that is still being read in takes it then.
        *later = loading_ && entry.bytes <= store_->capacity(tier->id);
        no(*tier, store_->disk()->why());
        continue;
      }
    }
    if (tier->last() && tier->gauge.unknown() &&
        store_->bytes(tier->id) + entry.bytes > GrowthLimit(*tier)) {
      no(*tier, "its pressure is unknown, and it does not grow until that is over");
      continue;
    }
    if (entry.bytes > GrowthLimit(*tier)) {
      no(*tier, fmt::format("takes at most {} bytes", GrowthLimit(*tier)));
      continue;
    }
    const Bytes lacking = Excess(store_->bytes(tier->id) + entry.bytes, GrowthLimit(*tier));
    if (lacking > 0 && !passed_over && scores_ != nullptr && BetterBelow(*tier, entry, now)) {
      passed_over = true;
      tries[count++] = tier;  // No set is refused for it.
      continue;
    }
    const Why room{Action::kDrop, Reason::kRoom, OrderName(*tier)};
    const bool fits = DropForRoom(*tier, lacking, room, now) && KeepReserve(*tier, entry, now);
    if (fits) {
      Result<std::uint32_t> slot = PlaceIn(*tier, entry, now);
      if (slot) return slot;
      no(*tier, slot.error().message);
      if (slot.error().code != Code::kNoMemory) continue;
    } else {
      no(*tier, fmt::format("{} of {} bytes taken, and nothing more may leave at once{}",
                            store_->bytes(tier->id), GrowthLimit(*tier), Promised(*tier)));
    }
    *later = SendSomeDown(*tier, std::max(lacking, entry.bytes), room, Priority::kGiveBack, now) ||
             *later;
  }
  return Error{Code::kBlocked, fmt::format("set '{}': {}", Printable(entry.key), why)};
}

Result<std::uint32_t> Engine::PlaceIn(TierState& tier, const NewEntry& entry, TimePoint now) {
  Result<std::uint32_t> slot = store_->Reserve(entry, tier.id, now);
  // What is in stock is room, too.
  if (!slot && slot.error().code == Code::kNoMemory && UnstockAll()) {
    slot = store_->Reserve(entry, tier.id, now);
  }
  // The card may be fuller than the account says (neighbours, slack in shared
  // chunks). Then more of ours has to leave: each departure may free a chunk.
  // Not without end: a card that others fill is not helped by emptying ours.
  const Bytes have = store_->bytes(tier.id);
  const Bytes floor = have - std::min(have, 2 * entry.bytes + store_->capacity(tier.id) / 16);
  while (!slot && slot.error().code == Code::kNoMemory && store_->bytes(tier.id) > floor) {
    Line& line = tier.last() ? *tier.firm : *tier.backed;
    RoomForOne(put_back_);
    std::optional<EntryId> next = NextByOrder(tier, line);
    if (!next) break;
    const Action action = tier.last() ? Action::kDestroy : Action::kDrop;
    if (!DropOrRemove(tier, next->slot, {action, Reason::kRoom, OrderName(tier)}, now)) {
      put_back_.push_back(*next);
      continue;
    }
    NoteRoomMade(1, now);
    slot = store_->Reserve(entry, tier.id, now);
  }
  PutBack();
  return slot;
}

void Engine::PutBack() {
  for (EntryId id : put_back_) {
    if (store_->IsLive(id)) Enter(id.slot);
  }
  put_back_.clear();
}

// True: that many bytes have left the tier. What is the last of it down here
// goes only if it is somewhere above, or as the order says.
bool Engine::DropForRoom(TierState& tier, Bytes lacking, const Why& why, TimePoint now) {
  const Bytes before = store_->bytes(tier.id);
  const auto enough = [&] { return before - store_->bytes(tier.id) >= lacking; };
  if (enough()) return true;
  if (!tier.last()) {
    DropBackedBytes(tier, lacking, why, now);
    return enough();
  }
  // All that is lacking, or nobody: a set that can't be helped costs nobody
  // anything. Who has been planned is gone for its parent.
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

// Bytes of those it has planned, who are gone for their parents.
Bytes Engine::PlanDrops(TierState& tier, Bytes lacking, std::vector<EntryId>* plan) {
  Bytes found = 0;
  while (found < lacking) {
    RoomForOne(put_back_);
    RoomForOne(*plan);
    const std::optional<EntryId> next = NextByOrder(tier, *tier.firm);
    if (!next) break;
    if (!MayGo(tier, next->slot)) {
      put_back_.push_back(*next);
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

// While pressure is UNKNOWN the tier does not grow beyond what it held.
Bytes Engine::GrowthLimit(const TierState& tier) const {
  const Bytes limit = capacity(tier.id);
  if (!tier.gauge.unknown() || limit == Tier::kUnlimited) return limit;
  if (MutantOn(Mutant::kUnknownGrows)) return limit;
  return std::min(limit, tier.unknown_ceiling);
}

// Tokens, names and slots; with a single tier also bytes, since there whoever
// leaves is gone. Where there is a tier below, bytes are made room for by
// dropping what is backed, tier by tier.
Status Engine::MakeRoom(const NewEntry& entry, std::uint32_t old, TimePoint now) {
  const Options& options = settings_.options;
  const EntryId old_id = old == kNoSlot ? EntryId{} : store_->IdOf(old);
  if (options.token_budget && entry.options.tokens > *options.token_budget) {
    return Error{Code::kOverBudget,
                 fmt::format("set '{}': {} tokens are more than the whole token budget of {}",
                             Printable(entry.key), entry.options.tokens, *options.token_budget)};
  }
  // Somebody may lease a victim between plan and deed; then plan again.
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
    if (!need.any()) return {};
    // What is in stock is room, and nobody need leave for it to stay there; unless so
    // many leave that it is used up in no time.
    if (!IsChurning(now) && UnstockAll()) continue;

    const Need lacking = need;
    std::vector<Victim>& plan = room_plan_;
    plan.clear();
    if (!PlanRoom(&need, old_live ? old : kNoSlot, &plan)) {
      Unplan(&plan);
      if (UnstockAll()) continue;
      if (lacking.reason() == Reason::kBudget) {
        return Error{
            Code::kOverBudget,
            fmt::format("set '{}': {} tokens over the token budget of {}, and nothing more "
                        "may leave",
                        Printable(entry.key), need.tokens, *options.token_budget)};
      }
      return Error{
          Code::kBlocked,
          fmt::format("set '{}': the {} tier is full ({} of {} bytes{}) and nothing more "
                      "may leave",
                      Printable(entry.key), store_->name(top_->id), store_->bytes(),
                      GrowthLimit(*top_), top_->gauge.unknown() ? ", pressure unknown" : "")};
    }
    NoteRoomMade(plan.size(), now);
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
  return Error{Code::kBlocked, fmt::format("set '{}': everything that could leave is being read",
                                           Printable(entry.key))};
}

// True: what is planned is enough. If not, Unplan.
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

// The old generation of the key goes first, since it goes anyway; then as the
// order says, until nothing is lacking.
bool Engine::TryPlanRoom(Need* need, std::uint32_t old, std::vector<Victim>* plan) {
  const auto take = [&](std::uint32_t slot, Tokens tokens, Reason reason) {
    plan->push_back({store_->IdOf(slot), reason});
    need->Less(store_->slots().slot(slot).size, tokens, NamesOf(*store_, slot));
    const std::uint32_t parent = store_->Detach(slot, store_->slots().record(slot).copies);
    if (parent != kNoSlot && !store_->slots().record(parent).has_children()) Enter(parent);
  };
  bool old_planned = false;
  if (old != kNoSlot && (need->bytes > 0 || need->names > 0 || need->slots > 0) &&
      store_->Leases(old) == 0) {
    RoomForOne(*plan);
    take(old, 0, Reason::kReplaced);  // Its tokens are off the count already.
    old_planned = true;
  }
  bool one_more = MutantOn(Mutant::kRoomTakesTooMuch);
  // From the bottom up: who is only above comes after all who are below.
  TierState* from = bottom_;
  while (need->any() || std::exchange(one_more, false)) {
    RoomForOne(put_back_);
    RoomForOne(*plan);
    const std::optional<EntryId> next = NextByOrder(*from, *from->firm);
    if (!next) {
      from = Above(*from);
      if (from == nullptr) break;
      continue;
    }
    const std::uint32_t slot = next->slot;
    const Tokens tokens = slot == old ? 0 : Tokens{store_->slots().record(slot).tokens};
    // One that helps nobody by itself still stands before its parent, who may;
    // not so before the old generation, which goes in any case.
    const std::uint32_t parent = store_->ParentOf(slot);
    const bool useful =
        need->HelpedBy(store_->slots().slot(slot).size, tokens, NamesOf(*store_, slot)) ||
        (parent != kNoSlot && !(old_planned && parent == old)) || !need->any();
    if ((slot == old && old_planned) || store_->Leases(slot) > 0 || !useful ||
        (!single() && store_->slots().record(slot).has_children())) {
      put_back_.push_back(*next);
      continue;
    }
    take(slot, tokens, need->reason());
  }
  return !need->any();
}

void Engine::Unplan(std::vector<Victim>* plan) {
  while (!plan->empty()) {
    const std::uint32_t slot = plan->back().id.slot;
    store_->Attach(slot, store_->slots().record(slot).copies);
    Enter(slot);
    plan->pop_back();
  }
}

Bytes Engine::Lacking(const TierState& tier, Bytes bytes) const {
  const Bytes room = Excess(store_->bytes(tier.id) + bytes, GrowthLimit(tier));
  const Bytes left_free = LeftFree(tier);
  if (left_free == 0) return room;
  return std::max(room, std::min(bytes, Excess(left_free + bytes, FreeMemory(tier))));
}

Bytes Engine::LeftFree(const TierState& tier) {
  if (tier.gauge.unknown() || tier.gauge.total() == 0) return 0;
  return (tier.reserve == 0 ? 0 : tier.gauge.Raised(tier.reserve)) + tier.grants.left();
}

std::string Engine::Promised(const TierState& tier) {
  const Bytes bytes = tier.grants.left();
  return bytes == 0 ? ""
                    : fmt::format("; {} bytes of what is free are promised to who asked", bytes);
}

void Engine::Promise(TierId id, std::uint64_t who, Bytes bytes, std::optional<Bytes> others) {
  TierState& tier = state(id);
  if (others) tier.grants.See(*others);
  tier.grants.Set(who, bytes);
  if (bytes == 0 && parked_ != nullptr) WakeParked(TimePoint(), false);
}

TierState* Engine::Above(const TierState& tier) const {
  TierState* above = top_ == &tier ? nullptr : top_;
  while (above != nullptr && above->below != &tier) above = above->below;
  return above;
}

// On a shared card what is free beyond the reserve is ours to grow into. Past
// that, something of ours makes room. False: nothing can. With a single tier
// the reserve is used then: refusing is EMERGENCY's to do.
bool Engine::KeepReserve(TierState& tier, const NewEntry& entry, TimePoint now) {
  const Bytes left_free = LeftFree(tier);
  if (left_free == 0 || MutantOn(Mutant::kReserveIgnored)) return true;
  Need need;
  need.bytes = std::min(entry.bytes, Excess(left_free + entry.bytes, FreeMemory(tier)));
  if (!need.any()) return true;
  const Why why{tier.last() ? Action::kDestroy : Action::kDrop, Reason::kReserve, OrderName(tier)};
  if (!single()) return DropForRoom(tier, need.bytes, why, now);
  std::vector<Victim> plan;
  if (!PlanRoom(&need, kNoSlot, &plan)) {
    Unplan(&plan);
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

void Engine::Park(Parked* parked) {
  parked->next = nullptr;
  Parked** at = &parked_;
  while (*at != nullptr) at = &(*at)->next;
  *at = parked;
}

void Engine::Unpark(Parked* parked) {
  for (Parked** at = &parked_; *at != nullptr; at = &(*at)->next) {
    if (*at != parked) continue;
    *at = parked->next;
    return;
  }
}

void Engine::WakeParked(TimePoint now, bool look_at_deadlines) {
  if (waking_) return;
  waking_ = true;
  if (look_at_deadlines) {
    for (Parked** at = &parked_; *at != nullptr;) {
      Parked* const parked = *at;
      if (parked->deadline > now) {
        at = &parked->next;
        continue;
      }
      *at = parked->next;
      parked->retry(parked, true);
    }
  }
  while (parked_ != nullptr && !MutantOn(Mutant::kParkedNeverWoken)) {
    Parked* const first = parked_;
    // It may be gone as soon as it has succeeded.
    Parked* const rest = first->next;
    if (!first->retry(first, false)) break;
    parked_ = rest;
  }
  waking_ = false;
}

}  // namespace spillway
