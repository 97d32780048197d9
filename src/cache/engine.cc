#include "cache/engine.h"

#include <algorithm>
#include <cassert>
#include <new>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "base/room_for_one.h"
#include "cache/use_log.h"
#include "policy/entry_scores.h"

namespace spillway {

namespace {

RuleSettings RuleSettingsOf(const Options& options) {
  RuleSettings settings;
  settings.thresholds = options.thresholds;
  settings.exit_band = options.exit_band;
  settings.idle_normal = options.idle_normal;
  settings.idle_critical = options.idle_critical;
  return settings;
}

Governor::Settings GovernorSettingsOf(const Options& options) {
  return {options.thresholds, options.exit_band, options.dwell};
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Open(const Settings& settings, TierStack tiers,
                                             Mover* mover) {
  const Options& options = settings.options;
  if (Status ok = Governor::Check(GovernorSettingsOf(options)); !ok) return ok.error();
  // A policy without a store, just to learn whether the name is known and
  // whether it keeps lineage; the real ones need the store's facts.
  Result<Policy> probe = MakePolicy(options.policy, RuleSettingsOf(options));
  if (!probe) return probe.error();
  auto store = Store::Open(
      {options.entries_max, settings.hash_bits, probe->rule->keeps_lineage(), settings.unix_offset},
      std::move(tiers));
  if (!store) return store.error();
  return std::unique_ptr<Engine>(new Engine(settings, std::move(*store), mover));
}

Engine::Engine(const Settings& settings, std::unique_ptr<Store> store, Mover* mover)
    : settings_(settings),
      store_(std::move(store)),
      mover_(mover),
      log_(settings.options.on_event) {
  const Options& options = settings_.options;
  const RuleSettings rules = RuleSettingsOf(options);
  OpenScores();
  for (std::size_t i = kTiers; i-- > 0;) {
    const TierId id = kTierIds[i];
    if (!Has(store_->tiers(), id)) continue;
    auto tier = std::make_unique<TierState>();
    tier->id = id;
    tier->below = top_;
    tier->ttl = id == TierId::kDevice ? options.ttl
                : id == TierId::kHost ? options.host_ttl
                                      : options.disk_ttl;
    tier->reserve = id == TierId::kDevice ? settings.reserve : 0;
    tier->governor = std::make_unique<Governor>(GovernorSettingsOf(options));
    const Store* const from = store_.get();
    tier->firm = std::make_unique<Line>(from, id, false, tier->last(), options.policy, rules,
                                        &outlooks_, &tier->running, scores_.get());
    if (!tier->last()) {
      tier->backed = std::make_unique<Line>(from, id, true, true, options.policy, rules, &outlooks_,
                                            &tier->running, scores_.get());
    }
    tier->running.most = capacity(id) / 2;
    top_ = tier.get();
    if (bottom_ == nullptr) bottom_ = tier.get();
    states_[i] = std::move(tier);
  }
  if (!single()) candidates_.reserve(kCandidatesMax);  // Ends of moves need no memory.
}

Engine::~Engine() = default;

// --- writes ---

Status Engine::Check(std::string_view key, Bytes bytes, const SetOptions& options) const {
  if (key.empty())
    return Error{Code::kInvalidArgument, "set: the key is empty; it must be 1 to 65536 bytes"};
  const auto bad = [&](std::string_view what) {
    return Error{Code::kInvalidArgument, fmt::format("set '{}': {}", Printable(key), what)};
  };
  if (key.size() > kKeyBytesMax) {
    return bad(
        fmt::format("the key has {} bytes; at most {} are allowed", key.size(), kKeyBytesMax));
  }
  if (options.tokens < 0 || options.tokens > kTokensMax) {
    return bad(fmt::format("{} tokens; it must be from 0 to {}", options.tokens, kTokensMax));
  }
  if (options.agent.size() > kAgentBytesMax) {
    return bad(fmt::format("the agent's name has {} bytes; at most {} are allowed",
                           options.agent.size(), kAgentBytesMax));
  }
  if (options.step.size() > kAgentBytesMax) {
    return bad(fmt::format("the step's name has {} bytes; at most {} are allowed",
                           options.step.size(), kAgentBytesMax));
  }
  if (options.recompute && *options.recompute < Duration::zero()) {
    return bad("its recompute time is negative; leave it out if it is not known");
  }
  if (options.meta.size() > kMetaBytesMax) {
    return bad(fmt::format("the meta blob has {} bytes; at most {} are allowed",
                           options.meta.size(), kMetaBytesMax));
  }
  if (options.parent.size() > kKeyBytesMax) {
    return bad(fmt::format("the parent key has {} bytes; at most {} are allowed",
                           options.parent.size(), kKeyBytesMax));
  }
  if (options.ttl && *options.ttl <= Duration::zero()) {
    return bad("its ttl is not positive; leave it out for none");
  }
  Bytes most = 0;
  TierId largest = store_->top();
  for (const TierState* tier = top_; tier != nullptr; tier = tier->below) {
    if (store_->capacity(tier->id) <= most) continue;
    most = store_->capacity(tier->id);
    largest = tier->id;
  }
  if (bytes > most) {
    return Error{Code::kTooLarge,
                 fmt::format("set '{}': {} bytes do not fit into the {} tier of {} bytes",
                             Printable(key), bytes, store_->name(largest), most)};
  }
  return {};
}

bool Engine::Commit(std::uint32_t reservation, TimePoint now, bool absent) {
  Slot& slot = store_->slots().slot(reservation);
  try {
    if (loading_) NoteWrittenEarly(slot.key());
    if (slot.has_deadline) RoomForOne(deadlines_);
  } catch (const std::bad_alloc&) {
    Abort(reservation);
    throw;
  }
  // What follows needs no memory.
  if (blind_) RevokeUnseen();
  const std::uint64_t hash = slot.hash.load(std::memory_order_relaxed);
  if (MutantOn(Mutant::kVisibleBeforeCommit) &&
      store_->index().Lookup(hash, slot.key()) == reservation) {
    store_->index().Unlink(reservation);
    slot.word.Kill();
  }
  const std::uint32_t old = absent ? kNoSlot : store_->index().Lookup(hash, slot.key());
  if (old != kNoSlot && MutantOn(Mutant::kServesOldGeneration)) {
    store_->Abort(reservation);
    return false;
  }
  // One step from the old generation to the new: a reader meets one of the two
  // and never a gap. Only then the old one leaves.
  const EntryId id = store_->Commit(reservation, old, now);
  if (old != kNoSlot) {
    RemoveHidden(old, {Action::kDestroy, Reason::kReplaced, {}}, now);
  } else if (store_->disk() != nullptr) {
    // A blob of this key may have gone for room just now: before we answer, the
    // disk is told of all that has gone.
    unsettled_ = true;
  }
  ++sets_;
  if (uses_ != nullptr) NoteSet(id.slot);
  NoteMoves(now);
  if (graph_ != nullptr) Introduce(id.slot, now);
  if (scores_ != nullptr) Welcome(id.slot, now);
  Enter(id.slot);
  const Record& record = store_->slots().record(id.slot);
  if (slot.has_deadline) NoteDeadline(id, record.extra->deadline);
  if (top_->firm->policy.rule->RunsAfterSet(level())) {
    while (Relieve(top_->id, now, {}) == Progress::kMore) {
    }
  }
  return old == kNoSlot;
}

void Engine::NoteSet(std::uint32_t slot) const {
  const Slot& where = store_->slots().slot(slot);
  const Record& record = store_->slots().record(slot);
  const std::uint32_t parent = store_->ParentOf(slot);
  uses_->Set({where.key(), record.tokens, where.size, AgentOf(where, record)},
             parent == kNoSlot ? std::string_view() : store_->slots().slot(parent).key());
}

void Engine::Abort(std::uint32_t reservation) {
  if (MutantOn(Mutant::kReservationLeaked)) return;
  // What was to be copied into it may still come.
  if (store_->ReservedIn(reservation) == TierId::kHost && InDoubt()) return;
  if (store_->ReservedIn(reservation) == TierId::kDisk) {
    // It may have been written, and must not come back in place of an older one.
    store_->disk()->Revoke(store_->BelowOf(reservation).blob);
    unsettled_ = true;
  }
  store_->Abort(reservation);
  if (parked_ != nullptr) WakeParked(TimePoint(), false);
}

bool Engine::Erase(std::uint64_t hash, std::string_view key, TimePoint now) {
  if (loading_) NoteWrittenEarly(key);
  if (blind_) RevokeUnseen();
  const std::uint32_t slot = store_->index().Lookup(hash, key);
  if (slot == kNoSlot) return false;
  RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kErased, {}}, now);
  NoteMoves(now);
  if (parked_ != nullptr) WakeParked(now, false);
  return true;
}

void Engine::Clear(TimePoint now) {
  if (loading_) cleared_early_ = unsettled_ = true;
  if (blind_) RevokeUnseen();
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    const auto word = store_->slots().slot(slot).word.Load();
    if (LeaseWord::StateOf(word) != SlotState::kVisible) continue;
    RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kCleared, {}}, now);
  }
  NoteMoves(now);
}

