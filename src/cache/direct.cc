// SPDX-License-Identifier: Apache-2.0
#include "cache/direct.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/mutant.h"
#include "base/strand.h"
#include "cache/batch.h"

namespace spillway {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Abort();
  core_ = std::exchange(other.core_, nullptr);
  slot_ = other.slot_;
  data_ = other.data_;
  size_ = other.size_;
  was_there_ = other.was_there_;
  return *this;
}

void Reservation::Abort() noexcept {
  Core* const core = std::exchange(core_, nullptr);
  if (core == nullptr) return;
  RunOn(core->strand(), [&] { core->engine().Abort(slot_); });
}

Direct::Wrote Direct::CommitSlot(std::uint32_t slot, const SetOptions& options, TimePoint deadline,
                                 TimePoint now, bool absent) {
  Wrote wrote;
  Engine& engine = core_->engine();
  Store& store = engine.store();
  try {
    if (deadline != TimePoint::max()) engine.GiveDeadline(slot, deadline);
  } catch (const std::bad_alloc&) {
    engine.Abort(slot);
    wrote.status = NoMemory();
    return wrote;
  }
  const Slot& where = store.slots().slot(slot);
  const Advice advice(options);
  try {
    // Commit may remove the entry again before it returns, so the key is copied.
    const std::string key(advice.empty() ? std::string_view() : where.key());
    wrote.was_new = engine.Commit(slot, now, absent);
    engine.Advise(key, advice, now);
  } catch (const std::bad_alloc&) {
    wrote.status = NoMemory();
  }
  static_cast<void>(engine.TakeDeletesPending());  // has_pending_deletes() knows.
  return wrote;
}

std::optional<std::uint32_t> Direct::AdmitInMemory(const NewEntry& entry, TimePoint now,
                                                   Wrote* wrote) {
  Engine& engine = core_->engine();
  const Result<std::uint32_t> slot =
      engine.Admit(entry, now, engine.single() ? nullptr : &wrote->soon);
  if (!slot) {
    wrote->status = slot.error();
    return std::nullopt;
  }
  const TierId in = engine.store().ReservedIn(*slot);
  if (in == TierId::kDisk || !engine.store().memory(in)->host_readable()) {
    engine.Abort(*slot);
    wrote->on_disk = true;
    return std::nullopt;
  }
  return *slot;
}

// Up to kCopyOnStrandMax bytes: one event on the strand. Larger values are copied on
// the caller's thread, between two events.
Direct::Wrote Direct::Set(std::string_view key, std::string_view value, const SetOptions& options,
                          TimePoint deadline) {
  if (value.size() > kCopyOnStrandMax) {
    Reservation room;
    Wrote wrote = Reserve(key, value.size(), options, &room);
    if (!room) return wrote;
    std::memcpy(room.data(), value.data(), value.size());
    return CommitAs(&room, options, deadline);
  }
  Wrote wrote;
  Engine& engine = core_->engine();
  if (wrote.status = engine.Check(key, value.size(), options); !wrote.status) return wrote;
  Store& store = engine.store();
  NewEntry entry{key, store.index().HashOf(key), value.size(), options, Place::kHost};
  entry.old_goes_last = true;
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    try {
      entry.absent = store.index().Lookup(entry.hash, key) == kNoSlot;
      const std::optional<std::uint32_t> slot = AdmitInMemory(entry, now, &wrote);
      if (!slot) return;
      const TierId in = store.ReservedIn(*slot);
      const Status written =
          store.memory(in)->Write(store.BlockIn(*slot, in), Source(value.data(), value.size()));
      if (!written) {
        engine.Abort(*slot);
        wrote.status = written;
        return;
      }
      const bool was_there = engine.replaced_for_room();
      wrote = CommitSlot(*slot, options, deadline, now, entry.absent);
      wrote.was_new = wrote.was_new && !was_there;
    } catch (const std::bad_alloc&) {
      wrote.status = NoMemory();
    }
  });
  return wrote;
}

