#include "cache/engine.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"

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

Result<std::unique_ptr<Engine>> Engine::Open(const Settings& settings, std::unique_ptr<Tier> tier) {
  const Options& options = settings.options;
  if (Status ok = Governor::Check(GovernorSettingsOf(options)); !ok) return ok.error();
  // A policy without a store, just to learn whether the name is known and
  // whether it keeps lineage; the real one needs the store's facts.
  Result<Policy> probe = MakePolicy(options.policy, RuleSettingsOf(options), nullptr, nullptr);
  if (!probe) return probe.error();
  auto store = Store::Open({options.entries_max, settings.hash_bits, probe->rule->keeps_lineage()},
                           std::move(tier));
  if (!store) return store.error();
  return std::unique_ptr<Engine>(new Engine(settings, std::move(*store)));
}

Engine::Engine(const Settings& settings, std::unique_ptr<Store> store)
    : settings_(settings),
      store_(std::move(store)),
      journal_(settings.options.on_event),
      idle_(KeyByLastUse, store_.get(), Ranking::Mark::kIdle),
      policy_(std::move(*MakePolicy(settings.options.policy, RuleSettingsOf(settings.options),
                                    store_.get(), &idle_))),
      governor_(GovernorSettingsOf(settings.options)) {}

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
  const Bytes capacity = store_->tier()->capacity();
  if (bytes > capacity) {
    return Error{Code::kTooLarge,
                 fmt::format("set '{}': {} bytes do not fit into the {} tier of {} bytes",
                             Printable(key), bytes, store_->tier()->name(), capacity)};
  }
  return {};
}

Result<std::uint32_t> Engine::Admit(const NewEntry& entry, TimePoint now) {
  CheckSampleAge(now);
  if (is_blocked() && !MutantOn(Mutant::kEmergencyAdmits)) {
    ++refused_blocked_;
    if (MutantOn(Mutant::kFailedSetErasesOld)) Erase(entry.hash, entry.key, now);
    return WhyBlocked(fmt::format("set '{}'", Printable(entry.key))).error();
  }
  const std::uint32_t old = store_->index().Lookup(entry.hash, entry.key);
  if (Status room = MakeRoom(entry, old, now); !room) {
    ++(room.error().code == Code::kOverBudget ? refused_budget_ : refused_blocked_);
    if (MutantOn(Mutant::kFailedSetErasesOld)) Erase(entry.hash, entry.key, now);
    return room.error();
  }
  KeepReserve(entry, now);
  Result<std::uint32_t> slot = store_->Reserve(entry, now);
  // The card may be fuller than the account says (neighbours, slack in shared
  // chunks). Then more of ours has to leave: each departure may free a chunk.
  // Not without end: a card that others fill is not helped by emptying ours.
  const Bytes floor = store_->bytes() -
                      std::min(store_->bytes(), 2 * entry.bytes + store_->tier()->capacity() / 16);
  while (!slot && slot.error().code == Code::kNoMemory && store_->bytes() > floor) {
    std::optional<EntryId> next = policy_.order->Next(level());
    if (!next) break;
    if (!RemoveUnlessLeased(next->slot, {Action::kDestroy, Reason::kRoom, OrderName()}, now)) {
      put_back_.push_back(*next);
      continue;
    }
    slot = store_->Reserve(entry, now);
  }
  for (EntryId id : put_back_) {
    if (store_->IsLive(id)) Enter(id.slot);
  }
  put_back_.clear();
  if (!slot) ++refused_other_;
  if (slot && MutantOn(Mutant::kVisibleBeforeCommit)) {
    if (store_->index().Lookup(entry.hash, entry.key) == kNoSlot) {
      store_->slots().slot(*slot).word.Publish(1);
      store_->index().Link(*slot);
    }
  }
  return slot;
}

