// The Index finds slots by key. Readers take no lock: they look through one
// bucket for links that carry a piece of the right hash, lease what they point
// to, and compare the key while they hold it. The strand links and unlinks; beside
// it whoever has a reservation of its own may link a new key (LinkNew).
//
// A bucket is one cache line: fourteen links, each a slot number and as many
// bits of the hash as the number leaves free, a chain (through Slot::next)
// for what did not fit, and a version. So a hit touches two lines, the bucket and its
// slot, and a miss mostly one.
//
// A hit needs no further proof: a leased, visible slot with the right key is
// the right one. A miss does, because the look may have been led astray by a
// slot that changed places under it; so a bucket's version is odd while somebody
// works on it, and a miss counts only if it was even and is unchanged, and the
// bucket still is the one to look in. To make it odd is to have the bucket for
// oneself.
//
// The table grows one bucket at a time (linear hashing), so no insert ever
// pays for a whole resize. A split has both halves for itself.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/prefetch.h"
#include "cache/slot.h"
#include "spillway/result.h"

namespace spillway {

class Index {
 public:
  enum class Use : std::uint8_t { kCount, kPeek };  // Acquire or Pin.

  // `hash_bits` below 64 make collisions on purpose, for tests.
  static Result<std::unique_ptr<Index>> Open(SlotTable* slots, int hash_bits);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  std::uint64_t HashOf(std::string_view key) const;

  // --- any thread ---

  // The visible slot with that key, leased for the caller; null: not there.
  // `reap` is set to a slot whose last lease this look took away, if any: then
  // the caller reaps it and asks again.
  Slot* Find(std::uint64_t hash, std::string_view key, Use use, Slot** reap) const;

  // For many keys at once: fetch all buckets, then guess all slots (fetching
  // them, too), then Find, which looks at the guess first. The guess may be
  // null or wrong.
  void PrefetchBucket(std::uint64_t hash) const { __builtin_prefetch(&BucketFor(hash)); }
  // The same for who is going to link or unlink.
  void PrefetchToChange(std::uint64_t hash) const { PrefetchForWrite(&BucketFor(hash)); }
  Slot* Guess(std::uint64_t hash) const;
  Slot* Find(std::uint64_t hash, std::string_view key, Use use, Slot* guess, Slot** reap) const;

  // Makes a private slot, key and value written, visible and findable. False: its
  // key is there already, and nothing changed. The strand is told by CountNew; until
  // then it must not look for keys.
  bool LinkNew(std::uint32_t slot);

  // --- strand only ---

  void CountNew() { Grow(); }
  void Link(std::uint32_t slot);
  void Unlink(std::uint32_t slot);
  // `slot` takes the place of `old`, which has the same key, in one step: who
  // has found the new one never finds the old one after it, or neither.
  void Replace(std::uint32_t old, std::uint32_t slot);
  // Takes a linked slot from its readers, runs `work`, and gives it back. Who
  // looks meanwhile neither gets it nor misses it. False: it is leased, and by
  // more than `pins` (LeaseWord::TryEvict).
  template <typename Work>
  bool Rework(std::uint32_t slot, Work&& work, std::uint64_t pins = 0) {
    return Taken(slot, pins, [&](LeaseWord& word) {
      work();
      word.Restore();
    });
  }
  // The same for one whose tenant is followed by another with the same key: what
  // was counted of the old one is forgotten.
  template <typename Work>
  bool Renew(std::uint32_t slot, Work&& work, std::uint64_t pins = 0) {
    return Taken(slot, pins, [&](LeaseWord& word) {
      work();
      word.Publish(1);
    });
  }
  // Shows `visit` the slots that stand at `cursor` (0 begins) and returns the next
  // cursor; 0: that was all. Who was linked all the while, from the first call to
  // the last, is shown at least once, however the table has grown in between.
  template <typename Visit>
  std::uint64_t Scan(std::uint64_t cursor, Visit&& visit) const;
  // The linked slot with that key, not leased; kNoSlot: none.
  std::uint32_t Lookup(std::uint64_t hash, std::string_view key) const {
    return LookupIn(BucketFor(hash), hash, key);
  }

  Bytes bytes() const;

 private:
  static constexpr std::size_t kLinks = 14;
  // Linear hashing splits in order, so the buckets not yet split hold up to
  // twice as many as the others: six on average means that few overflow.
  static constexpr std::uint32_t kEntriesPerBucket = 6;
  static constexpr std::uint32_t kFirstBuckets = 256;