void Engine::TurnAway() {
  turned_away_ = true;
  const Status closed = Error{Code::kClosed, "closing"};  // Short: needs no memory.
  const auto answer = [&](Waiter** waiters) {
    while (*waiters != nullptr) {
      Waiter* const waiter = std::exchange(*waiters, (*waiters)->next);
      waiter->done(waiter, nullptr, closed);
    }
  };
  answer(&for_loading_);
  for (Move* transfer : transfers_) answer(&transfer->waiters);
  while (parked_ != nullptr) {
    Parked* const parked = std::exchange(parked_, parked_->next);
    parked->retry(parked, true);
  }
}

void Engine::Close() {
  TurnAway();
  closed_ = true;
  for (Move* transfer : transfers_) transfer->cancelled.store(true, std::memory_order_relaxed);
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    LeaseWord& word = store_->slots().slot(slot).word;
    if (LeaseWord::StateOf(word.Load()) != SlotState::kVisible) continue;
    store_->Hide(slot);
    const bool owned = word.Kill();
    store_->Forsake(slot);
    store_->Retire(slot, owned);
  }
}

// --- removal ---

bool Engine::TakeUnlessLeased(std::uint32_t slot) {
  LeaseWord& word = store_->slots().slot(slot).word;
  if (MutantOn(Mutant::kEvictsLeased)) {
    word.Kill();
    return true;
  }
  return word.TryEvict();
}

