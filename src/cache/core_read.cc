// SPDX-License-Identifier: Apache-2.0
// The paths that need no strand: hits, releases, matches.
#include <array>
#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/mutex.h"
#include "base/printable.h"
#include "base/reserve_one.h"
#include "base/saturating_add.h"
#include "base/thread_number.h"
#include "cache/core.h"
#include "device/host_copy.h"

namespace spillway {

namespace {
constexpr Duration kChainWait = std::chrono::seconds(10);  // As GetOptions::wait.
}  // namespace

Slot* Core::FindSlot(std::uint64_t hash, std::string_view key, Index::Use use) {
  for (;;) {
    Slot* reap = nullptr;
    Slot* slot = index_.Find(hash, key, use, &reap);
    if (reap == nullptr) [[likely]]
      return slot;
    HandOverForReaping(reap);
  }
}

inline bool Core::Expired(Slot* slot) const {
  const TimePoint deadline = DeadlineOf(*slot, RecordOf(slot));
  return deadline != TimePoint::max() && deadline <= clock_->Now();
}

// The stamp never goes back: threads with older ticks may come later. It is written
// only if it changes, since readers of one entry share its cache line.
inline void Core::Stamp(Slot* slot, TimePoint tick) {
  if (slot->last_use.load(std::memory_order_relaxed) < tick.time_since_epoch().count()) {
    slot->last_use.store(tick.time_since_epoch().count(), std::memory_order_relaxed);
  }
}

// Striped by thread, so that misses of many threads do not share a cache line.
void Core::CountMiss() {
  misses_[ThreadNumber() % misses_.size()].value.fetch_add(1, std::memory_order_relaxed);
}

// A separate function, so that the path of a hit stays short.
[[gnu::noinline]] Core::Found Core::Miss(Slot* expired) {
  if (expired != nullptr) {
    if (expired->word.Undo() == LeaseWord::After::kReap) HandOverForReaping(expired);
    Tick();
  } else if (loading_.load(std::memory_order_relaxed)) {
    return Found::kBelow;
  }
  CountMiss();
  return Found::kMiss;
}

[[gnu::noinline]] Core::Found Core::NotInMemory(Slot* slot) {
  if (slot->word.Undo() == LeaseWord::After::kReap) HandOverForReaping(slot);
  return Found::kBelow;
}

// The slot must be leased.
[[gnu::noinline]] void Core::NoteHit(const Slot& slot) const {
  const Record& record = RecordOf(&slot);
  uses_->Hit({slot.key(), record.tokens, slot.size, AgentOf(slot, record)});
}

inline void Core::HandOut(Slot* slot, const std::byte* data, TimePoint tick, Lease* lease,
                          bool is_use) {
  if (!MutantOn(Mutant::kUseNotStamped)) Stamp(slot, tick);
  if (uses_ != nullptr && is_use) [[unlikely]]
    NoteHit(*slot);
  lease->core_ = this;
  lease->slot_ = slot;
  lease->data_ = data;
  lease->size_ = slot->size;
}

// An expired entry is a miss at once, although the strand removes it only at its next
// tick.
inline Core::Found Core::Lend(Slot* slot, TimePoint tick, Lease* lease, bool is_use) {
  if (slot == nullptr || Expired(slot)) return Miss(slot);
  const std::byte* const data = slot->data.load(std::memory_order_acquire);
  if (data == nullptr) [[unlikely]]
    return NotInMemory(slot);
  HandOut(slot, data, tick, lease, is_use);
  return Found::kHit;
}

Core::Found Core::Find(std::string_view key, Lease* lease, bool is_use) {
  if (key.empty()) return Found::kMiss;
  const std::uint64_t hash = index_.HashOf(key);
  index_.PrefetchBucket(hash);
  // The clock is read while the bucket is fetched. Later it would cost more: taking a
  // lease is a barrier, and reading the clock would have to wait for it.
  const TimePoint tick = clock_->Coarse();
  const Found found = Lend(FindSlot(hash, key, Index::Use::kCount), tick, lease, is_use);
  if (found == Found::kMiss) [[unlikely]]
    engine_->NoteMiss(hash);
  return found;
}

Core::Found Core::Find(std::string_view key, std::optional<Place> where, Lease* lease) {
  if (!where || !on_gpu_) return Find(key, lease);
  // The code that brings it to `where` records the use.
  const Found found = Find(key, lease, false);
  if (found != Found::kHit) return found;
  if (PlaceOf(lease->data_) != *where && FindElsewhere(*where, lease) != Found::kHit) {
    return Found::kBelow;
  }
  if (uses_ != nullptr) NoteHit(*lease->slot_);
  return Found::kHit;
}

// The leased bytes are on the other side of the link: looks for a copy on this side.
// While the entry is leased, none of its copies is dropped.
[[gnu::noinline]] Core::Found Core::FindElsewhere(Place where, Lease* lease) {
  Slot* const slot = lease->slot_;
  const std::byte* data = nullptr;
  RunOn(*strand_, [&] {
    const Store& store = engine_->store();
    data = store.DataIn(store.slots().IdOf(slot), where);
  });
  if (data != nullptr) {
    lease->data_ = data;
    return Found::kHit;
  }
  // The code that brings it here counts the use.
  lease->slot_ = nullptr;
  lease->core_ = nullptr;
  return NotInMemory(slot);
}

Place Core::PlaceOf(const std::byte* data) const {
  return on_gpu_ && engine_->store().memory(TierId::kDevice)->Owns(data) ? Place::kDevice
                                                                         : Place::kHost;
}

Place Lease::place() const { return core_ == nullptr ? Place::kHost : core_->PlaceOf(data_); }

Result<std::optional<Lease>> Cache::Get(std::string_view key) {
  Result<std::optional<Lease>> got(std::in_place, std::in_place);
  const Core::Found found =
      core_->on_gpu() ? core_->Find(key, Place::kHost, &**got) : core_->Find(key, &**got);
  if (found != Core::Found::kHit) [[unlikely]]
    core_->NoHit(key, found, &got);
  return got;
}

[[gnu::noinline]] void Core::NoHit(std::string_view key, Found found,
                                   Result<std::optional<Lease>>* got) {
  try {
    if (found == Found::kBelow) {
      if (Status up = Fetch(key, Place::kHost, GetOptions().wait, &***got); !up) {
        *got = up.error();
        return;
      }
    }
  } catch (const std::bad_alloc&) {
    *got = Error{Code::kNoMemory, "no memory"};
    return;
  }
  if (!***got) (*got)->reset();
}

void Core::HandOver(Slot* leased, const std::byte* data, Lease* lease) {
  if (leased != nullptr && Expired(leased)) {
    // Not Miss, which advances time: this may be the strand.
    if (leased->word.Undo() == LeaseWord::After::kReap) HandOverForReaping(leased);
    CountMiss();
  } else if (leased != nullptr) {
    HandOut(leased, data, clock_->Coarse(), lease);
  } else {
    CountMiss();
  }
}

// A get that waits on its caller's thread until the value is in memory.
struct Core::WaitingGet : PendingGet {
  Mutex mutex;
  CondVar wake;
  bool is_done SPILLWAY_GUARDED_BY(mutex) = false;
  Slot* leased = nullptr;
  Status status;

