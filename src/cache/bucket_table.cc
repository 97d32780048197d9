// SPDX-License-Identifier: Apache-2.0
#include "cache/bucket_table.h"

#include <sched.h>

#include <algorithm>
#include <bit>

#include "base/reserved_memory.h"
#include "base/strand.h"

namespace spillway {

Result<BucketTable::Room> BucketTable::SetAside(const SlotTable& slots) {
  Room room;
  room.buckets_max = std::bit_ceil(
      std::max<std::uint64_t>(slots.capacity() / kEntriesPerBucket + 1, kFirstBuckets));
  room.buckets = static_cast<Bucket*>(ReserveZeroed(room.buckets_max * sizeof(Bucket)));
  room.segments = static_cast<std::uint32_t*>(
      ReserveZeroed(kKeyGroups * kSegments * sizeof(std::uint32_t), Pages::kSmall));
  if (room.buckets != nullptr && room.segments != nullptr) return room;
  GiveBack(room);
  return Error{Code::kNoMemory, "no address space for the index"};
}

void BucketTable::GiveBack(const Room& room) {
  UnreserveZeroed(room.buckets, room.buckets_max * sizeof(Bucket));
  UnreserveZeroed(room.segments, kKeyGroups * kSegments * sizeof(std::uint32_t));
}

BucketTable::BucketTable(SlotTable* slots, const KeyHasher* second, const Room& room)
    : first_slot_(&slots->slot(0)),
      buckets_(room.buckets),
      // Slot numbers + 1 reach up to the capacity.
      tag_mask_(static_cast<std::uint32_t>(~std::uint64_t{0} << std::bit_width(slots->capacity()))),
      extent_(std::bit_cast<std::uint64_t>(Extent{kFirstBuckets, 2 * kFirstBuckets - 1})),
      second_(second),
      room_(room) {
  static_assert(sizeof(Bucket) == 64);
}

std::uint64_t BucketTable::HashOf(std::uint32_t id) const {
  const Slot& slot = first_slot_[id];
  return second_ == nullptr ? slot.hash.load(std::memory_order_relaxed)
                            : second_->Second(slot.key());
}

void BucketTable::Lock(Bucket& bucket) {
  std::uint32_t seen = bucket.version.load(std::memory_order_relaxed);
  for (int looks = 0; (seen & kBusy) != 0 ||
                      !bucket.version.compare_exchange_weak(
                          seen, seen | kBusy, std::memory_order_acquire, std::memory_order_relaxed);
       ++looks) {
    looks < kLooksBeforeSleep ? PauseBriefly() : static_cast<void>(sched_yield());
    seen = bucket.version.load(std::memory_order_relaxed);
  }
  // Keeps the writes made under the lock from being seen before the version is odd.
  std::atomic_thread_fence(std::memory_order_release);
}

// --- the caller holds the bucket's lock ---

std::size_t BucketTable::CountIn(const Bucket& bucket) const {
  std::size_t count = 0;
  VisitAll(bucket, [&](std::uint32_t) { ++count; });
  return count;
}

bool BucketTable::HasRoom(const Bucket& bucket) const {
  std::uint32_t at = bucket.overflow.load(std::memory_order_relaxed);
  std::size_t chain = 0;
  for (; at != 0 && chain < kChainMost; ++chain) {
    at = first_slot_[at - 1].next.load(std::memory_order_relaxed);
  }
  return chain < kChainMost;
}

void BucketTable::Place(Bucket& bucket, std::uint32_t id, std::uint64_t hash) {
  std::size_t at = HomeOf(hash);
  for (std::size_t i = 0; i < kLinks; ++i) {
    if (bucket.links[at].load(std::memory_order_relaxed) == 0) {
      bucket.links[at].store(TagOf(hash) | (id + 1), std::memory_order_release);
      return;
    }
    if (++at == kLinks) at = 0;
  }
  first_slot_[id].next.store(bucket.overflow.load(std::memory_order_relaxed),
                             std::memory_order_release);
  bucket.overflow.store(id + 1, std::memory_order_release);
}

bool BucketTable::TryUnlink(Bucket& bucket, std::uint32_t id, std::uint64_t hash) {
  const std::uint32_t wanted = TagOf(hash) | (id + 1);
  for (Link32& link : bucket.links) {
    if (link.load(std::memory_order_relaxed) != wanted) continue;
    // The first of the chain takes the place, so that a chain exists only while all
    // links are in use.
    const std::uint32_t first = bucket.overflow.load(std::memory_order_relaxed);
    if (first == 0) {
      link.store(0, std::memory_order_release);
      return true;
    }
    link.store(TagOf(HashOf(first - 1)) | first, std::memory_order_release);
    bucket.overflow.store(first_slot_[first - 1].next.load(std::memory_order_relaxed),
                          std::memory_order_release);
    return true;
  }
  Link32* link = &bucket.overflow;
  for (std::uint32_t at = link->load(std::memory_order_relaxed); at != 0;
       at = link->load(std::memory_order_relaxed)) {
    Link32& next = first_slot_[at - 1].next;
    if (at == id + 1) {
      link->store(next.load(std::memory_order_relaxed), std::memory_order_release);
      return true;
    }
    link = &next;
  }
  return false;
}

bool BucketTable::TryReplace(Bucket& bucket, std::uint32_t old, std::uint32_t id,
                             std::uint64_t hash) {
  for (Link32& link : bucket.links) {
    if (link.load(std::memory_order_relaxed) != (TagOf(hash) | (old + 1))) continue;
    link.store(TagOf(hash) | (id + 1), std::memory_order_release);
    return true;
  }
  Link32* link = &bucket.overflow;
  for (std::uint32_t at = link->load(std::memory_order_relaxed); at != old + 1;
       at = link->load(std::memory_order_relaxed)) {
    if (at == 0) return false;
    link = &first_slot_[at - 1].next;
  }
  first_slot_[id].next.store(first_slot_[old].next.load(std::memory_order_relaxed),
                             std::memory_order_release);
  link->store(id + 1, std::memory_order_release);
  return true;
}

std::uint32_t BucketTable::Lookup(const Bucket& bucket, std::uint64_t hash, std::uint64_t of_slot,
                                  std::string_view key) const {
  const Slot* found = nullptr;
  const auto is_it = [&](const Slot& slot) {
    if (slot.hash.load(std::memory_order_relaxed) != of_slot || !slot.KeyIs(key)) return false;
    found = &slot;
    return true;
  };
  if (AnyOf(bucket, hash, is_it)) return static_cast<std::uint32_t>(found - first_slot_);
  std::uint32_t at = bucket.overflow.load(std::memory_order_relaxed);
  while (at != 0 && !is_it(first_slot_[at - 1])) {
    at = first_slot_[at - 1].next.load(std::memory_order_relaxed);
  }
  return at == 0 ? kNoSlot : at - 1;
}

// --- size ---

void BucketTable::Grow(std::uint64_t entries) {
  const std::uint32_t buckets = extent().buckets;
  if (entries > std::uint64_t{buckets} * kEntriesPerBucket && buckets < room_.buckets_max) {
    SplitOne();
  }
}

// Adds bucket number `buckets`, which takes over its share of the bucket that its
// hashes selected until now.
void BucketTable::SplitOne() {
  const std::uint32_t added = extent().buckets;
  const std::uint32_t now = added + 1;
  const Extent after{now, 2 * std::bit_floor(now) - 1};
  Bucket& bucket = buckets_[added - std::bit_floor(added)];
  Bucket& half = buckets_[added];
  if (added >= touched_) {
    half.version.store(first_version_, std::memory_order_relaxed);
    touched_ = now;
  }
  Lock(bucket);
  Lock(half);  // No reader can select it yet.
  extent_.store(std::bit_cast<std::uint64_t>(after), std::memory_order_release);
  const auto place = [&](std::uint32_t id, std::uint64_t hash) {
    Place(BucketOf(hash, after) == added ? half : bucket, id, hash);
  };
  std::uint32_t chain = bucket.overflow.exchange(0, std::memory_order_relaxed);
  for (Link32& link : bucket.links) {
    const std::uint32_t was = link.load(std::memory_order_relaxed);
    if (was == 0) continue;
    const std::uint64_t hash = HashOf(SlotOf(was));
    if (BucketOf(hash, after) != added) continue;
    link.store(0, std::memory_order_release);
    place(SlotOf(was), hash);
  }
  while (chain != 0) {
    const std::uint32_t id = chain - 1;
    chain = first_slot_[id].next.load(std::memory_order_relaxed);
    place(id, HashOf(id));
  }
  // Entries of either bucket may be in the second table.
  half.version.fetch_or(bucket.version.load(std::memory_order_relaxed) & kSpilled,
                        std::memory_order_relaxed);
  Unlock(half);
  Unlock(bucket);
}

// Merges the last bucket into the one it was split from. False: together they hold too
// many entries.
bool BucketTable::MergeOne() {
  const std::uint32_t last = extent().buckets - 1;
  if (last < kFirstBuckets) return false;
  const Extent after{last, 2 * std::bit_floor(last) - 1};
  Bucket& bucket = buckets_[last - std::bit_floor(last)];
  Bucket& half = buckets_[last];
  Lock(bucket);
  Lock(half);
  const bool fits = CountIn(bucket) + CountIn(half) <= kLinks + kChainMost;
  if (fits) {
    extent_.store(std::bit_cast<std::uint64_t>(after), std::memory_order_release);
    std::uint32_t chain = half.overflow.exchange(0, std::memory_order_relaxed);
    for (Link32& link : half.links) {
      const std::uint32_t was = link.exchange(0, std::memory_order_relaxed);
      if (was != 0) Place(bucket, SlotOf(was), HashOf(SlotOf(was)));
    }
    while (chain != 0) {
      const std::uint32_t id = chain - 1;
      chain = first_slot_[id].next.load(std::memory_order_relaxed);
      Place(bucket, id, HashOf(id));
    }
    bucket.version.fetch_or(half.version.load(std::memory_order_relaxed) & kSpilled,
                            std::memory_order_relaxed);
  }
  Unlock(half);
  Unlock(bucket);
  return fits;
}

void BucketTable::Shrink(std::uint64_t entries) {
  // Shrink only far below the size at which it would grow, so that it does not grow
  // again at once.
  constexpr std::uint32_t kSparse = 4;
  while (entries * kSparse < std::uint64_t{extent().buckets} * kEntriesPerBucket && MergeOne()) {
  }
  const std::uint32_t keep = std::max(extent().buckets, kFirstBuckets);
  constexpr std::uint32_t kWorthwhile = 1024;
  if (touched_ - keep < kWorthwhile) return;
  ForgetZeroed(&buckets_[keep], (touched_ - keep) * sizeof(Bucket));
  touched_ = keep;
  first_version_ += kStep << 16;
}

// --- walking ---

// Whether entries of that group may be in a bucket of the lower half (`mask`) or in the
// one that was split off from it.
bool BucketTable::MayHold(std::uint32_t bucket, std::uint32_t mask, std::uint8_t group) const {
  if (mask >= kSegments - 1) return SegmentOf(group, bucket % kSegments) != 0;
  for (std::uint32_t at = bucket; at < kSegments; at += mask + 1) {
    if (SegmentOf(group, at) != 0) return true;
  }
  return false;
}

std::optional<std::uint64_t> BucketTable::FirstWith(std::uint64_t cursor,
                                                    std::uint8_t group) const {
  const std::uint64_t mask = extent().mask >> 1;
  const std::uint64_t step = std::min<std::uint64_t>(mask, kSegments - 1);
  std::uint64_t at = cursor & mask;
  while (!MayHold(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(mask), group)) {
    at = Next(at & step, step);  // The first of the next segment.
    if (at == 0) return std::nullopt;
  }
  return at;
}

std::optional<std::uint32_t> BucketTable::SegmentWith(std::uint8_t group,
                                                      std::uint64_t rank) const {
  for (std::uint32_t segment = 0; segment < kSegments; ++segment) {
    const std::uint32_t here = SegmentOf(group, segment);
    if (rank < here) return segment;
    rank -= here;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> BucketTable::AtRandom(std::uint32_t segment,
                                                   std::uint64_t random) const {
  constexpr std::size_t kPlaces = 32;
  static_assert(kPlaces >= kLinks + kChainMost);
  const std::uint32_t buckets = extent().buckets;
  const std::uint64_t of_segment =
      buckets < kSegments ? 1 : (buckets - segment + kSegments - 1) / kSegments;
  const std::uint64_t which = (random >> 32) % of_segment;
  const Bucket& bucket =
      buckets < kSegments ? BucketFor(segment) : buckets_[segment + which * kSegments];
  std::size_t place = random % kPlaces;
  if (place < kLinks) {
    const std::uint32_t link = bucket.links.at(place).load(std::memory_order_relaxed);
    return link == 0 ? std::nullopt : std::optional(SlotOf(link));
  }
  std::uint32_t at = bucket.overflow.load(std::memory_order_relaxed);
  for (place -= kLinks; at != 0 && place > 0; --place) {
    at = first_slot_[at - 1].next.load(std::memory_order_relaxed);
  }
  return at == 0 ? std::nullopt : std::optional(at - 1);
}

std::size_t BucketTable::fullest() const {
  std::size_t most = 0;
  for (std::uint32_t i = 0; i < extent().buckets; ++i) {
    most = std::max(most, CountIn(buckets_[i]));
  }
  return most;
}

}  // namespace spillway
