// Writes: bytes copied on the caller's thread, admitted and committed on the
// strand, and settled with the disk.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/later.h"
#include "base/log.h"
#include "base/printable.h"
#include "cache/core.h"

namespace spillway {

namespace {
constexpr std::size_t kOperationsInFlightMax = 1 << 16;
// How long a write waits until the disk knows that what it replaced has gone. A
// disk that takes longer hangs, and is not waited for again until it answers.
constexpr Duration kSettleWithin = std::chrono::seconds(1);
}  // namespace

Status Core::CheckSource(std::string_view key, const Source& source,
                         const SetOptions& options) const {
  Bytes bytes = 0;
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.data == nullptr && fragment.bytes > 0) {
      return Error{Code::kInvalidArgument,
                   fmt::format("set '{}': a fragment of {} bytes at a null pointer", Printable(key),
                               fragment.bytes)};
    }
    if (__builtin_add_overflow(bytes, fragment.bytes, &bytes)) {
      return Error{
          Code::kTooLarge,
          fmt::format("set '{}': its fragments are more than any memory can hold", Printable(key))};
    }
    if (fragment.place == Place::kDevice && !on_gpu_) {
      return Error{Code::kInvalidArgument,
                   fmt::format("set '{}': a device fragment, but the tier is on the cpu device; "
                               "host fragments are right here",
                               Printable(key))};
    }
  }
  return engine_->Check(key, bytes, options);
}

namespace {

// A set that waits for room on its caller's thread.
struct WaitingSet : Engine::Parked {
  Core* core = nullptr;
  const NewEntry* entry = nullptr;
  Result<std::uint32_t> slot = std::uint32_t{kNoSlot};
  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;  // Guarded by mutex.

  void End() {
    const std::lock_guard lock(mutex);
    done = true;
    wake.notify_one();
  }
};

Error NoRoomInTime(std::string_view key) {
  return {
      Code::kBlocked,
      fmt::format("set '{}': room was being made for it in the tiers below, and did not come in "
                  "time (room_wait)",
                  Printable(key))};
}

bool RetrySet(Engine::Parked* parked, bool expired) {
  auto* const set = static_cast<WaitingSet*>(parked);
  bool soon = false;
  // On somebody else's event, who has no part in it.
  try {
    set->slot = expired ? NoRoomInTime(set->entry->key)
                        : set->core->engine().Admit(*set->entry, set->core->clock().Now(), &soon);
  } catch (const std::bad_alloc&) {
    set->slot = Error{Code::kNoMemory, "no memory"};
    soon = false;
  }
  if (soon) return false;
  set->End();
  return true;
}

}  // namespace

Result<std::uint32_t> Core::WaitForRoom(const NewEntry& entry) {
  WaitingSet set;
  set.core = this;
  set.entry = &entry;
  set.retry = &RetrySet;
  RunOn(*strand_, [&] {
    const TimePoint now = clock_->Now();
    set.deadline = Later(now, options_.room_wait);
    // Room may have come since it was refused.
    bool soon = false;
    set.slot = engine_->Admit(entry, now, &soon);
    soon ? engine_->Park(&set) : set.End();
  });
  std::unique_lock lock(set.mutex);
  const bool in_time =
      set.wake.wait_for(lock, BoundedWait(options_.room_wait), [&] { return set.done; });
  lock.unlock();
  if (!in_time) {
    RunOn(*strand_, [&] {
      if (set.done) return;
      engine_->Unpark(&set);
      set.slot = Error{Code::kBlocked, "too late"};
    });
  }
  return std::move(set.slot);
}

