// The paths that need no strand: a hit, a release, a match.
#include <array>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/printable.h"
#include "cache/core.h"

namespace spillway {

Slot* Core::Find(std::uint64_t hash, std::string_view key, Index::Use use) {
  for (;;) {
    Slot* reap = nullptr;
    Slot* slot = index_.Find(hash, key, use, &reap);
    if (reap == nullptr) [[likely]]
      return slot;
    HandOverForReaping(reap);
  }
}

inline bool Core::Expired(Slot* slot) const {
  return slot->has_deadline && RecordOf(slot).extra->deadline <= clock_->Now();
}

inline void Core::Stamp(Slot* slot, TimePoint tick) {
  if (slot->last_use.load(std::memory_order_relaxed) < tick.time_since_epoch().count()) {
    slot->last_use.store(tick.time_since_epoch().count(), std::memory_order_relaxed);
  }
}

void Core::CountMiss() {
  static thread_local const std::size_t stripe =
      std::hash<std::thread::id>{}(std::this_thread::get_id());
  misses_[stripe % misses_.size()].value.fetch_add(1, std::memory_order_relaxed);
}

// Beside the path of a hit, and kept out of it.
[[gnu::noinline]] bool Core::Miss(Slot* expired) {
  if (expired != nullptr) {
    if (expired->word.Undo() == LeaseWord::After::kReap) HandOverForReaping(expired);
    Look();
  }
  CountMiss();
  return false;
}

inline void Core::HandOut(Slot* slot, TimePoint tick, Lease* lease) {
  if (!MutantOn(Mutant::kUseNotStamped)) Stamp(slot, tick);
  lease->core_ = this;
  lease->slot_ = slot;
  lease->data_ = slot->data;
  lease->size_ = slot->size;
}

inline bool Core::Lend(Slot* slot, TimePoint tick, Lease* lease) {
  if (slot == nullptr || Expired(slot)) return Miss(slot);
  HandOut(slot, tick, lease);
  return true;
}

bool Core::Get(std::string_view key, Lease* lease) {
  if (key.empty()) return false;
  const std::uint64_t hash = index_.HashOf(key);
  index_.PrefetchBucket(hash);
  // The time is read while the bucket arrives. Later it would cost more: taking
  // a lease is a barrier, behind which reading the clock has to wait.
  const TimePoint tick = clock_->Coarse();
  return Lend(Find(hash, key, Index::Use::kCount), tick, lease);
}

Result<std::optional<Lease>> Cache::Get(std::string_view key) {
  Result<std::optional<Lease>> got(std::in_place, std::in_place);
  if (!core_->Get(key, &**got)) got->reset();
  return got;
}

std::size_t Core::GetMany(const std::string_view* keys, std::size_t count, Lease* leases) {
  constexpr std::size_t kAhead = 32;  // As many cache misses as a core keeps in flight, and some.
  const TimePoint tick = clock_->Coarse();
  std::array<std::uint64_t, kAhead> hashes;
  std::array<Slot*, kAhead> guesses;
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
        slot = Find(hashes[i], key, Index::Use::kCount);
      }
      if (Lend(slot, tick, &leases[from + i])) ++hits;
    }
  }
  return hits;
}

Status Core::GetInto(std::string_view key, const Sink& sink, Operation* operation) {
  Lease lease;
  operation->found = Get(key, &lease);
  if (!lease) return {};
  operation->bytes = lease.size();
  for (const MutableFragment& fragment : sink.fragments()) {
    if (fragment.place == Place::kDevice) {
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
  engine_->store().tier()->Read(lease.data(), lease.size(), sink);
  return {};
}

bool Core::Contains(std::string_view key) {
  if (key.empty()) return false;
  Slot* slot = Find(index_.HashOf(key), key, Index::Use::kPeek);
  if (slot == nullptr) return false;
  const bool expired = Expired(slot);
  Release(slot);
  return !expired;
}

bool Core::Touch(std::string_view key) {
  Lease lease;
  return Get(key, &lease);
}

std::size_t Core::Match(const std::vector<std::string_view>& keys, std::vector<Lease>* leases) {
  const TimePoint tick = clock_->Coarse();
  std::size_t run = 0;
  std::uint64_t before = 0;  // Generation of the entry in front.
  for (const std::string_view key : keys) {
    if (key.empty()) break;
    Slot* slot = Find(index_.HashOf(key), key, leases ? Index::Use::kCount : Index::Use::kPeek);
    if (slot == nullptr) break;
    const Record& record = RecordOf(slot);
    // The first may be the middle of a longer chain; behind it every declared
    // parent must be the very generation in front.
    const bool linked = run == 0 || !record.parent_declared || record.parent_generation == before ||
                        MutantOn(Mutant::kMatchIgnoresGeneration);
    const bool root_broken = run == 0 && record.parent_declared && record.parent_generation == 0;
    if (!linked || root_broken || Expired(slot)) {
      const LeaseWord::After after = leases ? slot->word.Undo() : slot->word.Release();
      if (after == LeaseWord::After::kReap) HandOverForReaping(slot);
      break;
    }
    before = record.generation;
    ++run;
    if (leases != nullptr) {
      // Not Lend: if its time ran out just now, the run would have a hole.
      HandOut(slot, tick, &leases->emplace_back());
    } else {
      Release(slot);
    }
  }
  return run;
}

void Core::ForEach(const std::function<void(const Cache::EntryInfo&)>& visit) {
  SlotTable& slots = engine_->store().slots();
  const TimePoint now = clock_->Now();
  for (std::uint32_t id = 0; id < slots.high_water(); ++id) {
    Slot& slot = slots.slot(id);
    if (LeaseWord::StateOf(slot.word.Load()) != SlotState::kVisible) continue;
    const LeaseWord::Got got = slot.word.Pin();
    if (got == LeaseWord::Got::kNoAndReap) HandOverForReaping(&slot);
    if (got != LeaseWord::Got::kYes) continue;
    const Record& record = slots.record(id);
    const std::uint64_t word = slot.word.Load();
    Cache::EntryInfo info;
    info.key = slot.key();
    info.agent = AgentOf(slot, record);
    info.tokens = record.tokens;
    info.bytes = slot.size;
    info.access_count = LeaseWord::AcquiresOf(word);
    info.idle = now - TimePoint(Duration(slot.last_use.load(std::memory_order_relaxed)));
    info.leases = LeaseWord::LeasesOf(word) - 1;
    info.offloaded = std::atomic_ref(slots.record(id).offloaded).load(std::memory_order_relaxed);
    visit(info);
    Release(&slot);
  }
}

}  // namespace spillway
