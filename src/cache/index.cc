#include "cache/index.h"

#include <sched.h>

#include <bit>
#include <cassert>

#include "base/hash.h"
#include "base/mutant.h"
#include "base/reserved_memory.h"
#include "base/strand.h"

namespace spillway {

namespace {
// An overflow chain is a few slots long. A walk much longer than that has been
// led into a ring by slots that moved; it looks at the version and starts again.
constexpr int kStepsBetweenChecks = 256;
constexpr int kTriesBeforeYield = 16;
}  // namespace

Result<std::unique_ptr<Index>> Index::Open(SlotTable* slots, int hash_bits) {
  const std::uint64_t buckets_max = std::bit_ceil(
      std::max<std::uint64_t>(slots->capacity() / kEntriesPerBucket + 1, kFirstBuckets));
  void* buckets = ReserveZeroed(buckets_max * sizeof(Bucket));
  if (buckets == nullptr) return Error{Code::kNoMemory, "no address space for the index"};
  return std::unique_ptr<Index>(
      new Index(slots, static_cast<Bucket*>(buckets), buckets_max, hash_bits));
}

Index::Index(SlotTable* slots, Bucket* buckets, std::uint64_t buckets_max, int hash_bits)
    : slots_(slots),
      first_slot_(&slots->slot(0)),
      buckets_(buckets),
      buckets_max_(buckets_max),
      hash_mask_(hash_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << hash_bits) - 1),
      // Slot numbers + 1 reach up to the capacity.
      tag_mask_(static_cast<std::uint32_t>(~std::uint64_t{0} << std::bit_width(slots->capacity()))),
      extent_(std::bit_cast<std::uint64_t>(Extent{kFirstBuckets, 2 * kFirstBuckets - 1})) {
  static_assert(sizeof(Bucket) == 64);
}

Index::~Index() { UnreserveZeroed(buckets_, buckets_max_ * sizeof(Bucket)); }

[[gnu::flatten]] std::uint64_t Index::HashOf(std::string_view key) const {
  return HashBytes(key) & hash_mask_;
}

// The bucket is chosen by the low half of the hash, the tag by the top bits of
// the high half, and where in the bucket it would best stand by its low bits.
std::uint32_t Index::TagOf(std::uint64_t hash) const {
  return static_cast<std::uint32_t>(hash >> 32) & tag_mask_;
}

std::size_t Index::HomeOf(std::uint64_t hash) { return (((hash >> 32) & 15) * kLinks) >> 4; }

// --- readers ---

// Inlined by order, as AnyOf: the compiler finds them too long for a loop, and
// calling them costs a hit a tenth of its time.
[[gnu::always_inline]] inline LeaseWord::Got Index::TryLease(Slot& slot, std::uint64_t hash,
                                                             std::string_view key, Use use) {
  if (slot.hash.load(std::memory_order_relaxed) != hash) return LeaseWord::Got::kNo;
  const LeaseWord::Got got = use == Use::kCount ? slot.word.Acquire() : slot.word.Pin();
  if (got != LeaseWord::Got::kYes) return got;
  // It may have become another entry since its hash was read.
  if (slot.hash.load(std::memory_order_relaxed) == hash &&
      (slot.KeyIs(key) || MutantOn(Mutant::kKeyNotCompared))) {
    return LeaseWord::Got::kYes;
  }
  const LeaseWord::After after = use == Use::kCount ? slot.word.Undo() : slot.word.Release();
  return after == LeaseWord::After::kReap ? LeaseWord::Got::kNoAndReap : LeaseWord::Got::kNo;
}

