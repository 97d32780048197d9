// What a policy may know about an entry. The truth stands in the entry's slot;
// a policy reads it when it has to decide, so a hit need not tell anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "spillway/units.h"

namespace spillway {

struct Facts {
  Tokens tokens = 0;
  Bytes bytes = 0;
  std::uint64_t access_count = 0;  // 1 when set; every get adds 1.
  TimePoint last_use;
  std::uint64_t place = 0;     // Rises with each key that enters; setting a present key keeps it.
  std::uint32_t children = 0;  // Resident entries that continue this one.
};

// A few bits of each entry in which rankings leave marks.
using RankMarks = std::uint16_t;
using RankMark = RankMarks;  // One of them.

class FactReader {
 public:
  virtual ~FactReader() = default;
  // False: that entry is no longer there.
  virtual bool Read(EntryId id, Facts* facts) const = 0;
  // Where that entry's marks are, all clear when it came; null: it is no longer
  // there.
  virtual RankMarks* Marks(EntryId id) const = 0;
  // Both, for many at once; where the mark is null, the facts are nobody's.
  virtual void ReadMany(std::span<const EntryId> ids, Facts* facts, RankMarks** marks) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      marks[i] = Marks(ids[i]);
      if (marks[i] != nullptr && !Read(ids[i], &facts[i])) marks[i] = nullptr;
    }
  }
  // A hint that `id` will be read soon. It may be gone.
  virtual void Prefetch(EntryId id) const { static_cast<void>(id); }
  // The same where only its marks will be looked at.
  virtual void PrefetchMarks(EntryId id) const { Prefetch(id); }
};

}  // namespace spillway
