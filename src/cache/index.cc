// SPDX-License-Identifier: Apache-2.0
#include "cache/index.h"

#include <sched.h>

#include <algorithm>
#include <cassert>

#include "base/hash.h"
#include "base/mutant.h"

namespace spillway {

namespace {
// A chain is a few slots long. A much longer walk has been led into a ring by slots
// that moved: it checks the version and starts again.
constexpr int kStepsBetweenChecks = 256;
constexpr int kTriesBeforeYield = 16;
}  // namespace

Result<std::unique_ptr<Index>> Index::Open(SlotTable* slots, int hash_bits, HashSeed seed) {
  const Result<BucketTable::Room> first = BucketTable::SetAside(*slots);
  if (!first) return first.error();
  const Result<BucketTable::Room> second = BucketTable::SetAside(*slots);
  if (!second) {
    BucketTable::GiveBack(*first);
    return second.error();
  }
  return std::unique_ptr<Index>(new Index(slots, *first, *second, hash_bits, seed));
}

Index::Index(SlotTable* slots, const BucketTable::Room& first, const BucketTable::Room& second,
             int hash_bits, HashSeed seed)
    : first_(slots, nullptr, first),
      first_slot_(&slots->slot(0)),
      hash_mask_(hash_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << hash_bits) - 1),
      hasher_(MutantOn(Mutant::kSeedNotUsed) ? HashSeed{} : seed),
      second_(slots, &hasher_, second) {}

[[gnu::flatten]] std::uint64_t Index::HashOf(std::string_view key) const {
  return HashBytes(key, hasher_.secret()) & hash_mask_;
}

// --- readers ---

// always_inline for the same reason as BucketTable::AnyOf.
[[gnu::always_inline]] inline LeaseWord::Got Index::TryLease(Slot& slot, std::uint64_t hash,
                                                             std::string_view key, Use use) {
  if (slot.hash.load(std::memory_order_relaxed) != hash) return LeaseWord::Got::kNo;
  const LeaseWord::Got got = use == Use::kCount ? slot.word.Acquire() : slot.word.Pin();
  if (got != LeaseWord::Got::kYes) return got;
  // The slot may have become another entry since its hash was read.
  if (slot.hash.load(std::memory_order_relaxed) == hash &&
      (slot.KeyIs(key) || MutantOn(Mutant::kKeyNotCompared))) {
    return LeaseWord::Got::kYes;
  }
  const LeaseWord::After after = use == Use::kCount ? slot.word.Undo() : slot.word.Release();
  return after == LeaseWord::After::kReap ? LeaseWord::Got::kNoAndReap : LeaseWord::Got::kNo;
}

