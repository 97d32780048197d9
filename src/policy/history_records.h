// SPDX-License-Identifier: Apache-2.0
// The history that the score keeps for each key: while its entry is in the cache, and for hours
// after its bytes are gone. A history record has a number (HistoryRecordId) and a fixed
// address. It is found by the entry's slot while the entry is in the cache, and by the key's hash
// afterwards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include "policy/return_table.h"
#include "policy/zeroed_table.h"
#include "spillway/units.h"

namespace spillway {

using HistoryRecordId = std::uint32_t;
inline constexpr HistoryRecordId kNoRecord = ~HistoryRecordId{0};
inline constexpr std::size_t kScoredQueuesMax = 6;  // Eviction queues that use the score.

// A client's last hint about the next use, as a level.
inline constexpr std::uint8_t kSaidNothing = 0;
inline constexpr std::uint8_t kSaidDone = 1;
// From here on: it will be used again, with a level for when.
inline constexpr std::uint8_t kSaidAgain = 2;
inline constexpr std::uint8_t kHintLevels = 9;
// Not a hint: the chain continues in another way, and this was its old end.
inline constexpr std::uint8_t kSuperseded = 255;

// The history record of one key. The fields read each time the entry passes an age step come first,
// to share a cache line.
struct alignas(64) HistoryRecord {
  double since = 0;    // Time of the last known use.
  double entered = 0;  // If it waits: when it entered `bin`.
  EntryId id{};        // Valid while `here`.
  ReturnClass c = 0;
  std::uint32_t seen = 0;  // Uses of this generation seen so far.
  // Valid position in the aging queues; older positions have smaller numbers.
  std::uint32_t queued = 0;
  std::uint8_t bin = 0;
  std::uint8_t step = 0;
  std::uint8_t hint = kSaidNothing;
  std::uint8_t queues = 0;  // One bit for each eviction queue it is in.
  std::array<std::int8_t, kScoredQueuesMax> cost{};
  bool here = false;
  bool aging = false;   // In the aging queue of `step`.
  bool open = false;    // Set recently; the same request may continue it at once.
  bool waits = false;   // Counted as waiting in the return table.
  bool ends = false;    // Used more often than the entry that continues it, so it waits for itself.
  bool shared = false;  // Several entries continue it.
  bool missed = false;  // The key was requested since its entry was removed.
  bool up = false;      // In the device tier now.
  bool was_up = false;  // In the device tier now or earlier.
  float recompute_s = 0;  // As declared by the client. 0: not declared.

  std::uint64_t hash = 0;  // Hash of its key. 0: unknown, so the record ends with the entry.
  std::uint32_t uses = 0;  // Since the record was made.
  std::uint32_t life = 0;  // Times its entry was removed.
  Bytes bytes = 0;
  EntryId parent{};
  double window_at = 0;  // Where the recency window counts its bytes.
  double told_at = -1;   // When the client gave its hint.
  double turn_at = 0;    // Begin of its turn of the conversation.
  // Hash of the entry that continued it first, or replaced that one,
  std::uint64_t first_child = 0;
  HistoryRecordId first_child_record =
      kNoRecord;               // and its record, valid while that has this hash.
  std::uint32_t depth = 0;     // Position in its chain; the root has 0.
  std::uint32_t children = 0;  // Records of entries in the cache that continue it.
  std::uint16_t state = 0;     // What it waits for, as named by the client: an index in `states_`.
  std::uint8_t turn = 0;
  std::uint8_t pause = 0;
};
static_assert(sizeof(HistoryRecord) <= 192);

// The memory of all history records. Bounded; records never move.
class HistoryPool {
 public:
  explicit HistoryPool(std::size_t most) : records_(most) {}

  HistoryRecord& operator[](HistoryRecordId id) { return records_[id]; }
  const HistoryRecord& operator[](HistoryRecordId id) const { return records_[id]; }
  // A new record. Throws bad_alloc when the pool is full.
  HistoryRecordId Take() {
    HistoryRecordId id = free_;
    if (id == kNoRecord) {
      if (used_ == records_.size()) throw std::bad_alloc();
      id = static_cast<HistoryRecordId>(used_++);
      HistoryRecord* const made = new (&records_[id]) HistoryRecord();
      made->queued = made->life = first_number_;
    }
    HistoryRecord& record = records_[id];
    free_ = record.first_child_record;
    // Queue positions of the previous record at this place must not count for this one.
    const std::uint32_t queued = record.queued;
    const std::uint32_t life = record.life;
    record = HistoryRecord();
    record.queued = queued + 1;
    record.life = life + 1;
    ++size_;
    return id;
  }
  // Frees a record. Never allocates.
  void Give(HistoryRecordId id) {
    HistoryRecord& record = records_[id];
    ++record.queued;
    ++record.life;
    record.here = false;
    record.queues = 0;
    record.hash = 0;
    record.first_child_record = free_;
    free_ = id;
    --size_;
  }
  // Returns the memory behind the last record in use to the system. Takes time in proportion to
  // the records there have been, so it is for when very many have been freed at once.
  void Shrink();
  std::size_t size() const { return size_; }
  void Prefetch(HistoryRecordId id) const {
    const HistoryRecord* const record = &records_[id];
    __builtin_prefetch(record, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(record) + 64, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(record) + 128, 1);
  }

 private:
  ZeroedTable<HistoryRecord> records_;
  std::size_t used_ = 0;              // Records from here on were never used.
  HistoryRecordId free_ = kNoRecord;  // Linked through HistoryRecord::first_child_record.
  // `queued` and `life` of a record that is made anew: above all those of records whose memory
  // was returned, so that positions and histories of those are never taken for its own.
  std::uint32_t first_number_ = 0;
  std::size_t size_ = 0;
};

// The records of keys whose entries are gone, by hash. Open addressing; removal moves later cells
// back, so no tombstones remain.
class GoneTable {
 public:
  explicit GoneTable(const HistoryPool* notes) : records_(notes) {}
  // kNoRecord: no record of that key.
  HistoryRecordId Find(std::uint64_t hash) const;
  // Adds a record that is not in the table. Throws bad_alloc without having changed anything.
  void Add(HistoryRecordId id);
  void Remove(HistoryRecordId id);
  void Prefetch(std::uint64_t hash) const {
    if (size_ > 0) __builtin_prefetch(&cells_[Mix(hash) & mask()], 1);
  }
  std::size_t size() const { return size_; }

 private:
  // Part of the hash is in the cell, so that most other records are excluded without reading them.
  struct Cell {
    std::uint32_t record_more =
        0;  // Number of the record plus one, so that a zeroed cell is empty.
    std::uint32_t mixed = 0;
    bool empty() const { return record_more == 0; }
    HistoryRecordId record() const { return record_more - 1; }
  };
  static std::uint32_t Mix(std::uint64_t hash) {
    return static_cast<std::uint32_t>((hash * 0x9e3779b97f4a7c15ULL) >> 32);
  }
  std::size_t mask() const { return cells_.size() - 1; }
  void Put(Cell cell);

  const HistoryPool* const records_;
  ZeroedTable<Cell> cells_;  // Its size is a power of two, or zero.
  std::size_t size_ = 0;
};

}  // namespace spillway
