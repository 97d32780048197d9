// SPDX-License-Identifier: Apache-2.0
#include "cache/engine.h"

#include <algorithm>
#include <cassert>
#include <new>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "base/reserve_one.h"
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
                                             TransferQueue* transfer_queue) {
  const Options& options = settings.options;
  if (Status ok = Governor::Check(GovernorSettingsOf(options)); !ok) return ok.error();
  // A policy without a store, only to learn whether the name is known and whether it
  // keeps lineage; the real ones need the store's facts.
  Result<Policy> probe = MakePolicy(options.policy, RuleSettingsOf(options));
  if (!probe) return probe.error();
  auto store = Store::Open({.entries_max = options.entries_max,
                            .hash_bits = settings.hash_bits,
                            .hash_seed = settings.hash_seed,
                            .key_group = options.key_group,
                            .keeps_lineage = probe->rule->keeps_lineage(),
                            .unix_offset = settings.unix_offset},
                           std::move(tiers));
  if (!store) return store.error();
  return std::unique_ptr<Engine>(new Engine(settings, std::move(*store), transfer_queue));
}

Engine::Engine(const Settings& settings, std::unique_ptr<Store> store,
               TransferQueue* transfer_queue)
    : settings_(settings),
      store_(std::move(store)),
      transfer_queue_(transfer_queue),
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
    tier->dirty =
        std::make_unique<EvictionQueue>(from, id, false, tier->last(), options.policy, rules,
                                        &next_uses_, &tier->running, scores_.get());
    if (!tier->last()) {
      tier->clean = std::make_unique<EvictionQueue>(from, id, true, true, options.policy, rules,
                                                    &next_uses_, &tier->running, scores_.get());
    }
    tier->running.most = capacity(id) / 2;
    top_ = tier.get();
    if (bottom_ == nullptr) bottom_ = tier.get();
    states_[i] = std::move(tier);
  }
  if (!single()) candidates_.reserve(kCandidatesMax);  // The end of a transfer must need no memory.
}

Engine::~Engine() = default;

// --- writes ---

// Every refusal names the field, its value and the limit.
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
    if (loading_) RecordWrittenDuringRecovery(slot.key());
    if (slot.has_deadline) ReserveOne(deadlines_);
  } catch (const std::bad_alloc&) {
    Abort(reservation);
    throw;
  }
  // What follows needs no memory.
  if (recovery_failed_) TombstoneUnseen();
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
  // One step from the old generation to the new: a reader finds one of the two and
  // never a gap. The old one is removed only then.
  const EntryId id = store_->Commit(reservation, old, now);
  if (old != kNoSlot) RemoveHidden(old, {Action::kDestroy, Reason::kReplaced, {}}, now);
  FlushBeforeAnswer();
  ++sets_;
  if (uses_ != nullptr) NoteSet(id.slot);
  RecordTransfers(now);
  if (graph_ != nullptr) Introduce(id.slot, now);
  if (scores_ != nullptr) OnInsert(id.slot, now);
  Enter(id.slot);
  const Record& record = store_->slots().record(id.slot);
  if (slot.has_deadline) NoteDeadline(id, record.extra->deadline);
  if (top_->dirty->policy.rule->RunsAfterSet(level())) {
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
  // The device may still copy bytes into it.
  if (store_->ReservedIn(reservation) == TierId::kHost && InDoubt()) return;
  if (store_->ReservedIn(reservation) == TierId::kDisk) {
    // The blob may have been written, and must not be found in place of an older one.
    store_->disk()->Tombstone(store_->LowerCopiesOf(reservation).blob);
    deletes_pending_ = true;
  }
  store_->Abort(reservation);
  if (pending_sets_ != nullptr) RetryPendingSets(TimePoint(), false);
}

bool Engine::Erase(std::uint64_t hash, std::string_view key, TimePoint now) {
  if (loading_) RecordWrittenDuringRecovery(key);
  if (recovery_failed_) TombstoneUnseen();
  if (!MutantOn(Mutant::kGoneErasePending)) FlushBeforeAnswer();
  const std::uint32_t slot = store_->index().Lookup(hash, key);
  if (slot == kNoSlot) return false;
  RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kErased, {}}, now);
  RecordTransfers(now);
  if (pending_sets_ != nullptr) RetryPendingSets(now, false);
  return true;
}

