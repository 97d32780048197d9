// SPDX-License-Identifier: Apache-2.0
// A BucketTable is one hash table of links to slots. A bucket is one cache line and
// carries a version, by which a lock-free reader can tell whether what it saw there is
// consistent. The Index has two such tables and says what each is for; this file says
// how one works.
//
// A bucket has fourteen links. Each is a slot number and as many bits of the hash as
// the number leaves free. Entries that do not fit are in a chain, through Slot::next.
// The version is odd while a writer holds the bucket: making it odd is how the bucket
// is locked. A reader that found nothing knows that the key was absent if the version
// was even before and is the same after, and if the hash still selects this bucket.
//
// The table grows and shrinks by one bucket at a time (linear hashing), so that no
// operation pays for a whole resize. A split or a merge locks both buckets.
//
// The table also counts its entries by group and segment. A segment is all entries
// whose hashes have the same low bits. A bucket belongs to one segment, or in a small
// table to several, and Scan visits the buckets of a segment one after another.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/key_hasher.h"
#include "base/prefetch.h"
#include "cache/slot.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway {

class BucketTable {
 public:
  static constexpr std::size_t kLinks = 14;
  // Most entries in the chain of a bucket. Keys that were not chosen to collide rarely
  // reach this: with twelve entries per bucket on average, one bucket of four million.
  static constexpr std::size_t kChainMost = 16;
  // Entries per bucket, on average. Linear hashing splits in order, so the buckets not
  // yet split hold up to twice as many as the others: with six on average few overflow.
  static constexpr std::uint32_t kEntriesPerBucket = 6;
  static constexpr std::uint32_t kFirstBuckets = 256;
  static constexpr std::uint32_t kSegments = 4096;

  // Flags in a version; the bits above them count changes.
  static constexpr std::uint32_t kBusy = 1;
  static constexpr std::uint32_t kSpilled = 2;  // Some keys of this bucket are in the second table.
  static constexpr std::uint32_t kStep = 4;

  using Link32 = std::atomic<std::uint32_t>;
  struct alignas(64) Bucket {
    std::array<Link32, kLinks> links;  // Tag and slot number + 1; 0: empty.
    Link32 overflow;                   // Slot number + 1 of the first in the chain; 0: none.
    std::atomic<std::uint32_t> version;
  };
  // The number of buckets and the mask that selects one, in one word, so that no reader
  // sees one without the other.
  struct Extent {
    std::uint32_t buckets;
    std::uint32_t mask;  // One less than the least power of two above `buckets`.
  };

  // Address space for a table of as many entries as there are slots.
  struct Room {
    Bucket* buckets = nullptr;
    std::uint64_t buckets_max = 0;
    std::uint32_t* segments = nullptr;
  };
  // NoMemory: there is no such address space.
  static Result<Room> SetAside(const SlotTable& slots);
  static void GiveBack(const Room& room);

  // `second`: computes this table's hashes (KeyHasher::Second); null: they are in the
  // slots. The table owns `room` from now on.
  BucketTable(SlotTable* slots, const KeyHasher* second, const Room& room);
  ~BucketTable() { GiveBack(room_); }
  BucketTable(const BucketTable&) = delete;
  BucketTable& operator=(const BucketTable&) = delete;

  // --- any thread ---

  Extent extent() const { return std::bit_cast<Extent>(extent_.load(std::memory_order_acquire)); }
  Bucket& BucketFor(std::uint64_t hash) const { return buckets_[BucketOf(hash, extent())]; }
  std::uint32_t SlotOf(std::uint32_t link) const { return (link & ~tag_mask_) - 1; }

  // Calls `visit` with every slot of the bucket whose tag matches, the likeliest first,
  // until it returns true. Leaves out the chain.
  template <typename Visit>
  bool AnyOf(const Bucket& bucket, std::uint64_t hash, Visit&& visit) const;
  // Runs `work` with the bucket of `hash` locked.
  template <typename Work>
  void Locked(std::uint64_t hash, Work&& work);

