// Which addresses of a range are free, and where a block should go. Pure
// arithmetic on offsets: no memory, no device.
//
// Free addresses are kept as spans, each as long as can be. A chunk needs
// memory exactly when no span covers it whole, so the spans say everything:
//
//   span      |.........|..............|..............|....|
//   chunks  --|---A-----|------B-------|------C-------|--D-------|--
//              hole (A)   not mapped     not mapped    hole (D)
//
// A hole is free space with memory behind it: a span's part before its first
// whole chunk, behind its last, or all of it if it covers none.
//
// Same calls, same answers: nothing depends on where the range lies.
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

struct Placement {
  Bytes at = 0;
  ChunkRun fresh;  // Chunks that must be mapped for it.
};

class ExtentMap {
 public:
  // All of `range` is free. Everything is a multiple of `granule`, and chunks
  // and alignments are powers of two.
  ExtentMap(Bytes range, Bytes chunk_bytes, Bytes granule);

  // Where to put `bytes` at a multiple of `align` (at most a chunk): in the
  // smallest hole that takes it, lowest address first; else where the fewest
  // chunks must be mapped, lowest address first. `spare` is a free chunk that
  // happens to be mapped. Empty: no addresses. Nothing changes.
  std::optional<Placement> Find(Bytes bytes, Bytes align, std::optional<std::size_t> spare) const;

  // Before Take: the one thing that needs memory, and throws bad_alloc. Then
  // neither that Take nor any Give does.
  void Prepare();
  // Makes [at, at + bytes), which is free, a block.
  void Take(Bytes at, Bytes bytes);
  // Makes a block free again; returns the chunks that no block needs any more.
  ChunkRun Give(Bytes at, Bytes bytes);

  // Whether there is no block.
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
  void Add(const Span& span);
  void Remove(const Span& span);
  template <typename Visit>
  void ForEachHole(const Span& span, Visit visit) const;

  std::optional<Bytes> FindHole(Bytes bytes, Bytes align) const;
  std::optional<Placement> FindFresh(Bytes bytes, Bytes align,
                                     std::optional<std::size_t> spare) const;

  const Bytes range_;
  const Bytes chunk_bytes_;
  const Bytes granule_;
  NodePool nodes_;
  std::size_t blocks_ = 0;
  SpanMap spans_;  // Begin to end.
  SpanMap open_;   // Those that cover a whole chunk.
  SpanSet holes_;  // Length and begin.
};

}  // namespace spillway