Direct::Wrote Direct::Reserve(std::string_view key, Bytes bytes, const SetOptions& options,
                              Reservation* reservation, Old old) {
  Wrote wrote;
  Engine& engine = core_->engine();
  if (wrote.status = engine.Check(key, bytes, options); !wrote.status) return wrote;
  Store& store = engine.store();
  NewEntry entry{key, store.index().HashOf(key), bytes, options, Place::kHost};
  entry.old_stays = old == Old::kStays && !MutantOn(Mutant::kRoomOfOldValue);
  entry.old_goes_last = !entry.old_stays;
  RunOn(core_->strand(), [&] {
    try {
      const std::optional<std::uint32_t> slot = AdmitInMemory(entry, core_->clock().Now(), &wrote);
      if (!slot) {
        wrote.old_in_way = !wrote.on_disk && engine.old_was_in_way();
        return;
      }
      reservation->core_ = core_;
      reservation->slot_ = *slot;
      reservation->data_ = store.BlockIn(*slot, store.ReservedIn(*slot));
      reservation->size_ = bytes;
      reservation->was_there_ = core_->engine().replaced_for_room();
    } catch (const std::bad_alloc&) {
      wrote.status = NoMemory();
    }
  });
  return wrote;
}

Direct::Wrote Direct::Commit(Reservation* reservation, TimePoint deadline) {
  Wrote wrote;
  RunOn(core_->strand(),
        [&] { wrote = CommitSlot(reservation->slot_, {}, deadline, core_->clock().Now()); });
  reservation->core_ = nullptr;
  wrote.was_new = wrote.was_new && !reservation->was_there_;
  return wrote;
}

Direct::Wrote Direct::CommitAs(Reservation* reservation, const SetOptions& options,
                               TimePoint deadline) {
  Wrote wrote;
  Engine& engine = core_->engine();
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    try {
      wrote.status = engine.Describe(reservation->slot_, options, now);
    } catch (const std::bad_alloc&) {
      wrote.status = NoMemory();
    }
    if (wrote.status) {
      wrote = CommitSlot(reservation->slot_, options, deadline, now);
    } else {
      engine.Abort(reservation->slot_);
    }
  });
  reservation->core_ = nullptr;
  wrote.was_new = wrote.was_new && !reservation->was_there_;
  return wrote;
}

void Direct::Advise(std::string_view key, const SetOptions& said) {
  core_->Advise(key, Advice(said));
}

void Direct::Submit(Operation* operations, std::size_t count, Duration within, Completion done,
                    TimePoint ttl_from) {
  Batch::Submit(core_->shared_from_this(), operations, count, within, std::move(done), ttl_from);
}

// An entry whose deadline has passed is erased, too, but counts as absent.
bool Direct::Erase(std::string_view key) {
  if (key.empty()) return false;
  Engine& engine = core_->engine();
  const std::uint64_t hash = engine.store().index().HashOf(key);
  bool was_there = false;
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    const std::uint32_t slot = engine.store().index().Lookup(hash, key);
    const bool over = slot != kNoSlot && engine.DeadlineOf(slot) <= now;
    was_there = engine.Erase(hash, key, now) && !over;
    static_cast<void>(engine.TakeDeletesPending());
  });
  return was_there;
}

void Direct::Clear() {
  RunOn(core_->strand(), [&] {
    core_->engine().Clear(core_->clock().Now());
    static_cast<void>(core_->engine().TakeDeletesPending());
  });
}

std::optional<TimePoint> Direct::DeadlineOf(std::string_view key) {
  if (key.empty()) return std::nullopt;
  const Engine& engine = core_->engine();
  const std::uint64_t hash = engine.store().index().HashOf(key);
  std::optional<TimePoint> deadline;
  RunOn(core_->strand(), [&] {
    const std::uint32_t slot = engine.store().index().Lookup(hash, key);
    if (slot == kNoSlot || engine.DeadlineOf(slot) <= core_->clock().Now()) return;
    deadline = engine.DeadlineOf(slot);
  });
  return deadline;
}