  static void Done(PendingGet* self, Slot* leased, Status status) {
    auto* const get = static_cast<WaitingGet*>(self);
    const MutexLock lock(get->mutex);
    get->leased = leased;
    get->status = std::move(status);
    get->is_done = true;
    get->wake.notify_one();
  }
  bool IsDone() {
    const MutexLock lock(mutex);
    return is_done;
  }
};

// False: it was not answered in time, and will not be.
bool Core::Await(WaitingGet* get, Duration wait) {
  {
    const MutexLock lock(get->mutex);
    const auto done = [&]() SPILLWAY_REQUIRES(get->mutex) { return get->is_done; };
    if (get->wake.wait_for(get->mutex, BoundedWait(wait), done)) return true;
  }
  RunOn(*strand_, [&] {
    if (!get->IsDone()) engine_->Abandon(get);
  });
  return get->IsDone();
}

Status Core::Fetch(std::string_view key, std::optional<Place> where, Duration wait, Lease* lease) {
  if (wait <= Duration::zero()) {
    return Error{Code::kNotResident,
                 fmt::format("get '{}': it is not in {}, and wait is 0", Printable(key),
                             where == Place::kDevice ? "the device's memory" : "memory")};
  }
  WaitingGet get;
  get.where = where;
  get.hash = index_.HashOf(key);
  get.key = key;
  get.done = &WaitingGet::Done;
  RunOn(*strand_, [&] {
    const TimePoint now = clock_->Now();
    AdoptFound();
    get.deadline = SaturatingAdd(now, wait);
    engine_->Fetch(&get, now);
  });
  if (!Await(&get, wait)) {
    return Error{Code::kDeadline, fmt::format("get '{}': its bytes were not in memory within {} ms",
                                              Printable(key), wait / std::chrono::milliseconds(1))};
  }
  if (!get.status) return get.status;
  HandOver(get.leased, get.data, lease);
  return {};
}

std::size_t Core::Prefetch(const std::string_view* keys, std::size_t count) {
  std::size_t coming = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (keys[i].empty()) continue;
    const std::uint64_t hash = index_.HashOf(keys[i]);
    try {
      RunOn(*strand_, [&] { coming += engine_->Prefetch(hash, keys[i], clock_->Now()) ? 1 : 0; });
    } catch (const std::bad_alloc&) {
      continue;  // That key is not prefetched.
    }
  }
  return coming;
}

