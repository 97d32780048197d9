// Address space of a device with memory behind it where blocks are. Chunks are
// mapped when the first block needs them and unmapped when the last one goes.
//
// 1. A chunk is mapped exactly when a block overlaps it, save one spare.
// 2. A call that fails has mapped nothing.
// 3. held() never exceeds held_max.
// 4. A chunk is clean exactly when blocks overlap it and none that is not backed.
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
  Bytes held_max = 0;  // A multiple of the device's chunks.
  Bytes granule = 0;   // Blocks are multiples of it.
  // Keeps the last chunk that became empty mapped, so that one entry that
  // comes and goes does not map and unmap it each time.
  bool keep_one_empty = false;
};

// On the strand only, but for held() and clean().
class ChunkArena {
 public:
  // `device` is borrowed and must outlive this.
  static Result<std::unique_ptr<ChunkArena>> Open(Device* device, const ChunkArenaOptions& options);
  // Blocks still there lose their memory.
  ~ChunkArena();
  ChunkArena(const ChunkArena&) = delete;
  ChunkArena& operator=(const ChunkArena&) = delete;

  // An offset from base(). NoMemory: the device or held_max refuses. What is
  // taken is not backed.
  Result<Bytes> Take(Bytes bytes, Bytes align);
  void Give(Bytes at, Bytes bytes, bool backed);
  // Only when it changes.
  void SetBacked(Bytes at, Bytes bytes, bool backed);

  // True: there was one.
  bool ReleaseSpare();

  std::byte* base() const { return base_; }
  Bytes range() const { return range_; }
  Bytes chunk_bytes() const { return chunk_bytes_; }
  Bytes held() const { return held_.load(std::memory_order_relaxed); }
  Bytes clean() const { return clean_.load(std::memory_order_relaxed); }

 private:
  ChunkArena(Device* device, const ChunkArenaOptions& options, std::byte* base, Bytes range);

  Status MapAll(ChunkRun chunks);
  Status Map(std::size_t chunk);
  void Unmap(std::size_t chunk);
  ChunkRun ChunksOf(Bytes at, Bytes bytes) const;
  void CountTaken(ChunkRun chunks, ChunkRun fresh);
  void CountGiven(ChunkRun chunks, ChunkRun emptied, bool backed);
  void AddClean(std::ptrdiff_t chunks);

  Device* const device_;
  const ChunkArenaOptions options_;
  const Bytes chunk_bytes_;
  const int chunk_shift_;
  std::byte* const base_;
  const Bytes range_;
  const std::string full_message_;  // Made once: a full tier says it often.

  ExtentMap extents_;
  std::vector<bool> mapped_;             // By chunk.
  std::optional<std::size_t> spare_;     // Mapped, and no block in it.
  std::vector<std::uint32_t> unbacked_;  // By chunk: blocks that are not backed.
  std::atomic<Bytes> held_{0};           // Written on the strand, read anywhere.
  std::atomic<Bytes> clean_{0};          // The same.
};

}  // namespace spillway