void Engine::Clear(TimePoint now) {
  if (loading_) {
    cleared_during_recovery_ = kAllGroups;
    deletes_pending_ = true;
  }
  if (recovery_failed_) TombstoneUnseen();
  FlushBeforeAnswer();
  const std::size_t slots = store_->slots().in_use();
  for (std::uint32_t slot = 0; slot < store_->slots().high_water(); ++slot) {
    const auto word = store_->slots().slot(slot).word.Load();
    if (LeaseWord::StateOf(word) != SlotState::kVisible) continue;
    RemoveEvenIfLeased(slot, {Action::kDestroy, Reason::kCleared, {}}, now);
  }
  RecordTransfers(now);
  ShrinkAfter(slots);
}

// Scans the index and checks each entry's group; the counts by group only tell where to
// look.
void Engine::ClearGroup(std::uint8_t group, TimePoint now) {
  if (loading_ && !MutantOn(Mutant::kGroupComesBack)) {
    cleared_during_recovery_ |= std::uint32_t{1} << group;
    deletes_pending_ = true;
  }
  if (recovery_failed_) TombstoneUnseen();
  FlushBeforeAnswer();
  const Index& index = store_->index();
  if (MutantOn(Mutant::kGroupClearedByCount) &&
      index.counts().at(group).entries * 2 >= store_->entries()) {
    return Clear(now);
  }
  const std::size_t before = store_->slots().in_use();
  std::array<std::uint32_t, 256> found{};
  std::optional<std::uint64_t> cursor = index.FirstWith(0, group);
  while (cursor) {
    std::size_t count = 0;
    bool more = false;
    const std::uint64_t next = index.Scan(*cursor, [&](std::uint32_t slot) {
      if (store_->slots().slot(slot).group != group) return;
      if (count == found.size()) {
        more = true;
      } else {
        found.at(count++) = slot;
      }
    });
    if (MutantOn(Mutant::kFlushDbStopsEarly)) {
      count = std::min<std::size_t>(count, 1);
      more = false;
    }
    for (std::size_t i = 0; i < count; ++i) {
      RemoveEvenIfLeased(found.at(i), {Action::kDestroy, Reason::kCleared, {}}, now);
    }
    if (more) continue;  // The same place again.
    cursor = next == 0 ? std::nullopt : index.FirstWith(next, group);
  }
  RecordTransfers(now);
  if (pending_sets_ != nullptr) RetryPendingSets(now, false);
  ShrinkAfter(before);
}

// Many entries have been removed at once, and as many may not come again soon.
void Engine::ShrinkAfter(std::size_t before) {
  constexpr std::size_t kMany = 16'384;
  const std::size_t left = store_->slots().in_use();
  if (before - std::min(before, left) < kMany) return;
  store_->Shrink();
  if (scores_ != nullptr) scores_->Shrink();
  std::erase_if(deadlines_, [&](const Deadline& noted) { return !store_->IsLive(noted.id); });
  std::make_heap(deadlines_.begin(), deadlines_.end(), std::greater<>());
  deadlines_.shrink_to_fit();
}

void Engine::CancelPending() {
  pending_cancelled_ = true;
  const Status closed = Error{Code::kClosed, "closing"};  // Short: needs no memory.
  const auto answer = [&](PendingGet** pending_gets) {
    while (*pending_gets != nullptr) {
      PendingGet* const pending_get = std::exchange(*pending_gets, (*pending_gets)->next);
      pending_get->done(pending_get, nullptr, closed);
    }
  };
  answer(&for_loading_);
  for (Transfer* transfer : transfers_) answer(&transfer->pending_gets);
  while (pending_sets_ != nullptr) {
    PendingSet* const pending_set = pending_sets_;
    RemovePendingSet(pending_set);
    pending_set->retry(pending_set, true);
  }
}

// Retires every entry without an event. A leased entry becomes a zombie and is freed by
// its last reader.
void Engine::Close() {
  CancelPending();
  closed_ = true;
  for (Transfer* transfer : transfers_) transfer->cancelled.store(true, std::memory_order_relaxed);
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
  if (slot == stays_) {
    old_was_in_way_ = true;
    return false;
  }
  if (!TakeUnlessLeased(slot)) return false;
  store_->Hide(slot);
  Remove(slot, true, why, now);
  return true;
}

void Engine::RemoveEvenIfLeased(std::uint32_t slot, const Why& why, TimePoint now) {
  store_->Hide(slot);
  RemoveHidden(slot, why, now);
}