Direct::Changed Direct::ChangeDeadline(std::string_view key, TimePoint deadline) {
  if (key.empty()) return Changed::kAbsent;
  Engine& engine = core_->engine();
  const std::uint64_t hash = engine.store().index().HashOf(key);
  Changed changed = Changed::kAbsent;
  RunOn(core_->strand(), [&] {
    const std::uint32_t slot = engine.store().index().Lookup(hash, key);
    if (slot == kNoSlot || engine.DeadlineOf(slot) <= core_->clock().Now()) return;
    engine.ChangeDeadline(slot, deadline);
    static_cast<void>(engine.TakeDeletesPending());  // has_pending_deletes() knows.
    changed = Changed::kYes;
  });
  return changed;
}

std::optional<Direct::Facts> Direct::FactsOf(std::string_view key) {
  if (key.empty()) return std::nullopt;
  const Engine& engine = core_->engine();
  const Store& store = engine.store();
  const std::uint64_t hash = store.index().HashOf(key);
  std::optional<Facts> facts;
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    const std::uint32_t id = store.index().Lookup(hash, key);
    if (id == kNoSlot || engine.DeadlineOf(id) <= now) return;
    const Slot& slot = store.slots().slot(id);
    const Extra* const extra = store.slots().record(id).extra;
    facts.emplace();
    facts->bytes = slot.size;
    facts->idle_ttl = !slot.no_idle_ttl;
    facts->held = slot.size + sizeof(Slot) + sizeof(Record) +
                  (slot.key_bytes() > kInlineKeyBytes ? slot.key_bytes() : 0);
    if (extra != nullptr) facts->held += sizeof(Extra) + extra->agent.size() + extra->meta.size();
    facts->accesses = LeaseWord::AcquiresOf(slot.word.Load());
    facts->idle = now - TimePoint(Duration(slot.last_use.load(std::memory_order_relaxed)));
  });
  return facts;
}

std::uint64_t Direct::Scan(std::uint64_t cursor,
                           const std::function<void(std::string_view)>& visit) {
  return Scan(cursor, 1, visit);
}

std::array<Index::Count, kKeyGroups> Direct::CountGroups() {
  std::array<Index::Count, kKeyGroups> counts;
  RunOn(core_->strand(), [&] { counts = core_->engine().store().index().counts(); });
  return counts;
}

void Direct::ClearGroup(std::uint8_t group) {
  RunOn(core_->strand(), [&] {
    core_->engine().ClearGroup(group, core_->clock().Now());
    static_cast<void>(core_->engine().TakeDeletesPending());
  });
}

std::string Direct::AnyKey(std::uint8_t group, std::uint64_t random) {
  const Engine& engine = core_->engine();
  const Store& store = engine.store();
  std::string key;
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    const std::uint32_t slot = store.index().AnyOf(
        group, random, [&](std::uint32_t id) { return engine.DeadlineOf(id) > now; });
    if (slot != kNoSlot) key = store.slots().slot(slot).key();
  });
  return key;
}

std::uint64_t Direct::Scan(std::uint64_t cursor, std::size_t buckets,
                           const std::function<void(std::string_view)>& visit,
                           std::optional<std::uint8_t> group) {
  const Engine& engine = core_->engine();
  const Store& store = engine.store();
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    for (std::size_t i = 0; i < buckets; ++i) {
      if (group) {
        const std::optional<std::uint64_t> at = store.index().FirstWith(cursor, *group);
        if (!at) {
          cursor = 0;
          return;
        }
        cursor = *at;
      }
      cursor = store.index().Scan(cursor, [&](std::uint32_t slot) {
        if (engine.DeadlineOf(slot) > now) visit(store.slots().slot(slot).key());
      });
      if (cursor == 0) return;
    }
  });
  return cursor;
}

bool Direct::has_pending_deletes() const {
  if (MutantOn(Mutant::kReplyBeforeFlush)) return false;
  return core_->engine().store().disk() != nullptr && core_->has_pending_deletes();
}

}  // namespace spillway
