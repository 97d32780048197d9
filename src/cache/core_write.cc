// SPDX-License-Identifier: Apache-2.0
// Writes: bytes are copied on the caller's thread, admitted and committed on the
// strand, and recorded by the disk before the caller is answered.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/printable.h"
#include "base/saturating_add.h"
#include "cache/core.h"

namespace spillway {

namespace {
constexpr std::size_t kOperationsInFlightMax = 1 << 16;
// How long a write waits until the disk has recorded that the replaced value is gone. A
// disk that takes longer hangs; later writes do not wait for it until it answers.
constexpr Duration kFlushDeletesWithin = std::chrono::seconds(1);
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
struct WaitingSet : Engine::PendingSet {
  Core* core = nullptr;
  const NewEntry* entry = nullptr;
  Result<std::uint32_t> slot = std::uint32_t{kNoSlot};
  Mutex mutex;
  CondVar wake;
  bool done SPILLWAY_GUARDED_BY(mutex) = false;

  bool IsDone() {
    const MutexLock lock(mutex);
    return done;
  }
  void End() {
    const MutexLock lock(mutex);
    done = true;
    wake.notify_one();
  }
};

Error NoRoomInTime(std::string_view key) {
  return {
      Code::kBlocked,
      fmt::format("set '{}': room is being made for it in lower tiers, but not within room_wait",
                  Printable(key))};
}

// Called by the engine when there may be room, on the strand.
bool RetrySet(Engine::PendingSet* pending_set, bool expired) {
  auto* const set = static_cast<WaitingSet*>(pending_set);
  bool soon = false;
  // Runs in another call's event, which must not see our exceptions.
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
    set.deadline = SaturatingAdd(now, options_.room_wait);
    // There may be room since it was refused.
    bool soon = false;
    set.slot = engine_->Admit(entry, now, &soon);
    soon ? engine_->AddPendingSet(&set) : set.End();
  });
  bool in_time = false;
  {
    const MutexLock lock(set.mutex);
    in_time = set.wake.wait_for(set.mutex, BoundedWait(options_.room_wait),
                                [&]() SPILLWAY_REQUIRES(set.mutex) { return set.done; });
  }
  if (!in_time) {
    RunOn(*strand_, [&] {
      if (set.IsDone()) return;
      engine_->RemovePendingSet(&set);
      set.slot = Error{Code::kBlocked, "too late"};
    });
  }
  return std::move(set.slot);
}

// Small values in host memory are admitted, copied and committed in one event. Others
// take three steps: admitted on the strand, copied on this thread, committed on the
// strand; so a large copy does not hold up other events.
Status Core::Set(std::string_view key, const Source& source, const SetOptions& options) {
  if (Status ok = CheckSource(key, source, options); !ok) return ok;
  Store& store = engine_->store();
  const std::uint64_t hash = index_.HashOf(key);
  NewEntry entry{key, hash, source.bytes(), options, WhereIs(source)};
  bool soon = false;
  bool done = false;
  bool deletes_pending = false;
  bool* const may_wait = engine_->single() ? nullptr : &soon;
  Result<std::uint32_t> slot = std::uint32_t{kNoSlot};
  RunOn(*strand_, [&] {
    const TimePoint now = clock_->Now();
    entry.absent = store.index().Lookup(entry.hash, key) == kNoSlot;
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
    deletes_pending = engine_->TakeDeletesPending();
    done = true;
  });
  entry.absent = false;  // From here on other threads may set the key.
  if (soon) slot = WaitForRoom(entry);
  if (!slot) return slot.error();
  if (!done) {
    if (Status filled = Fill(*slot, source); !filled) return filled;
    RunOn(*strand_, [&] {
      engine_->Commit(*slot, clock_->Now());
      engine_->Advise(key, Advice(options), clock_->Now());
      deletes_pending = engine_->TakeDeletesPending();
    });
  }
  if (deletes_pending) FlushAfterWrite();
  return {};
}