// Requires that the slot can't be found any more.
void Engine::RemoveHidden(std::uint32_t slot, const Why& why, TimePoint now) {
  Tombstone(slot);
  const bool owned = store_->slots().slot(slot).word.Kill();
  Remove(slot, owned || MutantOn(Mutant::kReplaceFreesLeased), why, now);
}

// The disk must learn of every blob of this key: the one it has, one being written, and
// one it had and may not have recorded as gone.
void Engine::Tombstone(std::uint32_t slot) {
  const Record& record = store_->slots().record(slot);
  if (record.below == nullptr || MutantOn(Mutant::kTombstoneForgotten)) return;
  const Transfer* const going = record.below->transfer;
  if (Has(record.copies, TierId::kDisk)) {
    store_->disk()->Tombstone(record.below->blob);
    deletes_pending_ = true;
  } else if (going != nullptr && going->to == TierId::kDisk) {
    store_->disk()->Tombstone(going->destination.blob);
    deletes_pending_ = true;
  } else if (record.below->had_blob) {
    deletes_pending_ = true;  // The disk may not have recorded yet that this blob is gone.
  }
}

// A write is answered when the journal has recorded every blob that is gone, not only
// the one that this write replaced: an older blob of the key may have been evicted, or
// replaced by a write that waits for the journal itself. has_pending_deletes() says whether
// there is any.
void Engine::FlushBeforeAnswer() {
  if (store_->disk() != nullptr) deletes_pending_ = true;
}

void Engine::TombstoneUnseen() {
  store_->disk()->TombstoneUnseen();
  deletes_pending_ = true;
}

void Engine::RecordWrittenDuringRecovery(std::string_view key) {
  keys_written_during_recovery_.emplace(key);
  deletes_pending_ = true;
}

void Engine::Remove(std::uint32_t slot, bool owned, const Why& why, TimePoint now) {
  ReleaseParent(slot, store_->slots().record(slot).copies);
  RemoveFromTier(slot, owned, why, now);
}

// A parent without children in a tier can be evicted there, so it enters the queue.
void Engine::ReleaseParent(std::uint32_t slot, TierMask tiers) {
  const std::uint32_t parent = store_->Detach(slot, tiers);
  if (parent == kNoSlot) return;
  const Record& record = store_->slots().record(parent);
  for (const TierId tier : kTierIds) {
    if (!Has(tiers & record.copies, tier) || record.children[IndexOf(tier)] != 0) continue;
    state(tier).QueueOf(record).Enter(store_->IdOf(parent));
  }
}

// The event comes first: it names the entry and its tier, which the following steps
// change.
void Engine::RemoveFromTier(std::uint32_t slot, bool owned, const Why& why, TimePoint now) {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  TierId from = store_->top();
  while (!Has(record.copies, from)) from = kTierIds[IndexOf(from) + 1];
  if (!MutantOn(Mutant::kRemovalUnlogged)) Log(slot, from, why, now);
  if (MutantOn(Mutant::kRemovalLoggedTwice)) Log(slot, from, why, now);
  for (const TierId tier : kTierIds) {
    if (Has(record.copies, tier)) state(tier).QueueOf(record).Left(id);
  }
  if (!ahead_.empty()) AheadGone(slot);
  if (graph_ != nullptr) ForgetNextUse(slot, why.reason != Reason::kReplaced);
  if (scores_ != nullptr) OnRemove(slot, why.reason, now);
  if (record.below != nullptr && record.below->transfer != nullptr) {
    record.below->transfer->cancelled.store(true, std::memory_order_relaxed);
  }
  store_->Retire(slot, owned);
}

void Engine::Log(std::uint32_t slot, TierId tier, const Why& why, TimePoint now) {
  const Slot& where = store_->slots().slot(slot);
  const Record& record = store_->slots().record(slot);
  Event event;
  event.at = now;
  event.key = where.key();
  event.generation = record.generation;
  event.action = why.action;
  event.reason = why.reason;
  event.level = level(tier);
  event.policy = top_->dirty->policy.name;
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
    if (Has(record.copies, tier)) state(tier).QueueOf(record).Enter(id);
  }
}

