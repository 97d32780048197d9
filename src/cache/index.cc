#include "cache/index.h"

#include <sched.h>
#include <xxhash.h>

#include <bit>
#include <cassert>

#include "base/mutant.h"
#include "base/reserved_memory.h"

namespace spillway {

namespace {
// A chain is a few slots long. A walk much longer than that has been led into
// a ring by slots that moved; it looks at the version and starts again.
constexpr int kStepsBetweenChecks = 256;
constexpr int kTriesBeforeYield = 16;
}  // namespace

Result<std::unique_ptr<Index>> Index::Open(SlotTable* slots, int hash_bits) {
  const std::uint64_t heads_max =
      std::bit_ceil(std::max<std::uint64_t>(slots->capacity(), kFirstBuckets));
  void* heads = ReserveZeroed(heads_max * sizeof(std::atomic<std::uint32_t>));
  if (heads == nullptr) return Error{Code::kNoMemory, "no address space for the index"};
  return std::unique_ptr<Index>(
      new Index(slots, static_cast<std::atomic<std::uint32_t>*>(heads), heads_max, hash_bits));
}

Index::Index(SlotTable* slots, std::atomic<std::uint32_t>* heads, std::uint64_t heads_max,
             int hash_bits)
    : slots_(slots),
      heads_(heads),
      heads_max_(heads_max),
      hash_mask_(hash_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << hash_bits) - 1) {}

Index::~Index() { UnreserveZeroed(heads_, heads_max_ * sizeof(std::atomic<std::uint32_t>)); }

std::uint64_t Index::HashOf(std::string_view key) const {
  return XXH3_64bits(key.data(), key.size()) & hash_mask_;
}

// With 2^k <= buckets < 2^(k+1): the low k+1 bits, or, where that bucket does
// not exist yet, the low k bits.
std::uint32_t Index::BucketOf(std::uint64_t hash, std::uint32_t buckets) const {
  const std::uint32_t half = std::bit_floor(buckets);
  const auto wide = static_cast<std::uint32_t>(hash) & (2 * half - 1);
  return wide < buckets ? wide : wide & (half - 1);
}

