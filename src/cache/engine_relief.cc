// Relief: carrying out what a level asks for, stage by stage, and expiry.
#include <algorithm>

#include "base/mutant.h"
#include "cache/engine.h"

namespace spillway {

Engine::Progress Engine::Relieve(TimePoint now, const std::function<bool()>& out_of_time) {
  Relief relief;
  if (!gauge_.unknown()) {
    relief = policy_.rule->For(level(), {store_->entries(), /*has_lower=*/false});
  } else if (capacity() != Tier::kUnlimited) {
    const double share = static_cast<double>(store_->bytes()) / static_cast<double>(capacity());
    const double most = settings_.options.thresholds.pressure;
    if (ToPpb(share) > ToPpb(most)) relief = policy_.rule->ForUnknown();
  } else {
    // Without a capacity there is no share of ours to go by: the level holds,
    // and what it asks for.
    relief = policy_.rule->For(level(), {store_->entries(), /*has_lower=*/false});
  }
  Progress progress = Progress::kDone;
  for (const Stage& stage : relief) {
    progress = RunStage(stage, now, out_of_time);
    for (EntryId id : put_back_) {
      if (store_->IsLive(id)) Enter(id.slot);
    }
    put_back_.clear();
    if (progress == Progress::kMore) break;
  }
  NoteMoves(now);
  return progress;
}

Engine::Progress Engine::RunStage(const Stage& stage, TimePoint now,
                                  const std::function<bool()>& out_of_time) {
  const Level ranked_at = stage.ranked_at.value_or(level());
  const Why why{stage.action, stage.reason,
                stage.by_last_use ? std::string_view("lru") : policy_.order->name(ranked_at)};
  std::size_t moves = 0;
  Progress progress = Progress::kMore;
  do {
    progress = Choose(stage, ranked_at, why, &moves, now);
    CarryOut(why, now);
    // A stage that counts is short and must not be cut in two; neither can one
    // that marks, since whom it marked would be the next step's first again.
  } while (progress == Progress::kMore &&
           (stage.count || stage.action == Action::kDemote ||
            (moves < settings_.moves_per_step && !(out_of_time && out_of_time()))));
  put_back_.insert(put_back_.end(), idle_candidates_.begin(), idle_candidates_.end());
  idle_candidates_.clear();
  return progress;
}

// Takes the next few from their readers. Who makes way for a parent, and how
// much goes, counts at once; the rest is CarryOut's, for all of them together:
// each waits for memory in many places, and so they wait at the same time.
Engine::Progress Engine::Choose(const Stage& stage, Level ranked_at, const Why& why,
                                std::size_t* moves, TimePoint now) {
  constexpr std::size_t kTogether = 64;
  const std::size_t most = stage.count || stage.action == Action::kDemote
                               ? kTogether
                               : std::min(kTogether, settings_.moves_per_step - *moves);
  const auto next = [&] {
    return stage.idle_over ? NextIdle(stage, now) : policy_.order->Next(ranked_at);
  };
  Bytes going = 0;
  for (std::size_t chosen = 0;;) {
    if (TargetReached(stage, going) || (stage.count && *moves >= *stage.count)) {
      return Progress::kDone;
    }
    if (chosen == most) return Progress::kMore;
    std::optional<EntryId> id = next();
    if (id && MutantOn(Mutant::kOrderReversed)) {
      if (const std::optional<EntryId> second = next())
        put_back_.push_back(*std::exchange(id, second));
    }
    if (!id) return Progress::kNothingLeft;
    if (stage.action == Action::kDemote) {
      // No tier below: the mark of preset seed. The entry stays readable.
      put_back_.push_back(*id);
      Record& record = store_->slots().record(id->slot);
      const bool marked = std::atomic_ref(record.offloaded).exchange(true);
      if (!marked) Log(id->slot, why, now);
    } else if (TakeUnlessLeased(id->slot)) {
      chosen_.push_back(id->slot);
      going += store_->slots().slot(id->slot).size;
      LetGoOfParent(id->slot);
    } else {
      put_back_.push_back(*id);
      continue;
    }
    ++chosen;
    ++*moves;
  }
}

void Engine::CarryOut(const Why& why, TimePoint now) {
  for (const std::uint32_t slot : chosen_) store_->PrefetchRemoval(slot);
  for (const std::uint32_t slot : chosen_) store_->Hide(slot);
  for (const std::uint32_t slot : chosen_) Depart(slot, true, why, now);
  chosen_.clear();
}

// `going`: bytes of entries that are chosen and not gone yet.
bool Engine::TargetReached(const Stage& stage, Bytes going) const {
  if (!stage.target) return false;
  const Bytes staying = store_->bytes() - going;
  double pressure = gauge_.Corrected(staying);
  // Without a capacity the last sample is all there is to go by (Relieve).
  if (gauge_.unknown() && capacity() != Tier::kUnlimited) {
    pressure = static_cast<double>(staying) / static_cast<double>(capacity());
  }
  return ToPpb(pressure) < ToPpb(*stage.target);
}

// The next entry idle for longer than the stage's limit. By last use they come
// off the ranking as they are; another order ranks those that qualify, and
// parents join them as their children leave.
std::optional<EntryId> Engine::NextIdle(const Stage& stage, TimePoint now) {
  const std::int64_t bound = (now - *stage.idle_over).time_since_epoch().count() - 1;
  if (stage.by_last_use || OrderName() == "lru") return idle_.Next(bound);

  const auto after = [&](EntryId a, EntryId b) {
    const Facts fa = store_->FactsOf(a.slot);
    const Facts fb = store_->FactsOf(b.slot);
    const std::int64_t ka = policy_.order->KeyFor(level(), fa);
    const std::int64_t kb = policy_.order->KeyFor(level(), fb);
    return ka != kb ? ka > kb : fa.place > fb.place;
  };
  while (const std::optional<EntryId> id = idle_.Next(bound)) {
    idle_candidates_.push_back(*id);
    std::push_heap(idle_candidates_.begin(), idle_candidates_.end(), after);
  }
  while (!idle_candidates_.empty()) {
    std::pop_heap(idle_candidates_.begin(), idle_candidates_.end(), after);
    const EntryId id = idle_candidates_.back();
    idle_candidates_.pop_back();
    Facts facts;
    if (!store_->Read(id, &facts)) continue;
    if (KeyByLastUse(facts) <= bound && facts.children == 0) return id;
    put_back_.push_back(id);  // Used since.
  }
  return std::nullopt;
}

bool Engine::Expire(TimePoint now) {
  ExpireOwnDeadlines(now);
  const std::optional<Duration>& ttl = settings_.options.ttl;
  if (!ttl) return false;
  std::size_t moves = 0;
  const std::int64_t bound = (now - *ttl).time_since_epoch().count() - 1;
  while (moves < settings_.moves_per_step) {
    const std::optional<EntryId> id = idle_.Next(bound);
    if (!id) break;
    // Leased ones are no moves: many of them must not keep the rest in place.
    if (RemoveUnlessLeased(id->slot, {Action::kExpire, Reason::kExpired, "lru"}, now)) {
      ++moves;
    } else {
      put_back_.push_back(*id);
    }
  }
  const bool more = moves == settings_.moves_per_step;
  for (EntryId id : put_back_) Enter(id.slot);
  put_back_.clear();
  return more;
}

// An entry's own ttl is a promise to its writer, not a matter of room: it ends
// like an erase, leased or not, leaf or not.
void Engine::ExpireOwnDeadlines(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.front().at <= now) {
    std::pop_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
    const EntryId id = deadlines_.back().id;
    deadlines_.pop_back();
    if (store_->IsLive(id)) {
      RemoveEvenIfLeased(id.slot, {Action::kExpire, Reason::kExpired, {}}, now);
    }
  }
}

}  // namespace spillway
