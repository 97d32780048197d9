// Which chunks of the data file have disk space behind them. Pure arithmetic.
// A chunk gets space before a blob is written into it, and keeps it when its
// blobs have gone until it is given back (punched).
#pragma once

#include <cstddef>
#include <vector>

#include "spillway/units.h"
#include "tier/disk/page_allocator.h"

namespace spillway {

class Backing {
 public:
  Backing(Bytes range, Bytes chunk_bytes);

  // The chunks that lack space for `extent`, as runs of bytes.
  std::vector<Extent> Lacking(const Extent& extent) const;
  Bytes LackingBytes(const Extent& extent) const;
  // The chunks with space that lie wholly within a free span.
  std::vector<Extent> Idle(const PageAllocator& allocator) const;

  void Set(const Extent& chunks, bool backed);
  Bytes backed() const { return backed_; }
  Bytes chunk_bytes() const { return chunk_bytes_; }

 private:
  const Bytes range_;
  const Bytes chunk_bytes_;
  std::vector<bool> is_backed_;
  Bytes backed_ = 0;
};

}  // namespace spillway
