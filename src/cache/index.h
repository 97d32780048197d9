// SPDX-License-Identifier: Apache-2.0
// The Index finds slots by key. Readers take no lock: they scan one bucket for links
// that carry the right bits of the hash, lease the slot a link points to, and compare
// the key while they hold the lease. The strand links and unlinks.
//
// A hit needs no further proof: a leased, visible slot with the right key is the right
// one. A miss does: the scan may have passed by a slot that was moved to another place
// at the same time. So a miss counts only if the bucket's version has not changed
// meanwhile (bucket_table.h). A hit touches two cache lines, the bucket and its slot; a
// miss mostly touches one.
//
// There are two tables. Entries are linked in the first, by a fast hash. If a bucket of
// it holds thirty entries, which only keys chosen to collide achieve, the next entry
// goes to the second table, by a hash that resists such keys. So a lookup walks at most
// one bucket of each table.
//
// Invariants
//   1. Every change to a key's links is made under the lock of the key's bucket in the
//      first table, even if the entry is in the second; that lock is taken first. So
//      the version of the first bucket covers both tables.
//   2. A bucket of the first table is marked as spilled before any of its entries can
//      be found in the second table, and stays marked.
//   3. An entry stays in the table it was linked in until it is unlinked.
//
// The index also counts its entries, in all and by group of keys (Options::key_group):
// every insert and removal passes through here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/key_hasher.h"
#include "cache/bucket_table.h"
#include "cache/slot.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway {

class Index {
 public:
  enum class Use : std::uint8_t { kCount, kPeek };  // Acquire or Pin.

  // `hash_bits` below 64 make collisions on purpose, for tests.
  static Result<std::unique_ptr<Index>> Open(SlotTable* slots, int hash_bits, HashSeed seed = {});
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  std::uint64_t HashOf(std::string_view key) const;

  // --- any thread ---

  // The visible slot with that key, leased for the caller; null: not found. If this
  // lookup released the last lease of a zombie, `reap` is set to that slot: the caller
  // must reap it and look up again.
  Slot* Find(std::uint64_t hash, std::string_view key, Use use, Slot** reap) const;

  // For many keys at once: prefetch all buckets, then guess all slots (which prefetches
  // them), then Find, which tries the guess first. The guess may be null or wrong.
  void PrefetchBucket(std::uint64_t hash) const { __builtin_prefetch(&first_.BucketFor(hash)); }
  // The same before a link or an unlink.
  void PrefetchToChange(std::uint64_t hash) const { PrefetchForWrite(&first_.BucketFor(hash)); }
  Slot* Guess(std::uint64_t hash) const;
  Slot* Find(std::uint64_t hash, std::string_view key, Use use, Slot* guess, Slot** reap) const;

  // --- strand only ---

  // Makes a slot findable; its key and hash are written.
  void Link(std::uint32_t slot);
  void Unlink(std::uint32_t slot);
  // `slot` takes the place of `old`, which has the same key, in one step: a reader
  // always finds one of the two, and never the old one after the new one.
  void Replace(std::uint32_t old, std::uint32_t slot);
  // A linked slot got a deadline (1), or lost its deadline (-1).
  void CountDeadline(std::uint32_t slot, int by);
  // Makes a linked slot private, runs `work`, and makes it visible again. A lookup
  // meanwhile neither finds nor misses it: it tries again. False: the slot has other
  // leases than `pins` (LeaseWord::TryEvict).
  template <typename Work>
  bool Rework(std::uint32_t slot, Work&& work, std::uint64_t pins = 0) {
    Slot& where = first_slot_[slot];
    bool alone = false;
    first_.Locked(where.hash.load(std::memory_order_relaxed), [&](Bucket&) {
      alone = where.word.TryEvict(pins);
      if (!alone) return;
      work();
      where.word.Restore();
    });
    return alone;
  }
  // The linked slot with that key, not leased; kNoSlot: none.
  std::uint32_t Lookup(std::uint64_t hash, std::string_view key) const {
    const BucketTable::Bucket& bucket = first_.BucketFor(hash);
    const std::uint32_t slot = first_.Lookup(bucket, hash, hash, key);
    return slot != kNoSlot || !IsSpilled(bucket) ? slot : LookupFarther(hash, key);
  }

  // --- walking, strand only ---

  // Calls `visit` with the slots at `cursor` (0 begins) and returns the next cursor; 0:
  // that was all. A slot that is linked from the first call to the last is visited at
  // least once, even if the table grows or shrinks in between.
  template <typename Visit>
  std::uint64_t Scan(std::uint64_t cursor, Visit&& visit) const;
  // The first cursor from `cursor` on at which entries of a group may be: skips what is
  // empty. Empty: there are no more.
  std::optional<std::uint64_t> FirstWith(std::uint64_t cursor, std::uint8_t group) const;
  // A random entry of a group that is `good`, all equally likely as long as many are
  // good. `random` is the source of randomness. kNoSlot: there is none.
  template <typename Good>
  std::uint32_t AnyOf(std::uint8_t group, std::uint64_t random, Good&& good) const;

  // --- counts, strand only ---

  struct Count {
    std::uint64_t entries = 0;
    std::uint64_t with_deadline = 0;
  };
  const std::array<Count, kKeyGroups>& counts() const { return counts_; }