  // --- the caller holds the bucket's lock ---

  // Whether one more entry fits into the chain.
  bool HasRoom(const Bucket& bucket) const;
  void Place(Bucket& bucket, std::uint32_t slot, std::uint64_t hash);
  // False: the slot is not linked in this bucket.
  bool TryUnlink(Bucket& bucket, std::uint32_t slot, std::uint64_t hash);
  // `slot` takes the place of `old`. False: `old` is not in this bucket.
  bool TryReplace(Bucket& bucket, std::uint32_t old, std::uint32_t slot, std::uint64_t hash);
  // `hash` is this table's hash of the key, `of_slot` the one stored in the slot.
  std::uint32_t Lookup(const Bucket& bucket, std::uint64_t hash, std::uint64_t of_slot,
                       std::string_view key) const;

  // --- strand only ---

  // Adds a bucket if `entries` need one more.
  void Grow(std::uint64_t entries);
  // Removes the buckets that `entries` do not need, and returns their memory.
  void Shrink(std::uint64_t entries);
  void Count(std::uint8_t group, std::uint64_t hash, int by) {
    SegmentOf(group, static_cast<std::uint32_t>(hash) % kSegments) +=
        static_cast<std::uint32_t>(by);
    counts_[group] += static_cast<std::uint64_t>(by);
  }
  std::uint64_t CountOf(std::uint8_t group) const { return counts_[group]; }
  // Calls `visit` with the slots at `cursor` (0 begins) and returns the next cursor; 0:
  // that was all.
  template <typename Visit>
  std::uint64_t Scan(std::uint64_t cursor, Visit&& visit) const;
  // The first cursor from `cursor` on at which entries of that group may be.
  std::optional<std::uint64_t> FirstWith(std::uint64_t cursor, std::uint8_t group) const;
  // The segment that holds the `rank`th entry of that group, by the counts.
  std::optional<std::uint32_t> SegmentWith(std::uint8_t group, std::uint64_t rank) const;
  // Calls `visit` with each slot in the buckets of a segment. In a small table these
  // also hold slots of other segments.
  template <typename Visit>
  void VisitSegment(std::uint32_t segment, Visit&& visit) const;
  // A random place in the buckets of a segment, all equally likely: the slot linked
  // there, if any.
  std::optional<std::uint32_t> AtRandom(std::uint32_t segment, std::uint64_t random) const;
  // Entries in the fullest bucket, with its chain.
  std::size_t fullest() const;
  Bytes bytes() const { return extent().buckets * sizeof(Bucket); }

 private:
  // With 2^k <= buckets < 2^(k+1): the low k+1 bits, or the low k bits if that bucket
  // does not exist yet.
  static std::uint32_t BucketOf(std::uint64_t hash, Extent extent) {
    const std::uint32_t wide = static_cast<std::uint32_t>(hash) & extent.mask;
    return wide < extent.buckets ? wide : wide & (extent.mask >> 1);
  }
  std::uint32_t TagOf(std::uint64_t hash) const {
    return static_cast<std::uint32_t>(hash >> 32) & tag_mask_;
  }
  // The low half of the hash selects the bucket. The top bits of the high half are the
  // tag; its low bits select the place in the bucket that is tried first.
  static std::size_t HomeOf(std::uint64_t hash) { return (((hash >> 32) & 15) * kLinks) >> 4; }
  std::uint64_t HashOf(std::uint32_t slot) const;
  std::uint32_t& SegmentOf(std::uint8_t group, std::uint32_t segment) const {
    return room_.segments[group * kSegments + segment];
  }
  bool MayHold(std::uint32_t bucket, std::uint32_t mask, std::uint8_t group) const;
  static std::uint64_t Next(std::uint64_t at, std::uint64_t mask);
  static void Lock(Bucket& bucket);
  static void Unlock(Bucket& bucket) {
    const std::uint32_t now = bucket.version.load(std::memory_order_relaxed);
    bucket.version.store((now & ~kBusy) + kStep, std::memory_order_release);
  }
  void SplitOne();
  bool MergeOne();
  std::size_t CountIn(const Bucket& bucket) const;
  template <typename Visit>
  void VisitAll(const Bucket& bucket, Visit&& visit) const;

