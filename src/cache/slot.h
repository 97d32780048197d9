// SPDX-License-Identifier: Apache-2.0
// Slots and records: what the cache stores about each entry.
//
// A Slot is the one cache line that a hit reads. Its plain fields are written only
// while its lease word is kPrivate and read only under a lease. A Record holds the
// rest. Only the strand reads and writes it, except for the fields marked "fixed",
// which a lease holder may read.
//
// Slots never move and are never unmapped while the cache is open. So a reader may look
// at any slot at any time: at worst it finds that the slot now holds another entry.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/reserved_memory.h"
#include "cache/lease_word.h"
#include "cache/tier_id.h"
#include "policy/facts.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/blob_store.h"

namespace spillway {

inline constexpr std::uint32_t kNoSlot = 0xffffffffU;
inline constexpr std::size_t kInlineKeyBytes = 16;

struct Transfer;

// Fields that few entries have. One allocation, made only for those.
struct Extra {
  std::string agent;
  std::string meta;
  // End of the entry's own ttl. It may change while readers hold leases: see
  // DeadlineOf.
  TimePoint deadline = TimePoint::max();
};

// The copies of an entry below the device, and the transfer in flight. One allocation,
// made when the first copy below the device begins. Strand only.
struct LowerCopies {
  std::byte* host = nullptr;
  BlobId blob = kNoBlob;
  std::uint64_t blob_generation = 0;  // As the blob names it, maybe from before a restart.
  std::optional<Seal> seal;           // Set once its bytes have been in host memory.
  std::byte* staging = nullptr;       // A staging buffer lent to readers; in no tier.
  bool had_blob = false;              // It had a blob on disk, which was freed.
  bool damaged = false;               // The blob failed verification.
  Transfer* transfer = nullptr;       // At most one.
  std::uint64_t accesses = 0;         // When it was last brought up or lent from below.
};

struct alignas(64) Slot {
  LeaseWord word;
  std::atomic<std::uint64_t> hash{0};
  std::atomic<Duration::rep> last_use{0};
  std::atomic<std::uint32_t> next{0};  // Slot number + 1, next in its overflow chain; 0: the last.
  std::uint16_t key_bytes_less_one = 0;
  bool has_deadline = false;     // May change under leases: see DeadlineOf.
  bool no_idle_ttl : 1 = false;  // The tiers' ttl does not apply.
  std::uint8_t group : 4 = 0;    // Options::key_group of its key.
  // The bytes as readers get them: the uppermost copy in memory. Null: no verified copy
  // is in memory. It may change from null to a block under a lease; any other change
  // requires that there is no lease.
  std::atomic<std::byte*> data{nullptr};
  Bytes size = 0;
  union {
    char inline_key[kInlineKeyBytes];
    char* long_key = nullptr;
  };

  void SetGroup(std::uint8_t of) { group = of & (kKeyGroups - 1U); }
  std::size_t key_bytes() const { return std::size_t{key_bytes_less_one} + 1; }
  std::string_view key() const {
    return {key_bytes() <= kInlineKeyBytes ? inline_key : long_key, key_bytes()};
  }
  bool KeyIs(std::string_view other) const {
    const std::size_t bytes = other.size();
    if (bytes != key_bytes()) return false;
    if (bytes < 8 || bytes > kInlineKeyBytes) return key() == other;
    // Its first and its last eight bytes, which may overlap: cheaper than a call of
    // memcmp.
    return Eight(inline_key) == Eight(other.data()) &&
           Eight(inline_key + bytes - 8) == Eight(other.data() + bytes - 8);
  }

 private:
  static std::uint64_t Eight(const char* from) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
  }
};
static_assert(sizeof(Slot) == 64);
static_assert(kKeyGroups == 16, "Slot::group has four bits");

// The parent's generation if the named parent was not in the cache: chains end here.
inline constexpr std::uint64_t kAbsentParent = ~std::uint64_t{0};

struct Record {
  std::uint64_t generation = 0;         // Fixed. Never 0; unique in this cache.
  std::uint64_t parent_generation = 0;  // Fixed. 0: no parent was named.
  std::uint64_t place = 0;              // See Facts::place.
  Extra* extra = nullptr;               // Owned. Fixed once it is set: see ExtraOf.
  LowerCopies* below = nullptr;         // Owned. Null: it was only ever on the device.
  std::uint32_t tokens = 0;             // Fixed. At most kTokensMax.
  std::uint32_t parent_slot = kNoSlot;  // Valid only while that slot's generation matches.
  // By tier: live entries that name this one as their parent and have a copy there.
  std::array<std::uint32_t, kTiers> children{};
  RankMarks marks = 0;  // Used by rankings (FactReader::Marks).
  // The tiers with a verified copy; 0 until committed. While the entry is visible,
  // written through atomic_ref.
  TierMask copies = 0;
  bool offloaded = false;  // Mark of preset `seed`. Read and written through atomic_ref.