Status Core::Fill(std::uint32_t reservation, const Source& source) {
  Store& store = engine_->store();
  const TierId tier = store.ReservedIn(reservation);
  if (tier != TierId::kDisk) {
    // Only the device can read its memory, wherever the bytes go.
    Tier* const by = on_gpu_ ? store.memory(TierId::kDevice) : store.memory(tier);
    Status written = by->Write(store.slots().slot(reservation).data, source);
    if (!written) RunOn(*strand_, [&] { engine_->Abort(reservation); });
    return written;
  }
  BlobFacts facts;
  BlobId blob = kNoBlob;
  Seal seal;  // Computed during the write.
  Status written;
  try {
    RunOn(*strand_, [&] {
      facts = store.BlobFactsOf(reservation);
      blob = store.LowerCopiesOf(reservation).blob;
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
      store.LowerCopiesOf(reservation).seal = std::move(seal);
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
  bool deletes_pending = false;
  RunOn(*strand_, [&] {
    was_there = engine_->Erase(hash, key, clock_->Now());
    deletes_pending = engine_->TakeDeletesPending();
  });
  if (deletes_pending) FlushAfterWrite();
  return was_there;
}

void Core::Clear() {
  bool deletes_pending = false;
  RunOn(*strand_, [&] {
    engine_->Clear(clock_->Now());
    deletes_pending = engine_->TakeDeletesPending();
  });
  if (deletes_pending) FlushAfterWrite();
}

// The new value is in force, whatever the disk does; FlushDeletes, Close, stats and Explain
// tell whether the disk has recorded it.
void Core::FlushAfterWrite() {
  try {
    // One write waits in vain for a folder that takes long to read; those behind it do not.
    if (!loads_late_.load(std::memory_order_relaxed) && !AwaitLoading(load_within_)) {
      loads_late_.store(true, std::memory_order_relaxed);
    }
    (void)FlushDeletes(kFlushDeletesWithin);
  } catch (const std::bad_alloc&) {
    // It was tried; there was only no memory for the message.
  }
}

bool Core::AwaitLoading(Duration within) {
  if (load_within_ <= Duration::zero()) return !loading();
  const auto until =
      std::chrono::steady_clock::now() + BoundedWait(within);  // real world: see below
  while (loading()) {
    if (std::chrono::steady_clock::now() > until) return false;  // real world: a disk is being read
    std::this_thread::sleep_for(std::chrono::milliseconds(1));   // real world: as above
  }
  return true;
}

Status Core::FlushDeletes(Duration within) {
  BlobStore* const disk = engine_->store().disk();
  if (disk == nullptr || !has_pending_deletes()) return {};
  // Older blobs that are still being read in are freed when they are found.
  const bool is_loaded = loads_late_.load(std::memory_order_relaxed) || AwaitLoading(within);
  if (disk->FlushDeletes(BoundedWait(within)) && is_loaded && !loading()) {
    said_pending_.store(false, std::memory_order_relaxed);
    return {};
  }
  const std::uint64_t deletes_pending = disk->stats().deletes_pending;
  // None is counted: the last ones are being written, and that takes too long.
  const std::string of_what =
      deletes_pending == 0 ? "the last values" : fmt::format("{} values", deletes_pending);
  const std::string why = disk->pending_why();  // It may just have been recorded.
  Error error{
      Code::kUnavailable,
      fmt::format("disk: deletes could not be written yet for {} that were set again, erased or "
                  "given another deadline: after a kill an older one may be found ({})",
                  of_what, why.empty() ? "the disk takes long to answer" : why)};
  if (!said_pending_.exchange(true)) LogWarning("{}", error.message);
  return error;
}

bool Core::TakeTicket() {
  if (in_flight_.fetch_add(1, std::memory_order_relaxed) < kOperationsInFlightMax) return true;
  GiveTicket();
  return false;
}

}  // namespace spillway