template <typename Visit>
[[gnu::always_inline]] inline bool Index::AnyOf(const Bucket& bucket, std::uint64_t hash,
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

Slot* Index::Find(std::uint64_t hash, std::string_view key, Use use, Slot** reap) const {
  for (int tries = 0;; ++tries) {
    const Bucket& bucket = BucketFor(hash);
    const std::uint32_t before = bucket.version.load(std::memory_order_acquire);
    Slot* found = nullptr;
    const bool over = AnyOf(bucket, hash, [&](Slot& slot) {
      const LeaseWord::Got got = TryLease(slot, hash, key, use);
      if (got == LeaseWord::Got::kNo) return false;
      (got == LeaseWord::Got::kYes ? found : *reap) = &slot;
      return true;
    });
    if (over) return found;
    if (bucket.overflow.load(std::memory_order_acquire) != 0) [[unlikely]] {
      found = FindInOverflow(bucket, hash, key, use, before, reap);
      if (found != nullptr || *reap != nullptr) return found;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    // Before it was split the key's own place was here: whoever came too late for
    // that sees another version, or another bucket.
    if ((before & 1) == 0 && bucket.version.load(std::memory_order_relaxed) == before &&
        &bucket == &BucketFor(hash)) {
      return nullptr;
    }
    if (tries >= kTriesBeforeYield) sched_yield();
  }
}

Slot* Index::FindInOverflow(const Bucket& bucket, std::uint64_t hash, std::string_view key, Use use,
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

Slot* Index::Guess(std::uint64_t hash) const {
  Slot* guess = nullptr;
  AnyOf(BucketFor(hash), hash, [&](Slot& slot) {
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

// --- who links ---

void Index::Lock(Bucket& bucket) {
  std::uint32_t even = bucket.version.load(std::memory_order_relaxed);
  for (int looks = 0;
       (even & 1) != 0 || !bucket.version.compare_exchange_weak(
                              even, even + 1, std::memory_order_acquire, std::memory_order_relaxed);
       ++looks) {
    looks < kLooksBeforeSleep ? PauseBriefly() : static_cast<void>(sched_yield());
    even = bucket.version.load(std::memory_order_relaxed);
  }
  // Nothing of what is done is seen before the version is odd.
  std::atomic_thread_fence(std::memory_order_release);
}

void Index::Link(std::uint32_t id) {
  const std::uint64_t hash = first_slot_[id].hash.load(std::memory_order_relaxed);
  Locked(hash, [&](Bucket& bucket) { Place(bucket, id, hash); });
  Grow();
}

bool Index::LinkNew(std::uint32_t id) {
  Slot& slot = first_slot_[id];
  const std::uint64_t hash = slot.hash.load(std::memory_order_relaxed);
  bool is_new = false;
  // Who is linked keeps its key until it has been unlinked, which takes this lock.
  Locked(hash, [&](Bucket& bucket) {
    is_new = LookupIn(bucket, hash, slot.key()) == kNoSlot;
    if (!is_new) return;
    slot.word.Publish(1);
    Place(bucket, id, hash);
  });
  return is_new;
}

// One more is linked.
void Index::Grow() {
  ++linked_;
  const std::uint32_t buckets = extent().buckets;
  if (linked_ > std::uint64_t{buckets} * kEntriesPerBucket && buckets < buckets_max_) SplitOne();
}

void Index::Place(Bucket& bucket, std::uint32_t id, std::uint64_t hash) {
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

void Index::Unlink(std::uint32_t id) {
  const std::uint64_t hash = first_slot_[id].hash.load(std::memory_order_relaxed);
  Locked(hash, [&](Bucket& bucket) {
    [[maybe_unused]] const bool was_linked = TryUnlinkFrom(bucket, id, hash);
    assert(was_linked);
  });
  --linked_;
}

bool Index::TryUnlinkFrom(Bucket& bucket, std::uint32_t id, std::uint64_t hash) {
  const std::uint32_t wanted = TagOf(hash) | (id + 1);
  for (Link32& link : bucket.links) {
    if (link.load(std::memory_order_relaxed) != wanted) continue;
    // The first of the overflow takes the place, if there is one.
    const std::uint32_t first = bucket.overflow.load(std::memory_order_relaxed);
    if (first == 0) {
      link.store(0, std::memory_order_release);
      return true;
    }
    Slot& moved = first_slot_[first - 1];
    link.store(TagOf(moved.hash.load(std::memory_order_relaxed)) | first,
               std::memory_order_release);
    bucket.overflow.store(moved.next.load(std::memory_order_relaxed), std::memory_order_release);
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

void Index::Replace(std::uint32_t old, std::uint32_t id) {
  const std::uint64_t hash = first_slot_[id].hash.load(std::memory_order_relaxed);
  Locked(hash, [&](Bucket& bucket) {
    for (Link32& link : bucket.links) {
      if (link.load(std::memory_order_relaxed) != (TagOf(hash) | (old + 1))) continue;
      link.store(TagOf(hash) | (id + 1), std::memory_order_release);
      return;
    }
    Link32* link = &bucket.overflow;
    while (link->load(std::memory_order_relaxed) != old + 1) {
      assert(link->load(std::memory_order_relaxed) != 0);
      link = &first_slot_[link->load(std::memory_order_relaxed) - 1].next;
    }
    first_slot_[id].next.store(first_slot_[old].next.load(std::memory_order_relaxed),
                               std::memory_order_release);
    link->store(id + 1, std::memory_order_release);
  });
}

std::uint32_t Index::LookupIn(const Bucket& bucket, std::uint64_t hash,
                              std::string_view key) const {
  const Slot* found = nullptr;
  const auto is_it = [&](const Slot& slot) {
    if (slot.hash.load(std::memory_order_relaxed) != hash || !slot.KeyIs(key)) return false;
    found = &slot;
    return true;
  };
  if (AnyOf(bucket, hash, is_it)) return slots_->IdOf(found);
  std::uint32_t at = bucket.overflow.load(std::memory_order_relaxed);
  while (at != 0 && !is_it(first_slot_[at - 1])) {
    at = first_slot_[at - 1].next.load(std::memory_order_relaxed);
  }
  return at == 0 ? kNoSlot : at - 1;
}

// Adds bucket number `buckets`, which takes its share of the bucket that has
// stood in for it.
void Index::SplitOne() {
  const std::uint32_t added = extent().buckets;
  const std::uint32_t now = added + 1;
  const Extent after{now, 2 * std::bit_floor(now) - 1};
  Bucket& bucket = buckets_[added - std::bit_floor(added)];
  Bucket& half = buckets_[added];
  Lock(bucket);
  Lock(half);  // Nobody knows of it yet.
  extent_.store(std::bit_cast<std::uint64_t>(after), std::memory_order_release);
  const auto place = [&](std::uint32_t id, std::uint64_t hash) {
    Place(BucketOf(hash, after) == added ? half : bucket, id, hash);
  };
  std::uint32_t chain = bucket.overflow.exchange(0, std::memory_order_relaxed);
  for (Link32& link : bucket.links) {
    const std::uint32_t was = link.load(std::memory_order_relaxed);
    if (was == 0) continue;
    const std::uint64_t hash = first_slot_[SlotOf(was)].hash.load(std::memory_order_relaxed);
    if (BucketOf(hash, after) != added) continue;
    link.store(0, std::memory_order_release);
    place(SlotOf(was), hash);
  }
  while (chain != 0) {
    Slot& slot = first_slot_[chain - 1];
    const std::uint32_t next = slot.next.load(std::memory_order_relaxed);
    place(chain - 1, slot.hash.load(std::memory_order_relaxed));
    chain = next;
  }
  Unlock(half);
  Unlock(bucket);
}

Bytes Index::bytes() const { return extent().buckets * sizeof(Bucket); }

}  // namespace spillway
