// Which bytes of the data file are free, and where a blob should go. Pure
// arithmetic on offsets; everything is whole pages.
//
// Free space is kept as spans, each as long as can be. A blob goes to the
// beginning of the shortest span that takes it, lowest address first, so that
// long spans stay long and the end of the file is reached last.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "spillway/units.h"
#include "tier/node_pool.h"

namespace spillway {

struct Extent {
  Bytes at = 0;
  Bytes bytes = 0;
  Bytes end() const { return at + bytes; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

class PageAllocator {
 public:
  // What taking an extent would cost beside the extent itself; empty: it may
  // not be taken.
  using CostOf = std::function<std::optional<Bytes>(const Extent&)>;

  explicit PageAllocator(Bytes range);

  // Of the first spans that would do the one that costs least. Nothing changes.
  std::optional<Extent> Find(Bytes bytes, const CostOf& cost_of) const;
  // Makes it a block. False: not all of it is free, and nothing changes; nor
  // does it when there is no memory (bad_alloc).
  bool Take(const Extent& extent);
  // Makes a block free again. Needs no memory.
  void Give(const Extent& extent);

  Bytes free() const { return free_; }
  Bytes range() const { return range_; }
  const SpanMap& spans() const { return spans_; }  // Begin to end.

 private:
  void Add(const Extent& span);
  void Remove(const Extent& span);
  void Reserve();

  Bytes free_ = 0;
  const Bytes range_;
  NodePool nodes_;
  std::size_t blocks_ = 0;
  SpanMap spans_;
  SpanSet by_length_;  // Length and begin.
};

}  // namespace spillway