  using Link32 = std::atomic<std::uint32_t>;
  using Version = std::atomic<std::uint32_t>;
  struct alignas(64) Bucket {
    std::array<Link32, kLinks> links;  // Tag and slot number + 1; 0: empty.
    Link32 overflow;                   // Slot number + 1 of the first in the chain; 0: none.
    Version version;                   // Odd: somebody works on it.
  };
  // How many buckets there are and, beside it, the mask they are chosen by:
  // one word, so that nobody sees the one without the other.
  struct Extent {
    std::uint32_t buckets;
    std::uint32_t mask;  // One less than the least power of two above `buckets`.
  };

  Index(SlotTable* slots, Bucket* buckets, std::uint64_t buckets_max, int hash_bits);
  Extent extent() const { return std::bit_cast<Extent>(extent_.load(std::memory_order_acquire)); }
  // With 2^k <= buckets < 2^(k+1): the low k+1 bits, or, where that bucket does
  // not exist yet, the low k bits.
  static std::uint32_t BucketOf(std::uint64_t hash, Extent extent) {
    const std::uint32_t wide = static_cast<std::uint32_t>(hash) & extent.mask;
    return wide < extent.buckets ? wide : wide & (extent.mask >> 1);
  }
  Bucket& BucketFor(std::uint64_t hash) const { return buckets_[BucketOf(hash, extent())]; }
  std::uint32_t TagOf(std::uint64_t hash) const;
  static std::size_t HomeOf(std::uint64_t hash);
  std::uint32_t SlotOf(std::uint32_t link) const { return (link & ~tag_mask_) - 1; }

  // Shows `visit` every slot of the bucket that may be meant, the likeliest
  // first, until it returns true; not those in the overflow.
  template <typename Visit>
  bool AnyOf(const Bucket& bucket, std::uint64_t hash, Visit&& visit) const;
  static LeaseWord::Got TryLease(Slot& slot, std::uint64_t hash, std::string_view key, Use use);
  // The rest of a Find that began at `version`.
  Slot* FindInOverflow(const Bucket& bucket, std::uint64_t hash, std::string_view key, Use use,
                       std::uint32_t version, Slot** reap) const;
  void Place(Bucket& bucket, std::uint32_t slot, std::uint64_t hash);
  std::uint32_t LookupIn(const Bucket& bucket, std::uint64_t hash, std::string_view key) const;
  void Grow();
  bool TryUnlinkFrom(Bucket& bucket, std::uint32_t slot, std::uint64_t hash);
  void SplitOne();
  static void Lock(Bucket& bucket);
  static void Unlock(Bucket& bucket) {
    bucket.version.store(bucket.version.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
  }
  // `work` has the bucket of `hash` for itself.
  template <typename Work>
  void Locked(std::uint64_t hash, Work&& work) {
    Bucket* bucket = &BucketFor(hash);
    Lock(*bucket);
    // It may have been split before it was ours.
    while (bucket != &BucketFor(hash)) [[unlikely]] {
      Unlock(*bucket);
      bucket = &BucketFor(hash);
      Lock(*bucket);
    }
    work(*bucket);
    Unlock(*bucket);
  }

  // `then` gives it back. False: it is leased by more than `pins`.
  template <typename Then>
  bool Taken(std::uint32_t slot, std::uint64_t pins, Then&& then) {
    Slot& where = first_slot_[slot];
    bool alone = false;
    Locked(where.hash.load(std::memory_order_relaxed), [&](Bucket&) {
      alone = where.word.TryEvict(pins);
      if (alone) then(where.word);
    });
    return alone;
  }

  template <typename Visit>
  void VisitAll(const Bucket& bucket, Visit&& visit) const;

  SlotTable* const slots_;
  Slot* const first_slot_;
  Bucket* const buckets_;
  const std::uint64_t buckets_max_;
  const std::uint64_t hash_mask_;
  const std::uint32_t tag_mask_;  // The bits of a link that no slot number needs.
  std::atomic<std::uint64_t> extent_;
  // On a line of its own: every reader needs those before it.
  alignas(64) std::uint64_t linked_ = 0;
};

template <typename Visit>
void Index::VisitAll(const Bucket& bucket, Visit&& visit) const {
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

// The cursor counts with its highest bit first: where the table has grown by a
// bit, the two halves of a bucket are neighbours in that order, so that nothing
// in front of the cursor comes to stand behind it.
template <typename Visit>
std::uint64_t Index::Scan(std::uint64_t cursor, Visit&& visit) const {
  const Extent extent = this->extent();
  const std::uint64_t mask = extent.mask >> 1;
  const std::uint64_t at = cursor & mask;
  VisitAll(buckets_[at], visit);
  if (at + mask + 1 < extent.buckets) VisitAll(buckets_[at + mask + 1], visit);
  std::uint64_t bit = (mask + 1) >> 1;
  cursor = at;
  while (bit != 0 && (cursor & bit) != 0) {
    cursor &= ~bit;
    bit >>= 1;
  }
  return cursor | bit;
}

}  // namespace spillway
