// SPDX-License-Identifier: Apache-2.0
// Address space of a device, with physical memory behind the parts that hold
// blocks. A chunk is mapped when the first block needs it and unmapped when its
// last block is freed.
//
// 1. A chunk is mapped exactly when a block overlaps it, except for one spare.
// 2. A call that fails has mapped nothing.
// 3. held() never exceeds held_max.
// 4. A chunk is clean exactly when blocks overlap it and all of them are clean.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/extent_map.h"

namespace spillway {

struct ChunkArenaOptions {
  Bytes held_max = 0;  // A multiple of the device's chunk size.
  Bytes granule = 0;   // Block sizes are multiples of it.
  // Keeps the chunk that last became empty mapped. Otherwise one entry that is
  // set and erased again and again would map and unmap a chunk each time.
  bool keep_one_empty = false;
};

// Strand only, except held() and clean().
class ChunkArena {
 public:
  // `device` is borrowed and must outlive this.
  static Result<std::unique_ptr<ChunkArena>> Open(Device* device, const ChunkArenaOptions& options);
  // Unmaps all chunks, including those that still have blocks.
  ~ChunkArena();
  ChunkArena(const ChunkArena&) = delete;
  ChunkArena& operator=(const ChunkArena&) = delete;

  // Allocates a block and returns its offset from base(). NoMemory: the device
  // or held_max refuses. A new block is dirty.
  Result<Bytes> Take(Bytes bytes, Bytes align);
  // Frees a block; `clean` as for `Tier::Free`.
  void Give(Bytes at, Bytes bytes, bool clean);
  // Whether Take will succeed once the block at `at` has been freed (0 bytes: none is).
  // Memory beyond what that frees is asked of the device, and given back at once.
  bool TakesInPlaceOf(Bytes at, Bytes freed, Bytes bytes, Bytes align);
  // Call it only on a change.
  void SetClean(Bytes at, Bytes bytes, bool clean);

  // Unmaps the spare chunk; returns whether there was one.
  bool ReleaseSpare();

  std::byte* base() const { return base_; }
  Bytes range() const { return range_; }
  Bytes chunk_bytes() const { return chunk_bytes_; }
  Bytes held() const { return held_.load(std::memory_order_relaxed); }
  Bytes clean() const { return clean_.load(std::memory_order_relaxed); }

 private:
  ChunkArena(Device* device, const ChunkArenaOptions& options, std::byte* base, Bytes range);

  // Maps the chunks of the run that are not mapped yet: all or none.
  Status MapAll(ChunkRun chunks);
  Status Map(std::size_t chunk);
  // Whether the device has memory for so many of them now.
  bool CanMap(ChunkRun chunks, std::size_t count);
  void Unmap(std::size_t chunk);
  ChunkRun ChunksOf(Bytes at, Bytes bytes) const;
  // Keep `dirty_` and `clean_` up to date when a block is allocated or freed.
  void CountTaken(ChunkRun chunks, ChunkRun fresh);
  void CountGiven(ChunkRun chunks, ChunkRun emptied, bool clean);
  void AddClean(std::ptrdiff_t chunks);

  Device* const device_;
  const ChunkArenaOptions options_;
  const Bytes chunk_bytes_;
  const int chunk_shift_;
  std::byte* const base_;
  const Bytes range_;
  const std::string full_message_;  // Built once: a full tier returns it often.

  ExtentMap extents_;
  std::vector<bool> mapped_;          // By chunk.
  std::optional<std::size_t> spare_;  // A mapped chunk without blocks.
  std::vector<std::uint32_t> dirty_;  // By chunk: the number of dirty blocks.
  std::atomic<Bytes> held_{0};        // Written on the strand, read anywhere.
  std::atomic<Bytes> clean_{0};       // The same.
};

}  // namespace spillway