void Engine::Commit(std::uint32_t reservation, TimePoint now) {
  Slot& slot = store_->slots().slot(reservation);
  const std::uint64_t hash = slot.hash.load(std::memory_order_relaxed);
  if (MutantOn(Mutant::kVisibleBeforeCommit) &&
      store_->index().Lookup(hash, slot.key()) == reservation) {
    store_->index().Unlink(reservation);
    slot.word.Kill();
  }
  const std::uint32_t old = store_->index().Lookup(hash, slot.key());
  if (old != kNoSlot && MutantOn(Mutant::kServesOldGeneration)) {
    store_->Abort(reservation);
    return;
  }
  // One step from the old generation to the new: a reader meets one of the two
  // and never a gap. Only then the old one leaves.
  const EntryId id = store_->Commit(reservation, old, now);
  if (old != kNoSlot) RemoveHidden(old, {Action::kDestroy, Reason::kReplaced, {}}, now);
  ++sets_;
  NoteMoves(now);
  Enter(id.slot);
  const Record& record = store_->slots().record(id.slot);
  if (slot.has_deadline) {
    deadlines_.push_back({record.extra->deadline, id});
    std::push_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  }
  if (policy_.rule->RunsAfterSet(level())) {
    while (Relieve(now, {}) == Progress::kMore) {
    }
  }
}

void Engine::Abort(std::uint32_t reservation) {
  if (MutantOn(Mutant::kReservationLeaked)) return;
  store_->Abort(reservation);
}

bool Engine::Erase(std::uint64_t hash, std::string_view key, TimePoint now) {
  const std::uint32_t slot = store_->index().Lookup(hash, key);
  if (slot == kNoSlot) return false;
  RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kErased, {}}, now);
  NoteMoves(now);
  return true;
}

void Engine::Clear(TimePoint now) {
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    const auto word = store_->slots().slot(slot).word.Load();
    if (LeaseWord::StateOf(word) != SlotState::kVisible) continue;
    RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kCleared, {}}, now);
  }
  NoteMoves(now);
}

void Engine::Close() {
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    LeaseWord& word = store_->slots().slot(slot).word;
    if (LeaseWord::StateOf(word.Load()) != SlotState::kVisible) continue;
    store_->Hide(slot);
    const bool owned = word.Kill();
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
  const bool owned = store_->slots().slot(slot).word.Kill();
  Remove(slot, owned || MutantOn(Mutant::kReplaceFreesLeased), why, now);
}

void Engine::Remove(std::uint32_t slot, bool owned, const Why& why, TimePoint now) {
  LetGoOfParent(slot);
  Depart(slot, owned, why, now);
}

void Engine::LetGoOfParent(std::uint32_t slot) {
  const std::uint32_t parent = store_->Detach(slot);
  if (parent != kNoSlot && store_->slots().record(parent).children == 0) Enter(parent);
}

void Engine::Depart(std::uint32_t slot, bool owned, const Why& why, TimePoint now) {
  const EntryId id = store_->IdOf(slot);
  if (!MutantOn(Mutant::kRemovalUnlogged)) Log(slot, why, now);
  if (MutantOn(Mutant::kRemovalLoggedTwice)) Log(slot, why, now);
  idle_.Left(id);
  policy_.order->Left(id);
  store_->Retire(slot, owned);
}

void Engine::Log(std::uint32_t slot, const Why& why, TimePoint now) {
  const Slot& where = store_->slots().slot(slot);
  const Record& record = store_->slots().record(slot);
  Event event;
  event.at = now;
  event.key = where.key();
  event.generation = record.generation;
  event.action = why.action;
  event.reason = why.reason;
  event.level = level();
  event.policy = policy_.name;
  event.order = why.order;
  event.tier = store_->tier()->name();
  event.bytes = where.size;
  event.tokens = record.tokens;
  journal_.Removed(event, where.hash.load(std::memory_order_relaxed),
                   gauge_.Corrected(store_->bytes()));
}

void Engine::Enter(std::uint32_t slot) {
  const EntryId id = store_->IdOf(slot);
  const Facts facts = store_->FactsOf(slot);
  idle_.Enter(id, facts);
  policy_.order->Entered(id, facts);
}

