#include "cache/direct.h"

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/strand.h"

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
    // It may have left again when Commit returns.
    const std::string key(advice.empty() ? std::string_view() : where.key());
    wrote.was_new = engine.Commit(slot, now, absent);
    engine.Advise(key, advice, now);
  } catch (const std::bad_alloc&) {
    wrote.status = NoMemory();
  }
  static_cast<void>(engine.TakeUnsettled());  // needs_settling() knows.
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
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    try {
      entry.absent = store.index().Lookup(entry.hash, key) == kNoSlot;
      if (!entry.absent && deadline == TimePoint::max() &&
          engine.Rewrite(entry, Source(value.data(), value.size()), now)) {
        return;
      }
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
                              Reservation* reservation) {
  Wrote wrote;
  Engine& engine = core_->engine();
  if (wrote.status = engine.Check(key, bytes, options); !wrote.status) return wrote;
  Store& store = engine.store();
  const NewEntry entry{key, store.index().HashOf(key), bytes, options, Place::kHost};
  RunOn(core_->strand(), [&] {
    try {
      const std::optional<std::uint32_t> slot = AdmitInMemory(entry, core_->clock().Now(), &wrote);
      if (!slot) return;
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
    static_cast<void>(engine.TakeUnsettled());
  });
  return was_there;
}

void Direct::Clear() {
  RunOn(core_->strand(), [&] {
    core_->engine().Clear(core_->clock().Now());
    static_cast<void>(core_->engine().TakeUnsettled());
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
    changed = engine.ChangeDeadline(slot, deadline) ? Changed::kYes : Changed::kSetAnew;
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

std::uint64_t Direct::Scan(std::uint64_t cursor, std::size_t buckets,
                           const std::function<void(std::string_view)>& visit) {
  const Engine& engine = core_->engine();
  const Store& store = engine.store();
  RunOn(core_->strand(), [&] {
    const TimePoint now = core_->clock().Now();
    for (std::size_t i = 0; i < buckets; ++i) {
      cursor = store.index().Scan(cursor, [&](std::uint32_t slot) {
        if (engine.DeadlineOf(slot) > now) visit(store.slots().slot(slot).key());
      });
      if (cursor == 0) return;
    }
  });
  return cursor;
}

bool Direct::needs_settling() const {
  return core_->engine().store().disk() != nullptr && core_->needs_settling();
}

}  // namespace spillway