  // Gives back memory of a table that was once much fuller.
  void Shrink();
  Bytes bytes() const;
  // The most slots that one lookup can meet.
  std::size_t longest_walk() const { return first_.fullest() + second_.fullest(); }
  std::uint64_t in_second() const { return in_second_; }

 private:
  using Bucket = BucketTable::Bucket;
  // Set in cursors of the second table. Above any bucket number, and within what
  // clients with signed cursors can handle.
  static constexpr std::uint64_t kSecondCursor = std::uint64_t{1} << 40;

  Index(SlotTable* slots, const BucketTable::Room& first, const BucketTable::Room& second,
        int hash_bits, HashSeed seed);

  static bool IsSpilled(const Bucket& bucket) {
    return (bucket.version.load(std::memory_order_relaxed) & BucketTable::kSpilled) != 0;
  }
  static LeaseWord::Got TryLease(Slot& slot, std::uint64_t hash, std::string_view key, Use use);
  // The rest of a Find after the links of its bucket, which it read at `version`.
  // `proven`: if nothing was found and the bucket still has that version, the key is
  // absent.
  Slot* FindFarther(const Bucket& bucket, std::uint64_t hash, std::string_view key, Use use,
                    std::uint32_t version, Slot** reap, bool* proven) const;
  Slot* FindInSecond(std::uint64_t hash, std::string_view key, Use use, Slot** reap,
                     bool* proven) const;
  Slot* FindInChain(const Bucket& bucket, std::uint64_t hash, std::string_view key, Use use,
                    std::uint32_t version, Slot** reap) const;
  std::uint32_t LookupFarther(std::uint64_t hash, std::string_view key) const;
  std::uint64_t SecondHashOf(std::uint32_t slot) const {
    return hasher_.Second(first_slot_[slot].key());
  }
  // The caller holds the bucket's lock. False: the bucket was full, and the second
  // table has the entry.
  bool PlaceInFirst(Bucket& bucket, std::uint32_t slot, std::uint64_t hash);
  void Grow();
  void CountIn(std::uint32_t slot, std::uint64_t hash, bool in_second, int by);

  // A random entry of a group in one segment: see AnyOf.
  template <typename Good>
  static std::uint32_t AnyIn(const BucketTable& table, std::uint32_t segment, std::uint64_t* random,
                             Good&& good);
  static std::uint64_t NextRandom(std::uint64_t* state);

  BucketTable first_;
  Slot* const first_slot_;
  const std::uint64_t hash_mask_;
  const KeyHasher hasher_;
  BucketTable second_;
  std::uint64_t linked_ = 0;
  std::array<Count, kKeyGroups> counts_{};
  std::uint64_t in_second_ = 0;
};

template <typename Visit>
std::uint64_t Index::Scan(std::uint64_t cursor, Visit&& visit) const {
  if ((cursor & kSecondCursor) == 0) {
    const std::uint64_t next = first_.Scan(cursor, visit);
    return next != 0 || in_second() == 0 ? next : kSecondCursor;
  }
  const std::uint64_t next = second_.Scan(cursor & (kSecondCursor - 1), visit);
  return next == 0 ? 0 : next | kSecondCursor;
}

template <typename Good>
std::uint32_t Index::AnyIn(const BucketTable& table, std::uint32_t segment, std::uint64_t* random,
                           Good&& good) {
  // Where many entries are of the group, a few random places suffice to meet one.
  constexpr int kTries = 32;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::optional<std::uint32_t> slot = table.AtRandom(segment, NextRandom(random));
    if (slot && good(*slot)) return *slot;
  }
  std::uint32_t found = kNoSlot;
  std::uint64_t seen = 0;
  table.VisitSegment(segment, [&](std::uint32_t slot) {
    if (good(slot) && NextRandom(random) % ++seen == 0) found = slot;
  });
  return found;
}

template <typename Good>
std::uint32_t Index::AnyOf(std::uint8_t group, std::uint64_t random, Good&& good) const {
  constexpr int kTries = 16;
  const std::uint64_t all = counts_.at(group).entries;
  const auto fits = [&](std::uint32_t slot) {
    return first_slot_[slot].group == group && good(slot);
  };
  for (int tries = 0; all > 0 && tries < kTries; ++tries) {
    const std::uint64_t rank = NextRandom(&random) % all;
    const std::uint64_t in_first = first_.CountOf(group);
    const BucketTable& table = rank < in_first ? first_ : second_;
    const std::optional<std::uint32_t> segment =
        table.SegmentWith(group, rank < in_first ? rank : rank - in_first);
    if (!segment) continue;
    const std::uint32_t slot = AnyIn(table, *segment, &random, fits);
    if (slot != kNoSlot) return slot;
  }
  // Few entries are good: the first one will do.
  std::uint32_t found = kNoSlot;
  std::optional<std::uint64_t> at = FirstWith(0, group);
  while (at && found == kNoSlot) {
    const std::uint64_t next = Scan(*at, [&](std::uint32_t slot) {
      if (found == kNoSlot && fits(slot)) found = slot;
    });
    at = next == 0 ? std::nullopt : FirstWith(next, group);
  }
  return found;
}

}  // namespace spillway