bool Engine::IsQueued(std::uint32_t slot) const {
  const EntryId id = store_->IdOf(slot);
  const Record& record = store_->slots().record(slot);
  return std::ranges::all_of(kTierIds, [&](TierId tier) {
    if (!Has(record.copies, tier)) return true;
    const EvictionQueue& queue = state(tier).QueueOf(record);
    Facts facts;
    const bool leaf = queue.view.Read(id, &facts) && facts.children == 0;
    // An entry in a transfer enters the queue again when the transfer ends.
    if (record.below != nullptr && record.below->transfer != nullptr) return true;
    return !leaf || queue.lacks_entries || queue.idle.Holds(id);
  });
}

// Once there is memory again, ranks the entries that could not be ranked for want of
// it.
void Engine::RankTheUnranked() {
  bool anybody = false;
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    for (EvictionQueue* queue : {tier->dirty.get(), tier->clean.get()}) {
      if (queue != nullptr) anybody = std::exchange(queue->lacks_entries, false) || anybody;
    }
  }
  anybody = ScoresAreIncomplete() || anybody;
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
    const bool corrects = tier.dirty->policy.rule->corrects_samples();
    double used = *pressure;
    const Bytes scale = corrects ? total : 0;
    // Our slack in shared chunks changes as our entries come and go: if it is known, it
    // is not counted as memory that others took.
    const Bytes held_now = held_then.value_or(store_->held(id));
    const Bytes ours = single() ? store_->bytes(id) : held_now;
    const double others = used * static_cast<double>(scale) - static_cast<double>(ours);
    const double taken = std::min(used, 1.0) * static_cast<double>(total);
    const auto held = static_cast<double>(held_now);
    if (!single() && total > 0) {
      // Memory that could be given back at once is no pressure.
      used -= static_cast<double>(store_->clean(id)) / static_cast<double>(total);
      used = std::max(used, 0.0);
    }
    // A source may report a wrong total: never convert a value that Bytes can't hold.
    constexpr double kMost = 1e18;
    const Bytes promised = tier.reservations.left();
    tier.reservations.See(taken > held ? static_cast<Bytes>(std::min(taken - held, kMost)) : 0);
    tier.estimator.Sampled(used, scale, DirtyBytes(tier), others, now,
                           Excess(promised, tier.reservations.left()));
    // The kernel can't take our clean pages by itself. They may count as available only
    // because we drop them before it runs short.
    if (id == TierId::kHost && !tier.last()) tier.reserve = settings_.host_reserve(total);
    SetLevel(tier, tier.governor->Sample(used, now), now);
  } else {
    ++tier.samples_failed;
    if (!tier.estimator.unknown()) tier.unknown_ceiling = store_->bytes(id);
    tier.estimator.Failed();
    SetLevel(tier, tier.governor->Sample(std::nullopt, now), now);
  }
}

bool Engine::Tick(TimePoint now) {
  ExpireOwnDeadlines(now);
  if (!single()) {
    ExpirePendingGets(now);
    FreeStaging(now);
  }
  RankTheUnranked();
  NoticeLoss(now);
  SyncGraph(now);
  bool more = false;
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    more = Expire(*tier, now) || more;
    CheckSampleAge(*tier, now);
    if (!tier->estimator.unknown())
      SetLevel(*tier, tier->governor->Tick(Pressure(*tier), now), now);
  }
  if (pending_sets_ != nullptr) RetryPendingSets(now, true);
  return more;
}

void Engine::ExpectSamplesEvery(TierId tier, Duration period, TimePoint now) {
  state(tier).sample_period = period;
  state(tier).sampled_at = now;
}

bool Engine::IsSampleOld(const TierState& tier, TimePoint now) {
  if (tier.sample_period == Duration::zero() || tier.estimator.unknown()) return false;
  if (MutantOn(Mutant::kStaleSampleTrusted)) return false;
  return now - tier.sampled_at > 3 * tier.sample_period;
}

void Engine::CheckSampleAge(TierState& tier, TimePoint now) {
  if (IsSampleOld(tier, now)) Sample(tier.id, std::nullopt, 0, now);
}

void Engine::ForgetPressure() {
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    tier->estimator.Reset();
    tier->governor->Reset();
    tier->level.store(Level::kRelaxed, std::memory_order_relaxed);
  }
}

// The only place where a tier's level changes.
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

void Engine::RecordTransfers(TimePoint now) {
  for (TierState* tier = top_; tier != nullptr; tier = tier->below) {
    if (tier->level.load(std::memory_order_relaxed) == Level::kRelaxed ||
        tier->estimator.unknown()) {
      continue;
    }
    tier->governor->Note(Pressure(*tier), now);
  }
}

}  // namespace spillway
