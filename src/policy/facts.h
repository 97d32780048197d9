// What a policy may know about an entry. The truth stands in the entry's slot;
// a policy reads it when it has to decide, so a hit need not tell anybody.
#pragma once

#include <cstdint>

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

class FactReader {
 public:
  virtual ~FactReader() = default;
  // False: that entry is no longer there.
  virtual bool Read(EntryId id, Facts* facts) const = 0;
  // A hint that `id` will be read soon or, with `next`, before almost all
  // others. It may be gone.
  virtual void Prefetch(EntryId id, bool next) const {
    static_cast<void>(id);
    static_cast<void>(next);
  }
};

}  // namespace spillway
