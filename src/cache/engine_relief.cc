// Relief: carrying out what a level asks for, stage by stage, and expiry.
#include <algorithm>
#include <new>
#include <utility>

#include "base/mutant.h"
#include "base/room_for_one.h"
#include "cache/engine.h"

namespace spillway {

Engine::Progress Engine::Relieve(TierId id, TimePoint now,
                                 const std::function<bool()>& out_of_time) {
  Follow(now);
  TierState& tier = state(id);
  const Rule& rule = *tier.firm->policy.rule;
  const Level at = level(id);
  const TierFacts facts{store_->entries(id), !tier.last()};
  Relief relief;
  if (!tier.gauge.unknown() || capacity(id) == Tier::kUnlimited) {
    // Without a capacity there is no share of ours to go by when pressure is
    // unknown: the level holds, and what it asks for.
    relief = rule.For(at, facts);
  } else {
    const double share = static_cast<double>(store_->bytes(id)) / static_cast<double>(capacity(id));
    const double most = settings_.options.thresholds.pressure;
    if (ToPpb(share) > ToPpb(most)) relief = rule.ForUnknown();
  }
  if (!tier.last()) {
    HoldReserve(tier, now);
    if (at == Level::kEmergency) DropIdle(tier, settings_.options.idle_critical, now);
  }
  Progress progress = Progress::kDone;
  for (const Stage& stage : relief) {
    progress = RunStage(tier, stage, now, out_of_time);
    PutBack();
    if (progress == Progress::kMore) break;
  }
  NoteMoves(now);
  if (parked_ != nullptr) WakeParked(now, false);
  return progress;
}

Engine::Progress Engine::RunStage(TierState& tier, const Stage& stage, TimePoint now,
                                  const std::function<bool()>& out_of_time) {
  const Level ranked_at = stage.ranked_at.value_or(level(tier.id));
  // Where the graph decides it is neither weight nor idleness that does.
  const bool ordered =
      outlooks_.in_force && (stage.reason == Reason::kHeavy || level(tier.id) == Level::kNormal);
  const Why why{stage.action, ordered ? Reason::kOrder : stage.reason,
                stage.by_last_use && !outlooks_.in_force ? std::string_view("lru")
                                                         : tier.firm->OrderName(ranked_at)};
  if (!tier.last() && tier.gauge.unknown() && stage.target) {
    // Our own share counts now, and what is backed goes first.
    DropBackedUntil(tier, stage, {Action::kDrop, stage.reason, why.order}, now);
  }
  std::size_t moves = 0;
  Progress progress = Progress::kMore;
  const bool marks = tier.last() && stage.action == Action::kDemote;
  do {
    try {
      progress = Choose(tier, stage, ranked_at, why, &moves, now);
    } catch (const std::bad_alloc&) {
      progress = Progress::kNothingLeft;  // That can be chosen now. Who was chosen goes.
    }
    CarryOut(why, now);
    // A stage that counts is short and must not be cut in two; neither can one
    // that marks, since whom it marked would be the next step's first again.
  } while (progress == Progress::kMore &&
           (stage.count || marks ||
            (moves < settings_.moves_per_step && !(out_of_time && out_of_time()))));
  for (const EntryId id : idle_candidates_) {
    if (store_->IsLive(id)) Enter(id.slot);
  }
  idle_candidates_.clear();
  return progress;
}

// Takes the next few from their readers, or sends them down. Who makes way for
// a parent, and how much goes, counts at once; the rest is CarryOut's, for all
// of them together: each waits for memory in many places, and so they wait at
// the same time.
Engine::Progress Engine::Choose(TierState& tier, const Stage& stage, Level ranked_at,
                                const Why& why, std::size_t* moves, TimePoint now) {
  constexpr std::size_t kTogether = 64;
  const bool marks = tier.last() && stage.action == Action::kDemote;
  const std::size_t most =
      stage.count || marks ? kTogether : std::min(kTogether, settings_.moves_per_step - *moves);
  const auto next = [&] {
    RoomForOne(put_back_);
    RoomForOne(chosen_);
    if (stage.idle_over) return NextIdle(tier, stage, now);
    // Where it is only copied down nobody need be spared.
    return tier.firm->Next(ranked_at,
                           tier.last() ? Foresight::Whom::kNotSpared : Foresight::Whom::kAnybody);
  };
  Bytes going = 0;
  for (std::size_t chosen = 0;;) {
    if (TargetReached(tier, stage, going) || (stage.count && *moves >= *stage.count)) {
      return Progress::kDone;
    }
    if (chosen == most) return Progress::kMore;
    std::optional<EntryId> id = next();
    if (id && MutantOn(Mutant::kOrderReversed)) {
      if (const std::optional<EntryId> second = next())
        put_back_.push_back(*std::exchange(id, second));
    }
    if (!id) return Progress::kNothingLeft;
    if (marks) {
      // No tier below: the mark of preset seed. The entry stays readable.
      put_back_.push_back(*id);
      Record& record = store_->slots().record(id->slot);
      const bool marked = std::atomic_ref(record.offloaded).exchange(true);
      if (!marked) Log(id->slot, tier.id, why, now);
    } else if (!tier.last() && !Hopeless(tier, stage, id->slot, now)) {
      const Below* const before = store_->slots().record(id->slot).below;
      const bool on_its_way = before != nullptr && before->transfer != nullptr;
      const Going down = SendDown(tier, id->slot, why, Priority::kGiveBack,
                                  level(tier.id) == Level::kEmergency, now);
      if (down != Going::kDown) put_back_.push_back(*id);
      // The movers have enough to do; the next sample goes on from here.
      if (down == Going::kFull) return Progress::kDone;
      // One that was on its way already is no progress: a pass must end.
      if (down == Going::kNowhere || on_its_way) continue;
    } else if (store_->slots().record(id->slot).copies != MaskOf(tier.id) &&
               !MutantOn(Mutant::kLowerTierDestroysAll)) {
      // It is above, too, and stays there: only this copy goes.
      if (!Drop(tier, id->slot, {Action::kDrop, why.reason, why.order}, now)) {
        put_back_.push_back(*id);
        continue;
      }
    } else if (IsLeafOrAlone(id->slot) && !Spared(tier, id->slot) && TakeUnlessLeased(id->slot)) {
      chosen_.push_back(id->slot);
      going += store_->slots().slot(id->slot).size;
      LetGoOfParent(id->slot, store_->slots().record(id->slot).copies);
    } else {
      put_back_.push_back(*id);
      continue;
    }
    ++chosen;
    ++*moves;
  }
}

// Else who continues it is above, and would be of no use without it.
bool Engine::IsLeafOrAlone(std::uint32_t slot) const {
  return single() || !store_->slots().record(slot).has_children();
}

// Whether an unbacked entry must be destroyed: its stage may, and nobody below
// takes it, or EMERGENCY has lasted too long for copies.
bool Engine::Hopeless(const TierState& tier, const Stage& stage, std::uint32_t slot,
                      TimePoint now) const {
  const Record& record = store_->slots().record(slot);
  if (stage.action != Action::kDestroy || record.has_children()) return false;
  if (Spared(tier, slot)) return false;
  const bool on_its_way = record.below != nullptr && record.below->transfer != nullptr;
  if (level(tier.id) == Level::kEmergency &&
      now - tier.level_since > settings_.options.emergency_time) {
    return true;
  }
  if (on_its_way) return false;
  if (MutantOn(Mutant::kDestroyedNotDemoted)) return true;
  for (const TierState* below = tier.below; below != nullptr; below = below->below) {
    if (MayTake(*below, slot, now)) return false;
  }
  return true;
}

void Engine::CarryOut(const Why& why, TimePoint now) {
  const Why gone{why.action == Action::kDemote ? Action::kDestroy : why.action, why.reason,
                 why.order};
  for (const std::uint32_t slot : chosen_) store_->PrefetchRemoval(slot);
  for (const std::uint32_t slot : chosen_) store_->Hide(slot);
  for (const std::uint32_t slot : chosen_) Depart(slot, true, gone, now);
  chosen_.clear();
}

// `going`: bytes of entries that are chosen and not gone yet.
bool Engine::TargetReached(const TierState& tier, const Stage& stage, Bytes going) const {
  if (!stage.target) return false;
  const Bytes leaving = going + tier.going;
  double pressure = 0;
  if (tier.gauge.unknown() && capacity(tier.id) != Tier::kUnlimited) {
    const Bytes ours = store_->bytes(tier.id);
    pressure = static_cast<double>(ours - std::min(ours, leaving)) /
               static_cast<double>(capacity(tier.id));
  } else {
    // Without a capacity the last sample is all there is to go by (Relieve).
    const Bytes firm = FirmBytes(tier);
    pressure = tier.gauge.Corrected(firm - std::min(firm, leaving));
  }
  return ToPpb(pressure) < ToPpb(*stage.target);
}

// The next entry idle for longer than the stage's limit. By last use they come
// off the ranking as they are; another order ranks those that qualify, and
// parents join them as their children leave.
std::optional<EntryId> Engine::NextIdle(TierState& tier, const Stage& stage, TimePoint now) {
  Line& line = *tier.firm;
  const std::int64_t bound = (now - *stage.idle_over).time_since_epoch().count() - 1;
  const Level at = level(tier.id);
  const bool foreseen = outlooks_.in_force;
  // Whom no live run wants may leave at once.
  if (foreseen && at == Level::kNormal && !MutantOn(Mutant::kUnwantedKept)) {
    RoomForOne(put_back_);
    if (const auto id = line.Next(at, Foresight::Whom::kUnwanted)) return id;
  }
  if (!foreseen && (stage.by_last_use || OrderName(tier) == "lru")) return line.idle.Next(bound);

  const auto after = [&](EntryId a, EntryId b) {
    const Facts fa = store_->FactsOf(a.slot, tier.id);
    const Facts fb = store_->FactsOf(b.slot, tier.id);
    if (foreseen) return line.Before(at, b, fb, a, fa);
    const std::int64_t ka = line.policy.order->KeyOf(at, a, fa);
    const std::int64_t kb = line.policy.order->KeyOf(at, b, fb);
    return ka != kb ? ka > kb : fa.place > fb.place;
  };
  const auto next = [&] {
    RoomForOne(idle_candidates_);
    return line.idle.Next(bound);
  };
  while (const std::optional<EntryId> id = next()) {
    idle_candidates_.push_back(*id);
    std::push_heap(idle_candidates_.begin(), idle_candidates_.end(), after);
  }
  while (!idle_candidates_.empty()) {
    RoomForOne(put_back_);
    std::pop_heap(idle_candidates_.begin(), idle_candidates_.end(), after);
    const EntryId id = idle_candidates_.back();
    idle_candidates_.pop_back();
    Facts facts;
    if (!line.view.Read(id, &facts)) continue;
    if (KeyByLastUse(facts) <= bound && facts.children == 0) return id;
    put_back_.push_back(id);  // Used since.
  }
  return std::nullopt;
}

// --- where there is a tier below ---

// EMERGENCY: what is backed and idle goes at once.
void Engine::DropIdle(TierState& tier, Duration idle_over, TimePoint now) {
  const std::int64_t bound = (now - idle_over).time_since_epoch().count() - 1;
  const auto next = [&] {
    RoomForOne(put_back_);
    return tier.backed->idle.Next(bound);
  };
  while (const std::optional<EntryId> id = next()) {
    if (!Drop(tier, id->slot, {Action::kDrop, Reason::kIdle, "lru"}, now)) put_back_.push_back(*id);
  }
  PutBack();
}

// Others have taken of the reserve: what is backed goes until it is whole.
void Engine::HoldReserve(TierState& tier, TimePoint now) {
  if (tier.reserve == 0 || tier.gauge.unknown() || tier.gauge.total() == 0) return;
  if (MutantOn(Mutant::kReserveIgnored)) return;
  const Bytes reserve = tier.gauge.Raised(tier.reserve);
  const Bytes free = FreeMemory(tier);
  if (free >= reserve) return;
  const Bytes held = store_->held(tier.id);
  DropBackedChunks(tier, reserve - free, {Action::kDrop, Reason::kReserve, OrderName(tier)}, now);
  const Bytes lacking = Excess(reserve - free, held - store_->held(tier.id));
  if (lacking == 0) return;
  // Backed, and still there: others who are not stand behind it.
  if (FirmBytes(tier) < store_->bytes(tier.id)) BackEnds(tier, Reason::kReserve, now);
  // Nothing that is left has a copy, or it may not go.
  SendSomeDown(tier, lacking, {Action::kDemote, Reason::kReserve, OrderName(tier)},
               Priority::kGiveBack, now, true);
}

// --- time ---

// Where some entries stay however idle they are, the ranking by last use would
// show those first, again and again: the slots are walked instead, a part at a
// time.
bool Engine::ExpireSome(TierState& tier, TimePoint now) {
  constexpr std::uint32_t kLeast = 4096;
  constexpr std::uint32_t kParts = 64;
  const std::uint32_t all = store_->slots().high_water();
  const std::int64_t bound = (now - *tier.ttl).time_since_epoch().count() - 1;
  const Why why{Action::kExpire, Reason::kExpired, "lru"};
  std::size_t moves = 0;
  for (std::uint32_t left = std::min(all, std::max(kLeast, all / kParts)); left > 0; --left) {
    if (moves == settings_.moves_per_step) return true;
    const std::uint32_t at = tier.ttl_hand >= all ? 0 : tier.ttl_hand;
    tier.ttl_hand = at + 1;
    const Slot& slot = store_->slots().slot(at);
    const Record& record = store_->slots().record(at);
    if (LeaseWord::StateOf(slot.word.Load()) != SlotState::kVisible || slot.no_idle_ttl ||
        !Has(record.copies, tier.id) || slot.last_use.load(std::memory_order_relaxed) > bound) {
      continue;
    }
    Facts facts;
    if (!tier.LineOf(record).view.Read(store_->IdOf(at), &facts) || facts.children > 0) continue;
    if (tier.last() || record.backed_in(tier.id)) {
      moves += DropOrRemove(tier, at, why, now) ? 1 : 0;
    } else if (SendDown(tier, at, why, Priority::kWriteBehind, true, now) == Going::kFull) {
      return false;
    }
  }
  return false;
}

bool Engine::Expire(TierState& tier, TimePoint now) {
  if (!tier.ttl) return false;
  if (store_->some_stay()) return ExpireSome(tier, now);
  std::size_t moves = 0;
  const std::int64_t bound = (now - *tier.ttl).time_since_epoch().count() - 1;
  const Why why{Action::kExpire, Reason::kExpired, "lru"};
  while (!tier.last() && moves < settings_.moves_per_step) {
    RoomForOne(put_back_);
    const std::optional<EntryId> id = tier.backed->idle.Next(bound);
    if (!id) break;
    Drop(tier, id->slot, why, now) ? void(++moves) : put_back_.push_back(*id);
  }
  while (moves < settings_.moves_per_step) {
    RoomForOne(put_back_);
    const std::optional<EntryId> id = tier.firm->idle.Next(bound);
    if (!id) break;
    if (!tier.last()) {
      const Going going = SendDown(tier, id->slot, why, Priority::kWriteBehind, true, now);
      if (going == Going::kDown) continue;
      put_back_.push_back(*id);
      if (going == Going::kFull) break;
      continue;
    }
    // Leased ones are no moves: many of them must not keep the rest in place.
    if (DropOrRemove(tier, id->slot, why, now)) {
      ++moves;
    } else {
      put_back_.push_back(*id);
    }
  }
  const bool more = moves == settings_.moves_per_step;
  PutBack();
  return more;
}

// An entry's own ttl is a promise to its writer, not a matter of room: it ends
// like an erase, leased or not, leaf or not.
void Engine::ExpireOwnDeadlines(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.front().at <= now) {
    std::pop_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
    const EntryId id = deadlines_.back().id;
    deadlines_.pop_back();
    // Its deadline may have been changed since.
    if (store_->IsLive(id) && DeadlineOf(id.slot) <= now) {
      RemoveEvenIfLeased(id.slot, {Action::kExpire, Reason::kExpired, {}}, now);
    }
  }
}

}  // namespace spillway