bool Engine::RemoveUnlessLeased(std::uint32_t slot, const Why& why, TimePoint now) {
  if (!TakeUnlessLeased(slot)) return false;
  store_->Hide(slot);
  Remove(slot, true, why, now);
  return true;
}

void Engine::RemoveEvenIfLeased(std::uint32_t slot, const Why& why, TimePoint now) {
  store_->Hide(slot);
  RemoveHidden(slot, why, now);
}

void Engine::RemoveHidden(std::uint32_t slot, const Why& why, TimePoint now) {
  Revoke(slot);
  const bool owned = store_->slots().slot(slot).word.Kill();
  Remove(slot, owned || MutantOn(Mutant::kReplaceFreesLeased), why, now);
}

void Engine::Revoke(std::uint32_t slot) {
  const Record& record = store_->slots().record(slot);
  if (record.below == nullptr || MutantOn(Mutant::kRevokeForgotten)) return;
  const Move* const going = record.below->transfer;
  if (Has(record.copies, TierId::kDisk)) {
    store_->disk()->Revoke(record.below->blob);
    unsettled_ = true;
  } else if (going != nullptr && going->to == TierId::kDisk) {
    store_->disk()->Revoke(going->landing.blob);
    unsettled_ = true;
  } else if (record.below->had_blob) {
    unsettled_ = true;  // The disk may still have to be told of that one.
  }
}

void Engine::RevokeUnseen() {
  store_->disk()->RevokeUnseen();
  unsettled_ = true;
}

void Engine::NoteWrittenEarly(std::string_view key) {
  written_early_.emplace(key);
  unsettled_ = true;
}

