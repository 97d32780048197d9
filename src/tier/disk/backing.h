// SPDX-License-Identifier: Apache-2.0
// Records which chunks of the data file have disk space behind them. Pure
// arithmetic. A chunk gets space before a blob is written into it, and keeps
// the space after its blobs are deleted until the store punches it out.
#pragma once

#include <cstddef>
#include <vector>

#include "spillway/units.h"
#include "tier/disk/page_allocator.h"

namespace spillway {

// Not thread-safe; the store calls it with its mutex.
class Backing {
 public:
  Backing(Bytes range, Bytes chunk_bytes);

  // Returns the chunks within `extent` that lack disk space, as runs of bytes.
  std::vector<Extent> Lacking(const Extent& extent) const;
  Bytes LackingBytes(const Extent& extent) const;
  // Returns the chunks that have disk space and lie entirely within a free span.
  std::vector<Extent> Idle(const PageAllocator& allocator) const;

  // Records that these chunks have disk space, or no longer have it.
  void Set(const Extent& chunks, bool clean);
  Bytes clean() const { return clean_; }
  Bytes chunk_bytes() const { return chunk_bytes_; }

 private:
  const Bytes range_;
  const Bytes chunk_bytes_;
  std::vector<bool> is_clean_;
  Bytes clean_ = 0;
};

}  // namespace spillway
