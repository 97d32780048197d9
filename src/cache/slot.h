// Slots and records: what the cache knows of each entry.
//
// A Slot is the one cache line a hit reads. Its plain fields are written only
// while its word is kPrivate and read only while it is leased. A Record holds
// the rest and is touched on the strand only, except for the fields marked
// fixed, which a lease holder may read.
//
// Slots never move and are never unmapped while the cache is open: a reader
// may look at any slot at any time, and find out that it came too late.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/lease_word.h"
#include "cache/tier_id.h"
#include "policy/facts.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/blob_store.h"

namespace spillway {

inline constexpr std::uint32_t kNoSlot = 0xffffffffU;
inline constexpr std::size_t kInlineKeyBytes = 16;

struct Move;

// What few entries have. One allocation, only for those.
struct Extra {
  std::string agent;
  std::string meta;
  TimePoint deadline = TimePoint::max();  // End of its own ttl.
};

// Where an entry is besides the device, and what is on its way. One allocation,
// made when its first copy below begins. Strand only.
struct Below {
  std::byte* host = nullptr;
  BlobId blob = kNoBlob;
  std::uint64_t blob_generation = 0;  // As the blob names it: older than this process, maybe.
  std::optional<Seal> seal;           // Once its bytes have stood in host memory.
  std::byte* passing = nullptr;       // Lent for a read or two, in memory of no tier.
  bool had_blob = false;              // It was on disk, and left it.
  bool damaged = false;               // The blob is not what it should be.
  Move* transfer = nullptr;           // At most one.
  std::uint64_t accesses = 0;         // When it was last brought up or lent from below.
};

struct alignas(64) Slot {
  LeaseWord word;
  std::atomic<std::uint64_t> hash{0};
  std::atomic<Duration::rep> last_use{0};
  std::atomic<std::uint32_t> next{0};  // Slot number + 1 in its overflow chain; 0: the last.
  std::uint16_t key_bytes_less_one = 0;
  bool has_deadline = false;
  bool no_idle_ttl = false;  // The tiers' ttl passes it by.
  // The bytes as readers get them: the uppermost copy in memory. Null: none is
  // there, or none is verified. From null to a block it may change under a
  // lease; otherwise only while nobody holds one.
  std::atomic<std::byte*> data{nullptr};
  Bytes size = 0;
  union {
    char inline_key[kInlineKeyBytes];
    char* long_key;
  };

  Slot() : long_key(nullptr) {}
  std::size_t key_bytes() const { return std::size_t{key_bytes_less_one} + 1; }
  std::string_view key() const {
    return {key_bytes() <= kInlineKeyBytes ? inline_key : long_key, key_bytes()};
  }
  bool KeyIs(std::string_view other) const {
    const std::size_t bytes = other.size();
    if (bytes != key_bytes()) return false;
    if (bytes < 8 || bytes > kInlineKeyBytes) return key() == other;
    // Its first and its last eight bytes, which may overlap: less than a call.
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

// A parent was named that was not there: chains stop here.
inline constexpr std::uint64_t kAbsentParent = ~std::uint64_t{0};

struct Record {
  std::uint64_t generation = 0;         // Fixed. Never 0, unique in this cache.
  std::uint64_t parent_generation = 0;  // Fixed. 0: none was named.
  std::uint64_t place = 0;              // See Facts::place.
  Extra* extra = nullptr;               // Fixed. Owned.
  Below* below = nullptr;               // Owned. Null: it never was anywhere but on the device.
  std::uint32_t tokens = 0;             // Fixed. At most kTokensMax.
  std::uint32_t parent_slot = kNoSlot;  // Valid only while that slot's generation matches.
  // Live entries that continue this one and have a copy in that tier.
  std::array<std::uint32_t, kTiers> children{};
  RankMarks marks = 0;  // Rankings' (FactReader::Marks).
  // Where it is, verified. 0 until committed. While it is visible written through
  // atomic_ref.
  TierMask copies = 0;
  bool offloaded = false;  // Preset seed's mark. Read and written through atomic_ref.

  bool parent_declared() const { return parent_generation != 0; }
  bool has_children() const { return (children[0] | children[1] | children[2]) != 0; }
  bool backed_in(TierId tier) const { return (copies & BelowMask(tier)) != 0; }
};
static_assert(sizeof(Record) <= 64);

// Whose entry it is: the agent it was set with, or, without one, the one named
// by a key of the form `context:<agent>`. For lease holders.
inline std::string_view AgentOf(const Slot& slot, const Record& record) {
  constexpr std::string_view kPrefix = "context:";
  if (record.extra != nullptr && !record.extra->agent.empty()) return record.extra->agent;
  return slot.key().starts_with(kPrefix) ? slot.key().substr(kPrefix.size()) : std::string_view();
}

// All slots and records of a cache: two flat arrays in address space set aside
// at open, memory behind them only as far as they were ever used.
class SlotTable {
 public:
  static Result<std::unique_ptr<SlotTable>> Open(std::uint64_t entries_max);
  ~SlotTable();
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // kNoSlot when all are taken. Strand only.
  std::uint32_t Take();
  void Give(std::uint32_t slot);

  Slot& slot(std::uint32_t id) { return slots_[id]; }
  const Slot& slot(std::uint32_t id) const { return slots_[id]; }
  Record& record(std::uint32_t id) { return records_[id]; }
  const Record& record(std::uint32_t id) const { return records_[id]; }
  // Of one below high_water(): Take has given it away, and its names are written.
  bool IsTaken(std::uint32_t id) const { return records_[id].generation != 0; }
  std::uint32_t IdOf(const Slot* slot) const { return static_cast<std::uint32_t>(slot - slots_); }

  // Slots ever used: all others are free. Any thread.
  std::uint32_t high_water() const { return high_water_.load(std::memory_order_acquire); }
  std::uint32_t in_use() const { return in_use_; }
  std::uint64_t capacity() const { return capacity_; }

 private:
  SlotTable(Slot* slots, Record* records, std::uint64_t capacity);

  Slot* const slots_;
  Record* const records_;
  const std::uint64_t capacity_;
  alignas(64) std::atomic<std::uint32_t> high_water_{0};
  std::uint32_t free_head_ = kNoSlot;  // Linked through Record::parent_slot.
  std::uint32_t in_use_ = 0;
};

}  // namespace spillway
