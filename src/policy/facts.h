// SPDX-License-Identifier: Apache-2.0
// What a policy may know about an entry. The entry's slot holds the truth, and a policy reads it
// when it has to decide. So a hit does not call any policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "spillway/units.h"

namespace spillway {

// What a ranking may use about one entry.
struct Facts {
  Tokens tokens = 0;
  Bytes bytes = 0;
  std::uint64_t access_count = 0;  // 1 when set; every get adds 1.
  TimePoint last_use;
  std::uint64_t place = 0;     // Order of insertion of its key; setting a present key keeps it.
  std::uint32_t children = 0;  // Resident entries that continue this one.
};

// A few bits in each entry, in which rankings mark their members.
using RankMarks = std::uint16_t;
using RankMark = RankMarks;  // One of these bits.

// How policies read entries. Implemented by the engine's store.
class FactReader {
 public:
  virtual ~FactReader() = default;
  // False: the entry no longer exists.
  virtual bool Read(EntryId id, Facts* facts) const = 0;
  // The entry's marks, all clear when it was inserted. Null: it no longer exists.
  virtual RankMarks* Marks(EntryId id) const = 0;
  // Both, for many entries at once. Where a mark is null, the facts are invalid.
  virtual void ReadMany(std::span<const EntryId> ids, Facts* facts, RankMarks** marks) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      marks[i] = Marks(ids[i]);
      if (marks[i] != nullptr && !Read(ids[i], &facts[i])) marks[i] = nullptr;
    }
  }
  // A hint that `id` will be read soon. The entry may be gone.
  virtual void Prefetch(EntryId id) const { static_cast<void>(id); }
  // The same if only its marks will be read.
  virtual void PrefetchMarks(EntryId id) const { Prefetch(id); }
};

}  // namespace spillway