std::size_t Core::GetMany(const std::string_view* keys, std::size_t count, Lease* leases) {
  // A few more than the cache misses that a core keeps in flight.
  constexpr std::size_t kAhead = 32;
  const TimePoint tick = clock_->Coarse();
  std::array<std::uint64_t, kAhead> hashes;
  std::array<Slot*, kAhead> guesses;
  std::vector<std::size_t> below;
  std::size_t hits = 0;
  for (std::size_t from = 0; from < count; from += kAhead) {
    const std::size_t n = std::min(kAhead, count - from);
    for (std::size_t i = 0; i < n; ++i) {
      hashes[i] = index_.HashOf(keys[from + i]);
      index_.PrefetchBucket(hashes[i]);
    }
    for (std::size_t i = 0; i < n; ++i) guesses[i] = index_.Guess(hashes[i]);
    for (std::size_t i = 0; i < n; ++i) {
      const std::string_view key = keys[from + i];
      leases[from + i].Release();
      if (key.empty()) continue;
      Slot* reap = nullptr;
      Slot* slot = index_.Find(hashes[i], key, Index::Use::kCount, guesses[i], &reap);
      if (reap != nullptr) [[unlikely]] {
        HandOverForReaping(reap);
        slot = FindSlot(hashes[i], key, Index::Use::kCount);
      }
      const Found found = Lend(slot, tick, &leases[from + i]);
      hits += found == Found::kHit ? 1 : 0;
      if (found == Found::kMiss) [[unlikely]]
        engine_->NoteMiss(hashes[i]);
      if (found == Found::kBelow) [[unlikely]]
        below.push_back(from + i);
    }
  }
  return below.empty() ? hits : hits + FetchMany(keys, below, leases);
}

// Begins all loads before waiting for the first.
std::size_t Core::FetchMany(const std::string_view* keys, const std::vector<std::size_t>& which,
                            Lease* leases) {
  std::vector<WaitingGet> gets(which.size());
  RunOn(*strand_, [&] {
    const TimePoint now = clock_->Now();
    for (std::size_t i = 0; i < which.size(); ++i) {
      gets[i].hash = index_.HashOf(keys[which[i]]);
      gets[i].key = keys[which[i]];
      gets[i].done = &WaitingGet::Done;
      gets[i].deadline = SaturatingAdd(now, kChainWait);
      engine_->Fetch(&gets[i], now);
    }
  });
  std::size_t hits = 0;
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (!Await(&gets[i], kChainWait) || !gets[i].status) continue;
    HandOver(gets[i].leased, gets[i].data, &leases[which[i]]);
    hits += leases[which[i]] ? 1 : 0;
  }
  return hits;
}

Status Core::CopyOut(std::string_view key, const Lease& lease, const Sink& sink) const {
  for (const MutableFragment& fragment : sink.fragments()) {
    if (fragment.place == Place::kDevice && !on_gpu()) {
      return Error{Code::kInvalidArgument,
                   fmt::format("get '{}': a device fragment, but the tier is on the cpu device; "
                               "host fragments are right here",
                               Printable(key))};
    }
  }
  if (sink.bytes() < lease.size()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("get '{}': the sink has {} bytes, the value {}", Printable(key),
                             sink.bytes(), lease.size())};
  }
  // A GPU tells its own addresses from the host's. All memory of the cpu device is host
  // memory; the tier is asked because scenarios only pretend to have memory.
  if (const Tier* tier = engine_->store().memory(TierId::kDevice); tier != nullptr) {
    return tier->Read(lease.data(), lease.size(), sink);
  }
  ScatterFromHost(lease.data(), lease.size(), sink);
  return {};
}

Status Core::CopyOut(std::string_view key, const Sink& sink, Duration wait, Lease* lease) {
  Status copied = CopyOut(key, *lease, sink);
  if (copied || !on_gpu_ || !device_->is_lost() || lease->place() == Place::kHost) return copied;
  lease->Release();
  if (Status up = Fetch(key, Place::kHost, wait, lease); !up) return up;
  return *lease ? CopyOut(key, *lease, sink) : Status();
}

bool Core::Contains(std::string_view key) {
  if (key.empty()) return false;
  Slot* slot = FindSlot(index_.HashOf(key), key, Index::Use::kPeek);
  if (slot == nullptr) return false;
  const bool expired = Expired(slot);
  Release(slot);
  return !expired;
}

bool Core::Touch(std::string_view key) {
  if (key.empty()) return false;
  const TimePoint tick = clock_->Coarse();
  Slot* const slot = FindSlot(index_.HashOf(key), key, Index::Use::kCount);
  if (slot == nullptr || Expired(slot)) return Miss(slot) == Found::kHit;
  if (!MutantOn(Mutant::kUseNotStamped)) Stamp(slot, tick);
  if (uses_ != nullptr) NoteHit(*slot);
  Release(slot);
  return true;
}

