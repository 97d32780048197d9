// SPDX-License-Identifier: Apache-2.0
// Relief: carries out what a level asks for, stage by stage. And expiry.
#include <algorithm>
#include <new>
#include <utility>

#include "base/mutant.h"
#include "base/reserve_one.h"
#include "cache/engine.h"

namespace spillway {

Engine::Progress Engine::Relieve(TierId id, TimePoint now,
                                 const std::function<bool()>& out_of_time) {
  SyncGraph(now);
  TierState& tier = state(id);
  const Rule& rule = *tier.dirty->policy.rule;
  const Level at = level(id);
  const TierFacts facts{store_->entries(id), !tier.last()};
  Relief relief;
  if (!IsShrinking(tier)) {
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
  tier.no_room_below = false;
  Progress progress = Progress::kDone;
  for (const Stage& stage : relief) {
    progress = RunStage(tier, stage, now, out_of_time);
    PutBack();
    if (progress == Progress::kMore) break;
  }
  RecordTransfers(now);
  if (pending_sets_ != nullptr) RetryPendingSets(now, false);
  return progress;
}

// Repeats Choose and RunPlan until the target is reached, nothing is left, or this
// step of relief is over.
Engine::Progress Engine::RunStage(TierState& tier, const Stage& stage, TimePoint now,
                                  const std::function<bool()>& out_of_time) {
  const Level ranked_at = stage.ranked_at.value_or(level(tier.id));
  // If the graph orders evictions, the reason is neither weight nor idleness.
  const bool ordered =
      next_uses_.in_force && (stage.reason == Reason::kHeavy || level(tier.id) == Level::kNormal);
  const Why why{stage.action, ordered ? Reason::kOrder : stage.reason,
                stage.by_last_use && !next_uses_.in_force ? std::string_view("lru")
                                                          : tier.dirty->OrderName(ranked_at),
                SparesLastCopies(tier) ? RoomOf::kNone : RoomOf::kAny};
  if (!tier.last() && tier.estimator.unknown() && stage.target) {
    // Our own share is the target now, and clean copies are dropped first.
    DropCleanUntil(tier, stage, {Action::kDrop, stage.reason, why.order}, now);
  }
  std::size_t transfers = 0;
  Progress progress = Progress::kMore;
  const bool marks = tier.last() && stage.action == Action::kDemote;
  do {
    try {
      progress = Choose(tier, stage, ranked_at, why, &transfers, now);
    } catch (const std::bad_alloc&) {
      // None that can be chosen now. Entries chosen so far are removed.
      progress = Progress::kNothingLeft;
    }
    RunPlan(why, now);
    // A stage with a count is short and must not be cut in two. Neither must a stage
    // that marks: the entries it marked would be the first of the next step again.
  } while (progress == Progress::kMore &&
           (stage.count || marks ||
            (transfers < settings_.moves_per_step && !(out_of_time && out_of_time()))));
  for (const EntryId id : idle_candidates_) {
    if (store_->IsLive(id)) Enter(id.slot);
  }
  idle_candidates_.clear();
  return progress;
}

// Takes the next few entries from their readers, or starts to copy them down. Whether a
// parent becomes evictable and how many bytes go counts at once. The rest is done by
// RunPlan for all of them together: each removal waits for memory in many places, and
// so they wait at the same time.
Engine::Progress Engine::Choose(TierState& tier, const Stage& stage, Level ranked_at,
                                const Why& why, std::size_t* transfers, TimePoint now) {
  constexpr std::size_t kTogether = 64;
  // So many entries in sequence find no room below: smaller ones behind them may, but a
  // pass must not look at all entries for them.
  constexpr std::size_t kNoRoomMost = 256;
  const bool marks = tier.last() && stage.action == Action::kDemote;
  const std::size_t most =
      stage.count || marks ? kTogether : std::min(kTogether, settings_.moves_per_step - *transfers);
  const auto next = [&] {
    ReserveOne(candidates_back_);
    ReserveOne(chosen_);
    if (stage.idle_over) return NextIdle(tier, stage, now);
    // Entries that are only copied down need no protection.
    return tier.dirty->Next(ranked_at, tier.last() ? WorkflowOrder::CandidateFilter::kNotProtected
                                                   : WorkflowOrder::CandidateFilter::kAny);
  };
  Bytes going = 0;
  std::size_t no_room = 0;
  for (std::size_t chosen = 0;;) {
    if (TargetReached(tier, stage, going) || (stage.count && *transfers >= *stage.count)) {
      tier.no_room_below = false;
      return Progress::kDone;
    }
    if (chosen == most) return Progress::kMore;
    std::optional<EntryId> id = next();
    if (id && MutantOn(Mutant::kOrderReversed)) {
      if (const std::optional<EntryId> second = next())
        candidates_back_.push_back(*std::exchange(id, second));
    }
    if (!id) return Progress::kNothingLeft;
    if (marks) {
      // There is no tier below: the mark of preset seed. The entry stays readable.
      candidates_back_.push_back(*id);
      Record& record = store_->slots().record(id->slot);
      const bool marked = std::atomic_ref(record.offloaded).exchange(true);
      if (!marked) Log(id->slot, tier.id, why, now);
    } else if (!tier.last() && !MustDestroy(tier, stage, id->slot, now)) {
      const LowerCopies* const before = store_->slots().record(id->slot).below;
      const bool on_its_way = before != nullptr && before->transfer != nullptr;
      const Going down = SendDown(tier, id->slot, why, Priority::kGiveBack,
                                  level(tier.id) == Level::kEmergency, now);
      if (down != Going::kDown) candidates_back_.push_back(*id);
      // Enough transfers are in flight, or a copy has just failed; the next sample
      // continues from here.
      if (down == Going::kFull) return Progress::kDone;
      if (down == Going::kNowhere && LowerTiersRest(tier, id->slot, now)) return Progress::kDone;
      if (down == Going::kNowhere && why.below == RoomOf::kNone) {
        tier.no_room_below = true;
        if (++no_room == kNoRoomMost) return Progress::kNothingLeft;
      }
      // An entry that was in flight already is no progress: a pass must end.
      if (down == Going::kNowhere || on_its_way) continue;
    } else if (store_->slots().record(id->slot).copies != MaskOf(tier.id) &&
               !MutantOn(Mutant::kLowerTierDestroysAll)) {
      // The entry is also in a tier above and stays there: only this copy is dropped.
      if (!Drop(tier, id->slot, {Action::kDrop, why.reason, why.order}, now)) {
        candidates_back_.push_back(*id);
        continue;
      }
    } else if (IsLeafOrAlone(id->slot) && !IsProtected(tier, id->slot) &&
               TakeUnlessLeased(id->slot)) {
      chosen_.push_back(id->slot);
      // It no longer counts as an entry of a running step, whose share of the tier is protected.
      if (next_uses_.armed) tier.QueueOf(store_->slots().record(id->slot)).workflow_order.Left(*id);
      going += store_->slots().slot(id->slot).size;
      ReleaseParent(id->slot, store_->slots().record(id->slot).copies);
    } else {
      candidates_back_.push_back(*id);
      continue;
    }
    ++chosen;
    ++*transfers;
  }
}

// Otherwise entries above continue it, and would be of no use without it.
bool Engine::IsLeafOrAlone(std::uint32_t slot) const {
  return single() || !store_->slots().record(slot).has_children();
}

// Relief with a tier below makes entries clean, no more, so that memory can be given back
// at once. Only EMERGENCY destroys for it; where pressure is unknown, nothing says that
// memory is short.
bool Engine::SparesLastCopies(const TierState& tier) const {
  if (tier.last() || MutantOn(Mutant::kReliefDestroysLastCopy)) return false;
  return level(tier.id) != Level::kEmergency || IsShrinking(tier);
}

// Without a capacity there is no share of ours to compute when pressure is unknown: the
// level and what it asks for stay in force.
bool Engine::IsShrinking(const TierState& tier) const {
  return tier.estimator.unknown() && capacity(tier.id) != Tier::kUnlimited;
}

// Whether a dirty entry must be destroyed: it is EMERGENCY, and no tier below takes it,
// or copies have had their time. A lower tier that backs off after a failed copy takes
// it soon: one failure must not destroy what the next copy would save.
bool Engine::MustDestroy(const TierState& tier, const Stage& stage, std::uint32_t slot,
                         TimePoint now) const {
  const Record& record = store_->slots().record(slot);
  if (stage.action != Action::kDestroy || record.has_children()) return false;
  if (SparesLastCopies(tier)) return false;
  if (IsProtected(tier, slot)) return false;
  const bool on_its_way = record.below != nullptr && record.below->transfer != nullptr;
  if (level(tier.id) == Level::kEmergency &&
      now - tier.level_since > settings_.options.emergency_time) {
    return true;
  }
  if (on_its_way) return false;
  if (MutantOn(Mutant::kDestroyedNotDemoted)) return true;
  for (const TierState* below = tier.below; below != nullptr; below = below->below) {
    if (MayTakeSoon(*below, slot)) return false;
  }
  return true;
}

// Only EMERGENCY keeps entries out for what relief can't do.
Level Engine::LevelForGrowth(const TierState& tier) const {
  const Level at = level(tier.id);
  return tier.no_room_below && at < Level::kEmergency ? Level::kRelaxed : at;
}

// In three loops, so that the cache misses of all removals overlap.
void Engine::RunPlan(const Why& why, TimePoint now) {
  const Why gone{why.action == Action::kDemote ? Action::kDestroy : why.action, why.reason,
                 why.order};
  for (const std::uint32_t slot : chosen_) store_->PrefetchRemoval(slot);
  for (const std::uint32_t slot : chosen_) store_->Hide(slot);
  for (const std::uint32_t slot : chosen_) RemoveFromTier(slot, true, gone, now);
  chosen_.clear();
}

// `going`: bytes of entries that are chosen and not removed yet.
bool Engine::TargetReached(const TierState& tier, const Stage& stage, Bytes going) const {
  if (!stage.target) return false;
  const Bytes leaving = going + tier.going;
  double pressure = 0;
  if (IsShrinking(tier)) {
    const Bytes ours = store_->bytes(tier.id);
    pressure = static_cast<double>(ours - std::min(ours, leaving)) /
               static_cast<double>(capacity(tier.id));
  } else {
    // Without a capacity only the last sample tells the pressure (Relieve).
    const Bytes dirty = DirtyBytes(tier);
    pressure = tier.estimator.Corrected(dirty - std::min(dirty, leaving));
  }
  return ToPpb(pressure) < ToPpb(*stage.target);
}

// The next entry idle for longer than the stage's limit. By last use, entries come
// directly from the ranking. For another order, a heap ranks the entries that qualify,
// and parents join it as their children are evicted.
std::optional<EntryId> Engine::NextIdle(TierState& tier, const Stage& stage, TimePoint now) {
  EvictionQueue& queue = *tier.dirty;
  const std::int64_t bound = (now - *stage.idle_over).time_since_epoch().count() - 1;
  const Level at = level(tier.id);
  const bool by_workflow = next_uses_.in_force;
  // Entries that no live run wants may be evicted at once.
  if (by_workflow && at == Level::kNormal && !MutantOn(Mutant::kUnwantedKept)) {
    ReserveOne(candidates_back_);
    if (const auto id = queue.Next(at, WorkflowOrder::CandidateFilter::kUnwanted)) return id;
  }
  if (!by_workflow && (stage.by_last_use || OrderName(tier) == "lru"))
    return queue.idle.Next(bound);

  const auto after = [&](EntryId a, EntryId b) {
    const Facts fa = store_->FactsOf(a.slot, tier.id);
    const Facts fb = store_->FactsOf(b.slot, tier.id);
    if (by_workflow) return queue.Before(at, b, fb, a, fa);
    const std::int64_t ka = queue.policy.order->KeyOf(at, a, fa);
    const std::int64_t kb = queue.policy.order->KeyOf(at, b, fb);
    return ka != kb ? ka > kb : fa.place > fb.place;
  };
  const auto next = [&] {
    ReserveOne(idle_candidates_);
    return queue.idle.Next(bound);
  };
  while (const std::optional<EntryId> id = next()) {
    idle_candidates_.push_back(*id);
    std::push_heap(idle_candidates_.begin(), idle_candidates_.end(), after);
  }
  while (!idle_candidates_.empty()) {
    ReserveOne(candidates_back_);
    std::pop_heap(idle_candidates_.begin(), idle_candidates_.end(), after);
    const EntryId id = idle_candidates_.back();
    idle_candidates_.pop_back();
    Facts facts;
    if (!queue.view.Read(id, &facts)) continue;
    if (KeyByLastUse(facts) <= bound && facts.children == 0) return id;
    candidates_back_.push_back(id);  // It was used since.
  }
  return std::nullopt;
}

// --- where there is a tier below ---

// EMERGENCY: drops clean, idle entries at once.
void Engine::DropIdle(TierState& tier, Duration idle_over, TimePoint now) {
  const std::int64_t bound = (now - idle_over).time_since_epoch().count() - 1;
  const auto next = [&] {
    ReserveOne(candidates_back_);
    return tier.clean->idle.Next(bound);
  };
  while (const std::optional<EntryId> id = next()) {
    if (!Drop(tier, id->slot, {Action::kDrop, Reason::kIdle, "lru"}, now))
      candidates_back_.push_back(*id);
  }
  PutBack();
}

// Others have taken memory of the reserve: drops clean entries until it is whole again.
void Engine::HoldReserve(TierState& tier, TimePoint now) {
  if (tier.reserve == 0 || tier.estimator.unknown() || tier.estimator.total() == 0) return;
  if (MutantOn(Mutant::kReserveIgnored)) return;
  const Bytes reserve = tier.estimator.Raised(tier.reserve);
  const Bytes free = FreeMemory(tier);
  if (free >= reserve) return;
  const Bytes held = store_->held(tier.id);
  DropCleanChunks(tier, reserve - free, {Action::kDrop, Reason::kReserve, OrderName(tier)}, now);
  const Bytes lacking = Excess(reserve - free, held - store_->held(tier.id));
  if (lacking == 0) return;
  // Clean entries are left that could not be dropped: dirty ones continue them.
  if (DirtyBytes(tier) < store_->bytes(tier.id)) BackupTails(tier, Reason::kReserve, now);
  // No entry that is left is clean, or none may be dropped. Above full tiers copies would
  // go over last copies there, at the link's speed: what is ranked lowest is given up.
  if (IsFullBelow(tier, lacking, now)) {
    GiveUpLowest(tier, lacking,
                 {Action::kDestroy, Reason::kReserve, OrderName(tier), RoomOf::kLastCopies}, {},
                 now);
    return;
  }
  SendSomeDown(tier, lacking, {Action::kDemote, Reason::kReserve, OrderName(tier)},
               Priority::kGiveBack, now, true);
}

// --- time ---

// If some entries have no idle ttl, the ranking by last use would return those first,
// again and again: scans the slots instead, a part per call.
bool Engine::ExpireSome(TierState& tier, TimePoint now) {
  constexpr std::uint32_t kLeast = 4096;
  constexpr std::uint32_t kParts = 64;
  const std::uint32_t all = store_->slots().high_water();
  const std::int64_t bound = (now - *tier.ttl).time_since_epoch().count() - 1;
  const Why why{Action::kExpire, Reason::kExpired, "lru"};
  std::size_t transfers = 0;
  for (std::uint32_t left = std::min(all, std::max(kLeast, all / kParts)); left > 0; --left) {
    if (transfers == settings_.moves_per_step) return true;
    const std::uint32_t at = tier.ttl_hand >= all ? 0 : tier.ttl_hand;
    tier.ttl_hand = at + 1;
    const Slot& slot = store_->slots().slot(at);
    const Record& record = store_->slots().record(at);
    if (LeaseWord::StateOf(slot.word.Load()) != SlotState::kVisible || slot.no_idle_ttl ||
        !Has(record.copies, tier.id) || slot.last_use.load(std::memory_order_relaxed) > bound) {
      continue;
    }
    Facts facts;
    if (!tier.QueueOf(record).view.Read(store_->IdOf(at), &facts) || facts.children > 0) continue;
    if (tier.last() || record.clean_in(tier.id)) {
      transfers += DropOrRemove(tier, at, why, now) ? 1 : 0;
    } else if (SendDown(tier, at, why, Priority::kWriteBack, true, now) == Going::kFull) {
      return false;
    }
  }
  return false;
}

bool Engine::Expire(TierState& tier, TimePoint now) {
  if (!tier.ttl) return false;
  if (store_->some_stay()) return ExpireSome(tier, now);
  std::size_t transfers = 0;
  const std::int64_t bound = (now - *tier.ttl).time_since_epoch().count() - 1;
  const Why why{Action::kExpire, Reason::kExpired, "lru"};
  while (!tier.last() && transfers < settings_.moves_per_step) {
    ReserveOne(candidates_back_);
    const std::optional<EntryId> id = tier.clean->idle.Next(bound);
    if (!id) break;
    Drop(tier, id->slot, why, now) ? void(++transfers) : candidates_back_.push_back(*id);
  }
  while (transfers < settings_.moves_per_step) {
    ReserveOne(candidates_back_);
    const std::optional<EntryId> id = tier.dirty->idle.Next(bound);
    if (!id) break;
    if (!tier.last()) {
      const Going going = SendDown(tier, id->slot, why, Priority::kWriteBack, true, now);
      if (going == Going::kDown) continue;
      candidates_back_.push_back(*id);
      if (going == Going::kFull) break;
      continue;
    }
    // Leased entries do not count as evictions: many of them must not hold up the rest.
    if (DropOrRemove(tier, id->slot, why, now)) {
      ++transfers;
    } else {
      candidates_back_.push_back(*id);
    }
  }
  const bool more = transfers == settings_.moves_per_step;
  PutBack();
  return more;
}

// An entry's own ttl is a promise to its writer and has nothing to do with room: it
// ends like an erase, leased or not, leaf or not.
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