bool Core::SetBeside(std::string_view key, std::uint64_t hash, const Source& source,
                     const SetOptions& options) {
  Inlet& inlet = engine_->inlet();
  const Bytes bytes = source.bytes();
  if (!inlet.open() || !Inlet::IsPlain(key, bytes, options)) return false;
  index_.PrefetchToChange(hash);
  Inlet::Lane& lane = inlet.LaneFor(bytes);
  const auto restock = [&] {
    try {
      engine_->Stock(&lane, bytes, clock_->Now());
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // No memory, or a client that throws where it is told: there is less in stock.
    }
  };
  bool stocked = false;
  for (;;) {
    bool stock = false;
    bool set = false;
    bool had_room = false;
    {
      // An event that takes its time is waited for as events are, asleep.
      if (!lane.lock.try_lock_briefly()) return false;
      const std::lock_guard held(lane.lock, std::adopt_lock);
      const std::uint32_t id = lane.Take(bytes, &stock);
      had_room = id != kNoSlot;
      if (had_room) {
        lane.PrefetchNext(engine_->store().slots());
        Slot& slot = engine_->store().slots().slot(id);
        slot.hash.store(hash, std::memory_order_relaxed);
        slot.key_bytes_less_one = static_cast<std::uint16_t>(key.size() - 1);
        std::memcpy(slot.inline_key, key.data(), key.size());
        slot.no_idle_ttl = !options.idle_ttl;
        set = WriteBeside(id, source);
        set ? lane.Came(id) : lane.PutBack(id);
      }
    }
    // While there is some left nobody need wait for more.
    if (had_room) {
      if (stock) TryRunBeside(*guarded_, restock);
      return set;
    }
    if (!stock || std::exchange(stocked, true)) return false;
    RunOn(*strand_, restock, true);
  }
}

// Of a reservation that is the caller's, its key written. False: it is not set, and
// still that.
bool Core::WriteBeside(std::uint32_t reservation, const Source& source) {
  Store& store = engine_->store();
  Slot& slot = store.slots().slot(reservation);
  slot.last_use.store(clock_->Coarse().time_since_epoch().count(), std::memory_order_relaxed);
  std::byte* const block = slot.data.load(std::memory_order_relaxed);
  return store.memory(TierId::kDevice)->Write(block, source).has_value() &&
         store.index().LinkNew(reservation);
}

Status Core::Set(std::string_view key, const Source& source, const SetOptions& options) {
  if (Status ok = CheckSource(key, source, options); !ok) return ok;
  Store& store = engine_->store();
  const std::uint64_t hash = index_.HashOf(key);
  if (SetBeside(key, hash, source, options)) return {};
  NewEntry entry{key, hash, source.bytes(), options, WhereIs(source)};
  bool soon = false;
  bool done = false;
  bool unsettled = false;
  bool* const may_wait = engine_->single() ? nullptr : &soon;
  Result<std::uint32_t> slot = std::uint32_t{kNoSlot};
  RunOn(*strand_, [&] {
    const TimePoint now = clock_->Now();
    entry.absent = store.index().Lookup(entry.hash, key) == kNoSlot;
    if (!entry.absent && entry.bytes <= kCopyOnStrandMax && engine_->Rewrite(entry, source, now)) {
      done = true;
      return;
    }
    slot = engine_->Admit(entry, now, may_wait);
    if (!slot || entry.bytes > kCopyOnStrandMax || store.ReservedIn(*slot) == TierId::kDisk) return;
    Tier* const tier = store.memory(store.ReservedIn(*slot));
    // The strand waits for no device.
    if (!tier->host_readable() || entry.place == Place::kDevice) return;
    if (Status written = tier->Write(store.slots().slot(*slot).data, source); !written) {
      engine_->Abort(*slot);
      slot = written.error();
      return;
    }
    engine_->Commit(*slot, now, entry.absent);
    engine_->Advise(key, Advice(options), now);
    unsettled = engine_->TakeUnsettled();
    done = true;
  });
  entry.absent = false;  // From here on others may set it, too.
  if (soon) slot = WaitForRoom(entry);
  if (!slot) return slot.error();
  if (!done) {
    if (Status filled = Fill(*slot, source); !filled) return filled;
    RunOn(*strand_, [&] {
      engine_->Commit(*slot, clock_->Now());
      engine_->Advise(key, Advice(options), clock_->Now());
      unsettled = engine_->TakeUnsettled();
    });
  }
  if (unsettled) SettleWrite();
  return {};
}