  Slot* const first_slot_;
  Bucket* const buckets_;
  const std::uint32_t tag_mask_;  // The bits of a link that no slot number uses.
  std::atomic<std::uint64_t> extent_;
  // Members that change are on other cache lines: every reader needs those above.
  alignas(64) const KeyHasher* const second_;
  const Room room_;  // Segments: [group][segment].
  std::array<std::uint64_t, kKeyGroups> counts_{};
  std::uint32_t touched_ = kFirstBuckets;  // Buckets whose memory has been used.
  // Of a bucket whose memory is new: Shrink raises it, so that a late reader does not
  // meet a version that the bucket had before.
  std::uint32_t first_version_ = 0;
};

// always_inline: the compiler finds it too long for a loop, and calling it costs a hit
// a tenth of its time.
template <typename Visit>
[[gnu::always_inline]] inline bool BucketTable::AnyOf(const Bucket& bucket, std::uint64_t hash,
                                                      Visit&& visit) const {
  const std::uint32_t tag = TagOf(hash);
  std::size_t at = HomeOf(hash);
  for (std::size_t i = 0; i < kLinks; ++i) {
    const std::uint32_t link = bucket.links[at].load(std::memory_order_acquire);
    if ((link & tag_mask_) == tag && link != 0 && visit(first_slot_[SlotOf(link)])) return true;
    if (++at == kLinks) at = 0;
  }
  return false;
}

template <typename Work>
void BucketTable::Locked(std::uint64_t hash, Work&& work) {
  Bucket* bucket = &BucketFor(hash);
  Lock(*bucket);
  // It may have been split before we had the lock.
  while (bucket != &BucketFor(hash)) [[unlikely]] {
    Unlock(*bucket);
    bucket = &BucketFor(hash);
    Lock(*bucket);
  }
  work(*bucket);
  Unlock(*bucket);
}

template <typename Visit>
void BucketTable::VisitAll(const Bucket& bucket, Visit&& visit) const {
  for (const Link32& link : bucket.links) {
    if (const std::uint32_t to = link.load(std::memory_order_relaxed); to != 0) visit(SlotOf(to));
  }
  std::uint32_t at = bucket.overflow.load(std::memory_order_relaxed);
  while (at != 0) {
    const std::uint32_t slot = at - 1;
    at = first_slot_[slot].next.load(std::memory_order_relaxed);
    visit(slot);
  }
}

// The cursor counts with its highest bit first. When the table grows by a bit, the two
// halves of a bucket are neighbours in that order, so that nothing before the cursor
// moves behind it. When it shrinks, the cursor falls back to the first half, and some
// slots are visited again.
inline std::uint64_t BucketTable::Next(std::uint64_t at, std::uint64_t mask) {
  std::uint64_t bit = (mask + 1) >> 1;
  while (bit != 0 && (at & bit) != 0) {
    at &= ~bit;
    bit >>= 1;
  }
  return at | bit;
}

template <typename Visit>
std::uint64_t BucketTable::Scan(std::uint64_t cursor, Visit&& visit) const {
  const Extent extent = this->extent();
  const std::uint64_t mask = extent.mask >> 1;
  const std::uint64_t at = cursor & mask;
  VisitAll(buckets_[at], visit);
  if (at + mask + 1 < extent.buckets) VisitAll(buckets_[at + mask + 1], visit);
  return Next(at, mask);
}

template <typename Visit>
void BucketTable::VisitSegment(std::uint32_t segment, Visit&& visit) const {
  const std::uint32_t buckets = extent().buckets;
  if (buckets < kSegments) {
    VisitAll(BucketFor(segment), visit);
    return;
  }
  for (std::uint64_t at = segment; at < buckets; at += kSegments) VisitAll(buckets_[at], visit);
}

}  // namespace spillway