void Engine::Remove(std::uint32_t slot, bool owned, const Why& why, TimePoint now) {
  LetGoOfParent(slot, store_->slots().record(slot).copies);
  Depart(slot, owned, why, now);
}

void Engine::LetGoOfParent(std::uint32_t slot, TierMask tiers) {
  const std::uint32_t parent = store_->Detach(slot, tiers);
  if (parent == kNoSlot) return;
  const Record& record = store_->slots().record(parent);
  for (const TierId tier : kTierIds) {
    if (!Has(tiers & record.copies, tier) || record.children[IndexOf(tier)] != 0) continue;
    state(tier).LineOf(record).Enter(store_->IdOf(parent));
  }
}

void Engine::Depart(std::uint32_t slot, bool owned, const Why& why, TimePoint now) {
  Part(slot, why, now);
  store_->Retire(slot, owned);
}

void Engine::Part(std::uint32_t slot, const Why& why, TimePoint now) {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  TierId from = store_->top();
  while (!Has(record.copies, from)) from = kTierIds[IndexOf(from) + 1];
  if (!MutantOn(Mutant::kRemovalUnlogged)) Log(slot, from, why, now);
  if (MutantOn(Mutant::kRemovalLoggedTwice)) Log(slot, from, why, now);
  for (const TierId tier : kTierIds) {
    if (Has(record.copies, tier)) state(tier).LineOf(record).Left(id);
  }
  if (!ahead_.empty()) AheadGone(slot);
  if (graph_ != nullptr) Unforesee(slot, why.reason != Reason::kReplaced);
  if (scores_ != nullptr) Farewell(slot, why.reason, now);
  if (record.below != nullptr && record.below->transfer != nullptr) {
    record.below->transfer->cancelled.store(true, std::memory_order_relaxed);
  }
}

void Engine::Log(std::uint32_t slot, TierId tier, const Why& why, TimePoint now) {
  LogAs(slot, store_->slots().record(slot).generation, tier, why, now);
}

void Engine::LogAs(std::uint32_t slot, std::uint64_t generation, TierId tier, const Why& why,
                   TimePoint now) {
  const Slot& where = store_->slots().slot(slot);
  const Record& record = store_->slots().record(slot);
  Event event;
  event.at = now;
  event.key = where.key();
  event.generation = generation;
  event.action = why.action;
  event.reason = why.reason;
  event.level = level(tier);
  event.policy = top_->firm->policy.name;
  event.order = why.order;
  event.tier = store_->name(tier);
  event.bytes = where.size;
  event.tokens = record.tokens;
  log_.Moved(event, tier, where.hash.load(std::memory_order_relaxed), Pressure(state(tier)));
}

void Engine::Enter(std::uint32_t slot) {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  for (const TierId tier : kTierIds) {
    if (Has(record.copies, tier)) state(tier).LineOf(record).Enter(id);
  }
}

bool Engine::IsInLine(std::uint32_t slot) const {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  return std::ranges::all_of(kTierIds, [&](TierId tier) {
    if (!Has(record.copies, tier)) return true;
    const Line& line = state(tier).LineOf(record);
    Facts facts;
    const bool leaf = line.view.Read(id, &facts) && facts.children == 0;
    // Who is on its way down enters again when it has arrived, or not.
    if (record.below != nullptr && record.below->transfer != nullptr) return true;
    return !leaf || line.lacks_somebody || line.idle.Holds(id);
  });
}

// Once there is memory again, who had no place in its line gets it.
void Engine::RankTheUnranked() {
  bool anybody = false;
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    for (Line* line : {tier->firm.get(), tier->backed.get()}) {
      if (line != nullptr) anybody = std::exchange(line->lacks_somebody, false) || anybody;
    }
  }
  anybody = ScoresLackSomebody() || anybody;
  if (!anybody) return;
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    if (store_->IsLive(store_->IdOf(slot))) Enter(slot);
  }
}

// --- pressure and time ---

