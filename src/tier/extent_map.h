// SPDX-License-Identifier: Apache-2.0
// Tracks which addresses of a range are free and chooses where to put a block.
// Pure arithmetic on offsets: no memory, no device.
//
// Free addresses are kept as maximal spans. A chunk needs memory exactly when no
// span covers the whole chunk, so the spans determine which chunks are mapped:
//
//   span      |.........|..............|..............|....|
//   chunks  --|---A-----|------B-------|------C-------|--D-------|--
//              hole (A)   not mapped     not mapped    hole (D)
//
// A hole is free space that has memory behind it: the part of a span before its
// first whole chunk, the part behind its last, or the entire span if it covers
// no whole chunk.
//
// The same calls give the same answers: nothing depends on the address of the range.
#pragma once

#include <cstddef>
#include <optional>

#include "spillway/units.h"
#include "tier/node_pool.h"

namespace spillway {

// Chunks first, first + 1, ... of the range.
struct ChunkRun {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t end() const { return first + count; }
  bool Contains(std::size_t chunk) const { return chunk >= first && chunk < end(); }
};

// Where to put a block.
struct Placement {
  Bytes at = 0;
  ChunkRun fresh;  // Chunks that must be mapped for the block.
};

class ExtentMap {
 public:
  // All of `range` is free. All sizes and offsets are multiples of `granule`;
  // chunk sizes and alignments are powers of two.
  ExtentMap(Bytes range, Bytes chunk_bytes, Bytes granule);

  // Chooses a place for `bytes` at a multiple of `align` (at most a chunk): the
  // smallest hole that fits, lowest address first; otherwise the place that needs
  // the fewest chunks mapped, lowest address first. `spare` is a free chunk that
  // is still mapped. Empty: no run of addresses is long enough. Changes nothing.
  std::optional<Placement> Find(Bytes bytes, Bytes align, std::optional<std::size_t> spare) const;

  // Call before Take. The only step that needs memory and may throw bad_alloc;
  // after it neither that Take nor any Give throws.
  void Prepare();
  // Makes the free range [at, at + bytes) a block.
  void Take(Bytes at, Bytes bytes);
  // Frees a block; returns the chunks that no block needs any more.
  ChunkRun Give(Bytes at, Bytes bytes);

  // Whether there are no blocks.
  bool empty() const {
    return spans_.size() == 1 && spans_.begin()->second - spans_.begin()->first == range_;
  }
  std::size_t span_count() const { return spans_.size(); }

 private:
  struct Span {
    Bytes begin = 0;
    Bytes end = 0;
  };

  ChunkRun WholeChunks(const Span& span) const;
  ChunkRun ChunksOf(Bytes at, Bytes bytes) const;
  // Add and Remove keep the three sets consistent: each span is in `spans_`, in
  // `open_` if it covers a whole chunk, and its holes are in `holes_`.
  void Add(const Span& span);
  void Remove(const Span& span);
  template <typename Visit>
  void ForEachHole(const Span& span, Visit visit) const;

  // The two steps of Find: a place with memory behind it, or one for which
  // chunks must be mapped.
  std::optional<Bytes> FindHole(Bytes bytes, Bytes align) const;
  std::optional<Placement> FindFresh(Bytes bytes, Bytes align,
                                     std::optional<std::size_t> spare) const;

  const Bytes range_;
  const Bytes chunk_bytes_;
  const Bytes granule_;
  NodePool nodes_;
  std::size_t blocks_ = 0;
  SpanMap spans_;  // Begin -> end.
  SpanMap open_;   // The spans that cover at least one whole chunk.
  SpanSet holes_;  // (length, begin) of each hole.
};

}  // namespace spillway
