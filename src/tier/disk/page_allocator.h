// SPDX-License-Identifier: Apache-2.0
// Tracks which bytes of the data file are free and chooses where to put a blob.
// Pure arithmetic on offsets; all sizes are whole pages.
//
// Free space is kept as maximal spans. A blob goes to the beginning of the
// shortest span that fits, lowest offset first, so that long spans stay long
// and the end of the file is used last.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "spillway/units.h"
#include "tier/node_pool.h"

namespace spillway {

// A range of the data file.
struct Extent {
  Bytes at = 0;
  Bytes bytes = 0;
  Bytes end() const { return at + bytes; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// Not thread-safe; the store calls it with its mutex.
class PageAllocator {
 public:
  // The cost of taking an extent, beyond the extent itself; empty: it may not be taken.
  using CostOf = std::function<std::optional<Bytes>(const Extent&)>;

  explicit PageAllocator(Bytes range);

  // Returns the cheapest among the first few spans that fit. Changes nothing.
  std::optional<Extent> Find(Bytes bytes, const CostOf& cost_of) const;
  // Makes the extent a block. Returns false, or throws bad_alloc, without a
  // change: if not all of the extent is free, or if there is no memory.
  bool Take(const Extent& extent);
  // Frees a block. Never allocates.
  void Give(const Extent& extent);

  Bytes free() const { return free_; }
  Bytes range() const { return range_; }
  const SpanMap& spans() const { return spans_; }  // Begin -> end.

 private:
  void Add(const Extent& span);
  void Remove(const Extent& span);
  void Reserve();

  Bytes free_ = 0;
  const Bytes range_;
  NodePool nodes_;
  std::size_t blocks_ = 0;
  SpanMap spans_;
  SpanSet by_length_;  // (length, begin) of each span.
};

}  // namespace spillway