// --- pressure and time ---

void Engine::Sample(std::optional<double> pressure, Bytes total, TimePoint now) {
  ++samples_;
  if (pressure) {
    sampled_at_ = now;
    gauge_.Sampled(*pressure, policy_.rule->corrects_samples() ? total : 0, store_->bytes(), now);
  } else {
    ++samples_failed_;
    if (!gauge_.unknown()) unknown_ceiling_ = store_->bytes();
    gauge_.Failed();
  }
  SetLevel(governor_.Sample(pressure, now), now);
}

bool Engine::Look(TimePoint now) {
  const bool more = Expire(now);
  CheckSampleAge(now);
  if (!gauge_.unknown()) SetLevel(governor_.Look(gauge_.Corrected(store_->bytes()), now), now);
  return more;
}

void Engine::ExpectSamplesEvery(Duration period, TimePoint now) {
  sample_period_ = period;
  sampled_at_ = now;
}

void Engine::CheckSampleAge(TimePoint now) {
  if (sample_period_ == Duration::zero() || gauge_.unknown()) return;
  if (MutantOn(Mutant::kStaleSampleTrusted)) return;
  if (now - sampled_at_ > 3 * sample_period_) Sample(std::nullopt, 0, now);
}

void Engine::ForgetPressure() {
  gauge_.Reset();
  governor_.Reset();
  level_.store(Level::kRelaxed, std::memory_order_relaxed);
}

void Engine::SetLevel(Level level, TimePoint now) {
  const Level before = this->level();
  if (level == before) return;
  level_.store(level, std::memory_order_relaxed);
  level_since_ = now;
  ++level_changes_;
  if (settings_.options.on_level) {
    settings_.options.on_level({now, before, level, gauge_.Corrected(store_->bytes())});
  }
}

void Engine::NoteMoves(TimePoint now) {
  if (level() == Level::kRelaxed || gauge_.unknown()) return;
  governor_.Note(gauge_.Corrected(store_->bytes()), now);
}

// --- answers ---

std::optional<double> Engine::pressure() const {
  if (gauge_.unknown()) return std::nullopt;
  return gauge_.Corrected(store_->bytes());
}

bool Engine::is_blocked() const { return level() == Level::kEmergency; }

Status Engine::WhyBlocked(std::string_view what) const {
  return Error{
      Code::kBlocked,
      fmt::format(
          "{}: the {} tier is in emergency (pressure {:.3f}) and takes nothing new "
          "until pressure has been {:.3f} or less for {} ms",
          what, store_->tier()->name(), gauge_.Corrected(store_->bytes()),
          governor_.left_at(Level::kEmergency),
          std::chrono::duration_cast<std::chrono::milliseconds>(settings_.options.dwell).count())};
}

void Engine::CountInto(Stats* stats) const {
  stats->entries = store_->entries();
  stats->tokens = store_->tokens();
  stats->sets = sets_;
  stats->refused_blocked = refused_blocked_;
  stats->refused_budget = refused_budget_;
  stats->refused_other = refused_other_;
  stats->level_changes = level_changes_;
  stats->samples = samples_;
  stats->samples_failed = samples_failed_;
  stats->reservations = store_->reservations();
  stats->index_bytes = store_->index_bytes();
  journal_.CountInto(stats);
  TierStats& device = stats->device;
  device.name = store_->tier()->name();
  device.capacity = capacity() == Tier::kUnlimited ? 0 : capacity();
  device.bytes = store_->bytes();
  device.held = store_->tier()->held();
  device.total = gauge_.total();
  device.free = gauge_.Free(store_->bytes());
  device.slack = device.held - std::min(device.held, device.bytes);
  const Bytes taken = device.total - std::min(device.total, device.free);
  device.others = taken - std::min(taken, device.held + device.overhead);
  device.reserve = settings_.reserve == 0 ? 0 : gauge_.Raised(settings_.reserve);
  device.pressure = pressure();
  device.level = level();
  device.level_since = level_since_;
}

}  // namespace spillway