std::size_t Core::Match(const std::vector<std::string_view>& keys, std::vector<Lease>* leases) {
  const TimePoint tick = clock_->Coarse();
  std::size_t run = 0;
  std::uint64_t before = 0;  // Generation of the previous entry.
  for (const std::string_view key : keys) {
    if (key.empty()) break;
    if (leases != nullptr) ReserveOne(*leases);
    const std::uint64_t hash = index_.HashOf(key);
    Slot* slot = FindSlot(hash, key, leases ? Index::Use::kCount : Index::Use::kPeek);
    if (slot == nullptr && leases != nullptr) engine_->NoteMiss(hash);
    if (slot == nullptr) break;
    const Record& record = RecordOf(slot);
    // The first key may be the middle of a longer chain. Behind it every declared
    // parent must be exactly the previous entry's generation.
    const bool linked = run == 0 || !record.parent_declared() ||
                        record.parent_generation == before ||
                        MutantOn(Mutant::kMatchIgnoresGeneration);
    const bool root_broken = run == 0 && record.parent_generation == kAbsentParent;
    if (!linked || root_broken || Expired(slot)) {
      const LeaseWord::After after = leases ? slot->word.Undo() : slot->word.Release();
      if (after == LeaseWord::After::kReap) HandOverForReaping(slot);
      break;
    }
    before = record.generation;
    ++run;
    if (leases != nullptr) {
      // Not Lend: if the entry expired just now, the run would have a hole. An entry
      // that is not in memory is brought up; until then the lease keeps it.
      Lease& lease = leases->emplace_back();
      if (slot->data.load(std::memory_order_acquire) == nullptr) {
        Lease up;
        Status here;
        try {
          here = Fetch(key, std::nullopt, kChainWait, &up);
        } catch (const std::bad_alloc&) {
          here = Error{Code::kNoMemory, "no memory"};
        }
        if (!here || !up || up.slot_ != slot) {
          leases->pop_back();
          --run;
          const LeaseWord::After after = slot->word.Undo();
          if (after == LeaseWord::After::kReap) HandOverForReaping(slot);
          break;
        }
      }
      HandOut(slot, slot->data.load(std::memory_order_acquire), tick, &lease);
    } else {
      Release(slot);
    }
  }
  return run;
}

namespace {

// Requires a lease of the caller, which is not counted.
Cache::EntryInfo InfoOf(const Slot& slot, Record& record, TimePoint now) {
  const std::uint64_t word = slot.word.Load();
  Cache::EntryInfo info;
  info.key = slot.key();
  info.agent = AgentOf(slot, record);
  info.tokens = record.tokens;
  info.bytes = slot.size;
  info.access_count = LeaseWord::AcquiresOf(word);
  info.idle = now - TimePoint(Duration(slot.last_use.load(std::memory_order_relaxed)));
  info.leases = LeaseWord::LeasesOf(word) - 1;
  info.offloaded = std::atomic_ref(record.offloaded).load(std::memory_order_relaxed);
  const TierMask copies = std::atomic_ref(record.copies).load(std::memory_order_relaxed);
  for (const TierId tier : kTierIds) {
    if (!Has(copies, tier)) continue;
    info.tier = spillway::Name(tier);
    info.clean = (copies & LowerCopiesMask(tier)) != 0;
    break;
  }
  return info;
}

}  // namespace

void Core::ForEach(const std::function<void(const Cache::EntryInfo&)>& visit) {
  SlotTable& slots = engine_->store().slots();
  const TimePoint now = clock_->Now();
  for (std::uint32_t id = 0; id < slots.high_water(); ++id) {
    Slot& slot = slots.slot(id);
    if (LeaseWord::StateOf(slot.word.Load()) != SlotState::kVisible) continue;
    const LeaseWord::Got got = slot.word.Pin();
    if (got == LeaseWord::Got::kNoAndReap) HandOverForReaping(&slot);
    if (got != LeaseWord::Got::kYes) continue;
    visit(InfoOf(slot, slots.record(id), now));
    Release(&slot);
  }
}

bool Core::Visit(std::string_view key, const std::function<void(const Cache::EntryInfo&)>& visit) {
  if (key.empty()) return false;
  Slot* const slot = FindSlot(index_.HashOf(key), key, Index::Use::kPeek);
  if (slot == nullptr) return false;
  const bool there = !Expired(slot);
  SlotTable& slots = engine_->store().slots();
  if (there) visit(InfoOf(*slot, slots.record(slots.IdOf(slot)), clock_->Now()));
  Release(slot);
  return there;
}

}  // namespace spillway