// Scans without a lock. A hit ends at once; a miss is returned only if the version
// shows that nothing changed during the scan. Otherwise scans again.
Slot* Index::Find(std::uint64_t hash, std::string_view key, Use use, Slot** reap) const {
  for (int tries = 0;; ++tries) {
    const Bucket& bucket = first_.BucketFor(hash);
    const std::uint32_t before = bucket.version.load(std::memory_order_acquire);
    Slot* found = nullptr;
    const bool over = first_.AnyOf(bucket, hash, [&](Slot& slot) {
      const LeaseWord::Got got = TryLease(slot, hash, key, use);
      if (got == LeaseWord::Got::kNo) return false;
      (got == LeaseWord::Got::kYes ? found : *reap) = &slot;
      return true;
    });
    if (over) return found;
    bool proven = true;
    if (bucket.overflow.load(std::memory_order_acquire) != 0 ||
        (before & BucketTable::kSpilled) != 0) [[unlikely]] {
      found = FindFarther(bucket, hash, key, use, before, reap, &proven);
      if (found != nullptr || *reap != nullptr) return found;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    // The key may have been here before a split: a reader that missed it for that
    // reason sees another version, or another bucket.
    if (proven && (before & BucketTable::kBusy) == 0 &&
        bucket.version.load(std::memory_order_relaxed) == before &&
        &bucket == &first_.BucketFor(hash)) {
      return nullptr;
    }
    if (tries >= kTriesBeforeYield) sched_yield();
  }
}

Slot* Index::FindFarther(const Bucket& bucket, std::uint64_t hash, std::string_view key, Use use,
                         std::uint32_t version, Slot** reap, bool* proven) const {
  Slot* const found = FindInChain(bucket, hash, key, use, version, reap);
  if (found != nullptr || *reap != nullptr) return found;
  if ((version & BucketTable::kSpilled) == 0 || MutantOn(Mutant::kSecondTableNotRead)) {
    return nullptr;
  }
  return FindInSecond(hash, key, use, reap, proven);
}

// Entries of the second table change places there when others are linked or unlinked,
// which the version of the bucket in the first table does not show.
Slot* Index::FindInSecond(std::uint64_t hash, std::string_view key, Use use, Slot** reap,
                          bool* proven) const {
  const std::uint64_t second = hasher_.Second(key);
  const Bucket& bucket = second_.BucketFor(second);
  const std::uint32_t before = bucket.version.load(std::memory_order_acquire);
  Slot* found = nullptr;
  const bool over = second_.AnyOf(bucket, second, [&](Slot& slot) {
    const LeaseWord::Got got = TryLease(slot, hash, key, use);
    if (got == LeaseWord::Got::kNo) return false;
    (got == LeaseWord::Got::kYes ? found : *reap) = &slot;
    return true;
  });
  if (over) return found;
  found = FindInChain(bucket, hash, key, use, before, reap);
  std::atomic_thread_fence(std::memory_order_acquire);
  *proven = (before & BucketTable::kBusy) == 0 &&
            bucket.version.load(std::memory_order_relaxed) == before &&
            &bucket == &second_.BucketFor(second);
  return found;
}

Slot* Index::FindInChain(const Bucket& bucket, std::uint64_t hash, std::string_view key, Use use,
                         std::uint32_t version, Slot** reap) const {
  int steps = 0;
  std::uint32_t at = bucket.overflow.load(std::memory_order_acquire);
  while (at != 0) {
    Slot& slot = first_slot_[at - 1];
    const LeaseWord::Got got = TryLease(slot, hash, key, use);
    if (got == LeaseWord::Got::kYes) return &slot;
    if (got == LeaseWord::Got::kNoAndReap) {
      *reap = &slot;
      return nullptr;
    }
    at = slot.next.load(std::memory_order_acquire);
    if (++steps % kStepsBetweenChecks == 0 &&
        bucket.version.load(std::memory_order_acquire) != version) {
      return nullptr;
    }
  }
  return nullptr;
}

// Returns the first slot whose tag matches, unseen: to read it would wait for the very
// line that this call prefetches.
Slot* Index::Guess(std::uint64_t hash) const {
  Slot* guess = nullptr;
  first_.AnyOf(first_.BucketFor(hash), hash, [&](Slot& slot) {
    __builtin_prefetch(&slot, 1);
    guess = &slot;
    return true;
  });
  return guess;
}

Slot* Index::Find(std::uint64_t hash, std::string_view key, Use use, Slot* guess,
                  Slot** reap) const {
  if (guess != nullptr) {
    const LeaseWord::Got got = TryLease(*guess, hash, key, use);
    if (got == LeaseWord::Got::kYes) [[likely]]
      return guess;
    if (got == LeaseWord::Got::kNoAndReap) {
      *reap = guess;
      return nullptr;
    }
  }
  return Find(hash, key, use, reap);
}

// --- linking ---

bool Index::PlaceInFirst(Bucket& bucket, std::uint32_t id, std::uint64_t hash) {
  if (first_.HasRoom(bucket) || MutantOn(Mutant::kChainUnbounded)) {
    first_.Place(bucket, id, hash);
    return true;
  }
  // Mark it before the entry can be found in the second table. The bucket is locked, so
  // its version is odd.
  bucket.version.store(bucket.version.load(std::memory_order_relaxed) | BucketTable::kSpilled,
                       std::memory_order_release);
  const std::uint64_t second = SecondHashOf(id);
  second_.Locked(second, [&](Bucket& other) { second_.Place(other, id, second); });
  ++in_second_;
  return false;
}

std::uint32_t Index::LookupFarther(std::uint64_t hash, std::string_view key) const {
  const std::uint64_t second = hasher_.Second(key);
  return second_.Lookup(second_.BucketFor(second), second, hash, key);
}

void Index::Link(std::uint32_t id) {
  const std::uint64_t hash = first_slot_[id].hash.load(std::memory_order_relaxed);
  bool in_first = true;
  first_.Locked(hash, [&](Bucket& bucket) { in_first = PlaceInFirst(bucket, id, hash); });
  CountIn(id, hash, !in_first, 1);
  Grow();
}

void Index::CountIn(std::uint32_t id, std::uint64_t hash, bool in_second, int by) {
  const Slot& slot = first_slot_[id];
  const bool forgets_disk =
      MutantOn(Mutant::kDiskEntriesUncounted) || MutantOn(Mutant::kDbSizeForgetsDisk);
  if (forgets_disk && by > 0 && slot.data.load(std::memory_order_relaxed) == nullptr) {
    by = 0;
  }
  Count& count = counts_.at(slot.group);
  count.entries += static_cast<std::uint64_t>(by);
  if (slot.has_deadline) count.with_deadline += static_cast<std::uint64_t>(by);
  linked_ += static_cast<std::uint64_t>(by);
  in_second ? second_.Count(slot.group, SecondHashOf(id), by) : first_.Count(slot.group, hash, by);
}

void Index::CountDeadline(std::uint32_t id, int by) {
  counts_.at(first_slot_[id].group).with_deadline += static_cast<std::uint64_t>(by);
}

// After one more has been linked.
void Index::Grow() {
  const std::uint64_t in_second = this->in_second();
  first_.Grow(linked_ - std::min(linked_, in_second));
  if (in_second > 0) second_.Grow(in_second);
}

void Index::Shrink() {
  const std::uint64_t in_second = this->in_second();
  first_.Shrink(linked_ - std::min(linked_, in_second));
  second_.Shrink(in_second);
}

void Index::Unlink(std::uint32_t id) {
  const std::uint64_t hash = first_slot_[id].hash.load(std::memory_order_relaxed);
  bool in_first = true;
  first_.Locked(hash, [&](Bucket& bucket) {
    in_first = first_.TryUnlink(bucket, id, hash);
    if (in_first) return;
    const std::uint64_t second = SecondHashOf(id);
    second_.Locked(second, [&](Bucket& other) {
      [[maybe_unused]] const bool was_linked = second_.TryUnlink(other, id, second);
      assert(was_linked);
    });
    --in_second_;
  });
  CountIn(id, hash, !in_first, -1);
}

void Index::Replace(std::uint32_t old, std::uint32_t id) {
  const std::uint64_t hash = first_slot_[id].hash.load(std::memory_order_relaxed);
  first_.Locked(hash, [&](Bucket& bucket) {
    if (first_.TryReplace(bucket, old, id, hash)) return;
    const std::uint64_t second = SecondHashOf(id);
    second_.Locked(second, [&](Bucket& other) {
      [[maybe_unused]] const bool was_linked = second_.TryReplace(other, old, id, second);
      assert(was_linked);
    });
  });
  // The key is the same, and so are its group and segment.
  CountDeadline(id, int{first_slot_[id].has_deadline} - int{first_slot_[old].has_deadline});
}

// --- walking ---

std::optional<std::uint64_t> Index::FirstWith(std::uint64_t cursor, std::uint8_t group) const {
  if ((cursor & kSecondCursor) == 0) {
    const std::optional<std::uint64_t> at = first_.FirstWith(cursor, group);
    if (at) return at;
    cursor = kSecondCursor;
  }
  const std::optional<std::uint64_t> at = second_.FirstWith(cursor & (kSecondCursor - 1), group);
  return at ? std::optional(*at | kSecondCursor) : std::nullopt;
}

std::uint64_t Index::NextRandom(std::uint64_t* state) {
  std::uint64_t word = (*state += 0x9e3779b97f4a7c15ULL);
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

Bytes Index::bytes() const { return first_.bytes() + (in_second() == 0 ? 0 : second_.bytes()); }

}  // namespace spillway