Status Core::Fill(std::uint32_t reservation, const Source& source) {
  Store& store = engine_->store();
  const TierId tier = store.ReservedIn(reservation);
  if (tier != TierId::kDisk) {
    // Only the device can read what lies on it, wherever it goes.
    Tier* const by = on_gpu_ ? store.memory(TierId::kDevice) : store.memory(tier);
    Status written = by->Write(store.slots().slot(reservation).data, source);
    if (!written) RunOn(*strand_, [&] { engine_->Abort(reservation); });
    return written;
  }
  BlobFacts facts;
  BlobId blob = kNoBlob;
  Seal seal;  // Made on the way.
  Status written;
  try {
    RunOn(*strand_, [&] {
      facts = store.BlobFactsOf(reservation);
      blob = store.BelowOf(reservation).blob;
    });
    if (WhereIs(source) == Place::kDevice) {
      std::vector<std::byte> by_way_of(source.bytes());
      written = store.memory(TierId::kDevice)->Write(by_way_of.data(), source);
      if (written) {
        const Source there(by_way_of.data(), by_way_of.size());
        written = store.disk()->Write(blob, facts, &seal, there, nullptr);
      }
    } else {
      written = store.disk()->Write(blob, facts, &seal, source, nullptr);
    }
  } catch (const std::bad_alloc&) {
    written = Error{Code::kNoMemory, "no memory"};
  }
  RunOn(*strand_, [&] {
    if (written) {
      store.BelowOf(reservation).seal = std::move(seal);
    } else {
      engine_->Abort(reservation);
    }
  });
  return written;
}

bool Core::Erase(std::string_view key) {
  if (key.empty()) return false;
  const std::uint64_t hash = engine_->store().index().HashOf(key);
  bool was_there = false;
  bool unsettled = false;
  RunOn(*strand_, [&] {
    was_there = engine_->Erase(hash, key, clock_->Now());
    unsettled = engine_->TakeUnsettled();
  });
  if (unsettled) SettleWrite();
  return was_there;
}

void Core::Clear() {
  bool unsettled = false;
  RunOn(*strand_, [&] {
    engine_->Clear(clock_->Now());
    unsettled = engine_->TakeUnsettled();
  });
  if (unsettled) SettleWrite();
}

// The new value stands, whatever the disk does; who wants to know more asks for
// it by Settle, Close, stats or Explain.
void Core::SettleWrite() {
  try {
    (void)Settle(kSettleWithin);
  } catch (const std::bad_alloc&) {
    // It was tried; only the words are missing.
  }
}

Status Core::Settle(Duration within) {
  BlobStore* const disk = engine_->store().disk();
  if (disk == nullptr || !needs_settling()) return {};
  // What is still being read in goes when it is found.
  Duration left = within;
  while (loading_.load(std::memory_order_acquire) && !loads_late_.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // real world: a disk is being read
    left -= std::chrono::milliseconds(1);
    if (left <= Duration::zero()) loads_late_.store(true, std::memory_order_relaxed);
  }
  if (disk->Settle(BoundedWait(within)) && !loading_.load(std::memory_order_acquire)) {
    said_unsettled_.store(false, std::memory_order_relaxed);
    return {};
  }
  const std::uint64_t unsettled = disk->stats().unsettled;
  // None is owed: the last of them are being written, and that takes too long.
  const std::string of_what =
      unsettled == 0 ? "the last values" : fmt::format("{} values", unsettled);
  const std::string why = disk->unsettled_why();  // It may just have been told.
  Error error{
      Code::kUnavailable,
      fmt::format("disk: it could not be told yet of {} that were set anew or erased: after a kill "
                  "an older one may be found ({})",
                  of_what, why.empty() ? "it takes long to answer" : why)};
  if (!said_unsettled_.exchange(true)) LogWarning("{}", error.message);
  return error;
}

bool Core::TakeTicket() {
  if (in_flight_.fetch_add(1, std::memory_order_relaxed) < kOperationsInFlightMax) return true;
  GiveTicket();
  return false;
}

}  // namespace spillway