Slot* Index::Find(std::uint64_t hash, std::string_view key, Use use, Slot** reap) const {
  const std::atomic<std::uint64_t>& version = stripes_[hash % kStripes].version;
  for (int tries = 0;; ++tries) {
    const std::uint64_t before = version.load(std::memory_order_acquire);
    std::uint32_t at = heads_[BucketOf(hash, buckets_.load(std::memory_order_acquire))].load(
        std::memory_order_acquire);
    int steps = 0;
    while (at != 0) {
      Slot& slot = slots_->slot(at - 1);
      if (slot.hash.load(std::memory_order_relaxed) == hash) {
        const LeaseWord::Got got = use == Use::kCount ? slot.word.Acquire() : slot.word.Pin();
        if (got == LeaseWord::Got::kYes) {
          // It may have become another entry since its hash was read.
          if (slot.hash.load(std::memory_order_relaxed) == hash &&
              (slot.KeyIs(key) || MutantOn(Mutant::kKeyNotCompared))) {
            return &slot;
          }
          const LeaseWord::After after =
              use == Use::kCount ? slot.word.Undo() : slot.word.Release();
          if (after == LeaseWord::After::kReap) *reap = &slot;
        } else if (got == LeaseWord::Got::kNoAndReap) {
          *reap = &slot;
        }
        if (*reap != nullptr) return nullptr;  // The caller reaps, then asks again.
      }
      at = slot.next.load(std::memory_order_acquire);
      if (++steps % kStepsBetweenChecks == 0 && version.load(std::memory_order_acquire) != before) {
        break;
      }
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if ((before & 1) == 0 && version.load(std::memory_order_relaxed) == before) return nullptr;
    if (tries >= kTriesBeforeYield) sched_yield();
  }
}

void Index::PrefetchHead(std::uint64_t hash) const {
  __builtin_prefetch(&heads_[BucketOf(hash, buckets_.load(std::memory_order_relaxed))]);
}

void Index::PrefetchSlot(std::uint64_t hash) const {
  const std::uint32_t at = heads_[BucketOf(hash, buckets_.load(std::memory_order_relaxed))].load(
      std::memory_order_relaxed);
  if (at != 0) __builtin_prefetch(&slots_->slot(at - 1), 1);
}

template <typename Work>
void Index::Locked(std::uint64_t hash, Work&& work) {
  std::atomic<std::uint64_t>& version = stripes_[hash % kStripes].version;
  const std::uint64_t even = version.load(std::memory_order_relaxed);
  version.store(even + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  work();
  version.store(even + 2, std::memory_order_release);
}

void Index::Link(std::uint32_t id) {
  Slot& slot = slots_->slot(id);
  const std::uint64_t hash = slot.hash.load(std::memory_order_relaxed);
  Locked(hash, [&] {
    std::atomic<std::uint32_t>& head =
        heads_[BucketOf(hash, buckets_.load(std::memory_order_relaxed))];
    slot.next.store(head.load(std::memory_order_relaxed), std::memory_order_release);
    head.store(id + 1, std::memory_order_release);
  });
  ++linked_;
  const std::uint32_t buckets = buckets_.load(std::memory_order_relaxed);
  if (linked_ > buckets && buckets < heads_max_) SplitOne();
}

void Index::Unlink(std::uint32_t id) {
  Slot& slot = slots_->slot(id);
  const std::uint64_t hash = slot.hash.load(std::memory_order_relaxed);
  Locked(hash, [&] {
    std::atomic<std::uint32_t>* link =
        &heads_[BucketOf(hash, buckets_.load(std::memory_order_relaxed))];
    while (link->load(std::memory_order_relaxed) != id + 1) {
      assert(link->load(std::memory_order_relaxed) != 0);
      link = &slots_->slot(link->load(std::memory_order_relaxed) - 1).next;
    }
    link->store(slot.next.load(std::memory_order_relaxed), std::memory_order_release);
  });
  --linked_;
}

std::uint32_t Index::Lookup(std::uint64_t hash, std::string_view key) const {
  std::uint32_t at = heads_[BucketOf(hash, buckets_.load(std::memory_order_relaxed))].load(
      std::memory_order_relaxed);
  while (at != 0) {
    const Slot& slot = slots_->slot(at - 1);
    if (slot.hash.load(std::memory_order_relaxed) == hash && slot.KeyIs(key)) return at - 1;
    at = slot.next.load(std::memory_order_relaxed);
  }
  return kNoSlot;
}

// Adds bucket number `buckets`, which takes its share of the bucket that has
// stood in for it. Both have the same low bits, hence the same stripe.
void Index::SplitOne() {
  const std::uint32_t added = buckets_.load(std::memory_order_relaxed);
  const std::uint32_t from = added - std::bit_floor(added);
  Locked(from, [&] {
    buckets_.store(added + 1, std::memory_order_release);
    std::uint32_t at = heads_[from].load(std::memory_order_relaxed);
    std::atomic<std::uint32_t>* keep = &heads_[from];
    std::atomic<std::uint32_t>* move = &heads_[added];
    while (at != 0) {
      Slot& slot = slots_->slot(at - 1);
      const std::uint64_t hash = slot.hash.load(std::memory_order_relaxed);
      std::atomic<std::uint32_t>** tail = BucketOf(hash, added + 1) == added ? &move : &keep;
      (*tail)->store(at, std::memory_order_release);
      *tail = &slot.next;
      at = slot.next.load(std::memory_order_relaxed);
    }
    keep->store(0, std::memory_order_release);
    move->store(0, std::memory_order_release);
  });
}

Bytes Index::bytes() const {
  return buckets_.load(std::memory_order_relaxed) * sizeof(std::atomic<std::uint32_t>);
}

}  // namespace spillway
