// The Index finds slots by key. Readers take no lock: they walk a bucket's
// chain, lease what carries the right hash, and compare the key while they
// hold it. Only the strand links and unlinks.
//
// A hit needs no further proof: a leased, visible slot with the right key is
// the right one. A miss does, because the walk may have been led astray by a
// slot that changed chains under it; so each stripe of buckets carries a
// version that is odd while the strand works on it, and a miss counts only if
// the version was even and is unchanged.
//
// The table grows one bucket at a time (linear hashing), so no insert ever
// pays for a whole resize. Both halves of a split share the stripe, since a
// stripe is chosen by the low bits of the hash.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

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
  // `reap` is set to a slot whose last lease this walk took away, if any.
  Slot* Find(std::uint64_t hash, std::string_view key, Use use, Slot** reap) const;
  // Starts fetching what Find will read.
  void PrefetchHead(std::uint64_t hash) const;
  void PrefetchSlot(std::uint64_t hash) const;

  // --- strand only ---

  void Link(std::uint32_t slot);
  void Unlink(std::uint32_t slot);
  // The linked slot with that key, not leased; kNoSlot: none.
  std::uint32_t Lookup(std::uint64_t hash, std::string_view key) const;

  Bytes bytes() const;

 private:
  static constexpr std::uint32_t kFirstBuckets = 256;
  static constexpr std::uint32_t kStripes = 256;
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> version{0};
  };

  Index(SlotTable* slots, std::atomic<std::uint32_t>* heads, std::uint64_t heads_max,
        int hash_bits);
  std::uint32_t BucketOf(std::uint64_t hash, std::uint32_t buckets) const;
  void SplitOne();
  template <typename Work>
  void Locked(std::uint64_t hash, Work&& work);

  SlotTable* const slots_;
  std::atomic<std::uint32_t>* const heads_;  // Slot number + 1; 0: empty bucket.
  const std::uint64_t heads_max_;
  const std::uint64_t hash_mask_;
  std::atomic<std::uint32_t> buckets_{kFirstBuckets};
  std::uint64_t linked_ = 0;
  mutable std::array<Stripe, kStripes> stripes_;
};

}  // namespace spillway