void Engine::Sample(TierId id, std::optional<double> pressure, Bytes total, TimePoint now,
                    std::optional<Bytes> held_then) {
  TierState& tier = state(id);
  if (!pressure && id == TierId::kDevice) NoticeLoss(now);
  if (tier.gone) pressure.reset();  // Whatever its source says.
  ++tier.samples;
  if (pressure) {
    tier.sampled_at = now;
    const bool corrects = tier.firm->policy.rule->corrects_samples();
    double used = *pressure;
    const Bytes scale = corrects ? total : 0;
    // Our slack in shared chunks comes and goes with our own entries: where it
    // is known it is not taken for somebody else's growth.
    const Bytes held_now = held_then.value_or(store_->held(id));
    const Bytes ours = single() ? store_->bytes(id) : held_now;
    const double others = used * static_cast<double>(scale) - static_cast<double>(ours);
    const double taken = std::min(used, 1.0) * static_cast<double>(total);
    const auto held = static_cast<double>(held_now);
    if (!single() && total > 0) {
      // What could be given back at once is no pressure.
      used -= static_cast<double>(store_->clean(id)) / static_cast<double>(total);
      used = std::max(used, 0.0);
    }
    // A source may lie about its total: what Bytes can't hold is not converted.
    constexpr double kMost = 1e18;
    const Bytes promised = tier.grants.left();
    tier.grants.See(taken > held ? static_cast<Bytes>(std::min(taken - held, kMost)) : 0);
    tier.gauge.Sampled(used, scale, FirmBytes(tier), others, now,
                       Excess(promised, tier.grants.left()));
    // The kernel can't take our clean pages by itself: so that they may count
    // as available, they go before it runs short.
    if (id == TierId::kHost && !tier.last()) tier.reserve = settings_.host_reserve(total);
    SetLevel(tier, tier.governor->Sample(used, now), now);
  } else {
    ++tier.samples_failed;
    if (!tier.gauge.unknown()) {
      UnstockAll();  // What nobody has set is not held.
      tier.unknown_ceiling = store_->bytes(id);
    }
    tier.gauge.Failed();
    SetLevel(tier, tier.governor->Sample(std::nullopt, now), now);
  }
}

bool Engine::Look(TimePoint now) {
  ExpireOwnDeadlines(now);
  if (!single()) {
    ExpireWaiters(now);
    FreePassing(now);
  }
  RankTheUnranked();
  NoticeLoss(now);
  Follow(now);
  bool more = false;
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    more = Expire(*tier, now) || more;
    CheckSampleAge(*tier, now);
    if (!tier->gauge.unknown()) SetLevel(*tier, tier->governor->Look(Pressure(*tier), now), now);
  }
  if (parked_ != nullptr) WakeParked(now, true);
  return more;
}

void Engine::ExpectSamplesEvery(TierId tier, Duration period, TimePoint now) {
  state(tier).sample_period = period;
  state(tier).sampled_at = now;
}

bool Engine::IsSampleOld(const TierState& tier, TimePoint now) {
  if (tier.sample_period == Duration::zero() || tier.gauge.unknown()) return false;
  if (MutantOn(Mutant::kStaleSampleTrusted)) return false;
  return now - tier.sampled_at > 3 * tier.sample_period;
}

void Engine::CheckSampleAge(TierState& tier, TimePoint now) {
  if (IsSampleOld(tier, now)) Sample(tier.id, std::nullopt, 0, now);
}

void Engine::ForgetPressure() {
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    tier->gauge.Reset();
    tier->governor->Reset();
    tier->level.store(Level::kRelaxed, std::memory_order_relaxed);
  }
}

void Engine::SetLevel(TierState& tier, Level level, TimePoint now) {
  const Level before = tier.level.load(std::memory_order_relaxed);
  if (level == before) return;
  tier.level.store(level, std::memory_order_relaxed);
  tier.level_since = now;
  ++tier.level_changes;
  if (settings_.options.on_level) {
    settings_.options.on_level({now, before, level, Pressure(tier), store_->name(tier.id)});
  }
}

void Engine::NoteMoves(TimePoint now) {
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    if (tier->level.load(std::memory_order_relaxed) == Level::kRelaxed || tier->gauge.unknown()) {
      continue;
    }
    tier->governor->Note(Pressure(*tier), now);
  }
}

}  // namespace spillway