  bool parent_declared() const { return parent_generation != 0; }
  bool has_children() const { return (children[0] | children[1] | children[2]) != 0; }
  bool clean_in(TierId tier) const { return (copies & LowerCopiesMask(tier)) != 0; }
};
static_assert(sizeof(Record) <= 64);

// For lease holders. A new deadline may add an Extra under a lease, hence the atomic
// load.
inline const Extra* ExtraOf(const Record& record) {
  return std::atomic_ref(const_cast<Extra*&>(record.extra)).load(std::memory_order_acquire);
}

// For lease holders, at any time: a reader that finds has_deadline set also finds the
// Extra, and a deadline that was in force.
inline TimePoint DeadlineOf(const Slot& slot, const Record& record) {
  if (!std::atomic_ref(const_cast<bool&>(slot.has_deadline)).load(std::memory_order_acquire)) {
    return TimePoint::max();
  }
  TimePoint& deadline = const_cast<TimePoint&>(ExtraOf(record)->deadline);
  return std::atomic_ref(deadline).load(std::memory_order_relaxed);
}

// The agent an entry belongs to: the one it was set with, or otherwise the one named by
// a key of the form `context:<agent>`. For lease holders.
inline std::string_view AgentOf(const Slot& slot, const Record& record) {
  constexpr std::string_view kContext = "context:";
  const Extra* const extra = ExtraOf(record);
  if (extra != nullptr && !extra->agent.empty()) return extra->agent;
  return slot.key().starts_with(kContext) ? slot.key().substr(kContext.size()) : std::string_view();
}

// All slots and records of a cache: two flat arrays in address space reserved at open.
// Memory is used only as far as slots are. Both arrays begin as zeroes, which is what
// an unused Slot or Record is.
//
// Slots are handed out by slab: one large page of slots and one of records. Trim
// returns the memory of unused slabs to the kernel. A late reader may still look at a
// slot of such a slab, add to its lease word and subtract again. Trim makes sure that
// both happen to the same word, or that the new word accounts for the subtraction
// (LeaseWord::Await).
class SlotTable {
 public:
  static constexpr std::uint32_t kSlabSlots = 32'768;
  static Result<std::unique_ptr<SlotTable>> Open(std::uint64_t entries_max);
  ~SlotTable();
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // kNoSlot: all slots are taken. Strand only.
  std::uint32_t Take();
  // Takes back a slot that holds nothing any more. Strand only.
  void Give(std::uint32_t slot);
  // Returns the memory of unused slabs to the kernel. Strand only.
  void Trim();

  Slot& slot(std::uint32_t id) { return slots_[id]; }
  const Slot& slot(std::uint32_t id) const { return slots_[id]; }
  Record& record(std::uint32_t id) { return records_[id]; }
  const Record& record(std::uint32_t id) const { return records_[id]; }
  // `id` must be below high_water(). True: it is taken, and its names are written.
  bool IsTaken(std::uint32_t id) const { return records_[id].generation != 0; }
  std::uint32_t IdOf(const Slot* slot) const { return static_cast<std::uint32_t>(slot - slots_); }

  // All slots from this one on are free and zeroed. Any thread.
  std::uint32_t high_water() const { return high_water_.load(std::memory_order_acquire); }
  std::uint32_t in_use() const { return in_use_; }
  std::uint64_t capacity() const { return capacity_; }

 private:
  // The free slots of a slab are those in its free list and those from used_to on.
  struct Slab {
    std::uint32_t free_head = kNoSlot;  // Linked through Record::parent_slot.
    std::uint32_t used_to = 0;          // Unused from here on since the slab began.
    std::uint32_t in_use = 0;
    std::uint32_t next = kNoSlot;  // Next slab in the list that this one is in.
    bool listed = false;           // It is in the list of slabs with free slots.
  };
  // The slots before the first large page boundary form a slab of their own, a small
  // one.
  static constexpr std::uint32_t kFirstSlab = kSmallPagesBytes / sizeof(Slot);

  SlotTable(Slot* slots, Record* records, std::uint64_t capacity);
  static std::uint32_t SlabOf(std::uint32_t slot) {
    return static_cast<std::uint32_t>((std::uint64_t{slot} + kSlabSlots - kFirstSlab) / kSlabSlots);
  }
  static std::uint32_t BeginOf(std::uint32_t slab) {
    return slab == 0 ? 0 : (slab - 1) * kSlabSlots + kFirstSlab;
  }
  std::uint32_t EndOf(std::uint32_t slab) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{slab} * kSlabSlots + kFirstSlab, capacity_));
  }
  std::uint32_t TakeFrom(Slab* slab, std::uint32_t end);
  std::uint32_t TakeUnused();
  bool Blank(std::uint32_t slab);
  void Relist();

  Slot* const slots_;
  Record* const records_;
  const std::uint64_t capacity_;
  std::vector<Slab> slabs_;
  std::uint32_t first_listed_ = kNoSlot;  // List of slabs with free slots.
  std::uint32_t first_blank_ = kNoSlot;   // List of unused slabs below the high water.
  std::uint32_t in_use_ = 0;
  alignas(64) std::atomic<std::uint32_t> high_water_{0};
};

}  // namespace spillway
