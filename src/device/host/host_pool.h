// SPDX-License-Identifier: Apache-2.0
// The device under the host tier: a bounded amount of this machine's memory,
// taken chunk by chunk. Fresh memory costs a page fault for each page. So while
// the pool grows, a thread of its own populates the next chunks ahead: those at
// the lowest free addresses, which an arena takes first.
//
// 1. The chunks mapped, prepared and being prepared never exceed the total.
// 2. A prepared chunk counts as free, and is dropped if a chunk is needed elsewhere.
// 3. Chunks are prepared only while the last call was MapChunk, not UnmapChunk;
//    a pool without mapped chunks has no prepared ones. An eager pool differs:
//    all of it is prepared, as long as it may grow.
// 4. The listener knows a chunk exactly while it is mapped or prepared.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/host/chunk_listener.h"

namespace spillway {

struct HostPoolOptions {
  Bytes capacity = 0;  // More than 0; rounded up to whole chunks.
  // A power of two of at least 4 KiB. Empty: HostPool::ChunkBytesFor(capacity).
  std::optional<Bytes> chunk_bytes = {};
  ChunkListener* listener = nullptr;  // Borrowed; must outlive the pool.
  // Registering a chunk with a driver costs more than filling it. So an eager
  // pool is prepared entirely, beginning with the first range, and a chunk that
  // is unmapped stays prepared.
  bool eager = false;
};

class HostPool final : public Device {
 public:
  // The most chunks that are kept prepared.
  static constexpr std::size_t kAheadMax = 2;

  static Result<std::unique_ptr<HostPool>> Open(const HostPoolOptions& options);
  // All ranges must have been released.
  ~HostPool() override;

  // About 64 chunks to a pool, 1 MiB to 32 MiB each.
  static Bytes ChunkBytesFor(Bytes capacity);

  std::string_view name() const override { return "host"; }
  Bytes total() const override { return chunks_max_ * chunk_bytes_; }
  bool shared() const override { return false; }
  Bytes chunk_bytes() const override { return chunk_bytes_; }
  // The pool's own counters; for the machine's memory use the monitor's source
  // "host". Never waits.
  Result<Reading> ReadMemory() override;

  Result<std::byte*> ReserveRange(Bytes bytes) override;
  void ReleaseRange(std::byte* base, Bytes bytes) override;
  // Takes microseconds, plus the listener's time if the chunk was not prepared;
  // then its pages come with their first touch. If the last free chunk of the
  // pool is just being prepared elsewhere, it waits for at most 2 MiB of that.
  Status MapChunk(std::byte* at) override;
  void UnmapChunk(std::byte* at) override;

  Status CopyIn(std::byte* to, const Source& source) override;
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override;

  // Whether chunks may be prepared ahead; initially true. Set it to false while
  // the machine is short of memory: when this returns, prepared memory is back
  // with the kernel. Any thread.
  void SetGrowth(bool allowed);

  // Bytes mapped, and bytes populated beyond that. Any thread.
  Bytes held() const { return mapped_.load(std::memory_order_relaxed) * chunk_bytes_; }
  Bytes prepared() const { return ready_.load(std::memory_order_relaxed) * chunk_bytes_; }

 private:
  // kAway: no memory. kReady: prepared. kMapped: in use by an arena.
  enum class State : std::uint8_t { kAway, kReady, kMapped };
  struct Range {
    std::byte* base = nullptr;
    std::vector<State> chunks;
  };

  HostPool(const HostPoolOptions& options, Bytes chunk_bytes);

  bool huge() const;
  Range& RangeOf(const std::byte* at) SPILLWAY_REQUIRES(mutex_);
  State& StateOf(const std::byte* at) SPILLWAY_REQUIRES(mutex_);
  // Chunks mapped, prepared, or being prepared.
  std::size_t Taken() const SPILLWAY_REQUIRES(mutex_) {
    return mapped_ + ready_ + (working_ != nullptr ? 1 : 0);
  }

  // Strand only: gets a chunk at `at` in any way. Returns true if the listener
  // was not told of it yet.
  Result<bool> Acquire(std::byte* at) SPILLWAY_REQUIRES(mutex_);
  // Ends the preparation in progress. The caller has made sure that no new one starts.
  void StopWork() SPILLWAY_REQUIRES(mutex_);
  // Return prepared chunks to the kernel.
  void DropReady(std::byte* at) SPILLWAY_REQUIRES(mutex_);
  // Drops the prepared chunks of one range, or of all.
  void DropAllReady(const Range* only) SPILLWAY_REQUIRES(mutex_);
  void DropHighestReady() SPILLWAY_REQUIRES(mutex_);
  // Starts the thread if it does not run. Without one the pool still works.
  void EnsureThread();

  // On the pool's thread.
  void Work();
  // The next chunk to prepare; null: none.
  std::byte* NextAhead() SPILLWAY_REQUIRES(mutex_);
  // Populates a chunk with the mutex released, and makes it kReady unless it
  // was mapped meanwhile.
  void Prepare(std::byte* at) SPILLWAY_REQUIRES(mutex_);
  bool Populate(std::byte* at) SPILLWAY_REQUIRES(mutex_);

  const Bytes chunk_bytes_;
  const std::size_t chunks_max_;
  const bool eager_;
  ChunkListener* const listener_;
  const std::string full_message_;  // Built once: a full pool returns it often.

  std::thread thread_;  // Strand only; started when first needed.

  Mutex mutex_;
  CondVar wanted_;                      // The thread may have something to do.
  CondVar idle_;                        // The thread has finished a chunk.
  std::atomic<std::size_t> mapped_{0};  // These two are changed with the mutex held.
  std::atomic<std::size_t> ready_{0};
  std::vector<Range> ranges_ SPILLWAY_GUARDED_BY(mutex_);
  // The pool grows on in this chunk's range.
  std::byte* last_mapped_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
  // The chunk being prepared.
  std::byte* working_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
  // It becomes prepared, or is dropped, in a moment.
  bool ending_ SPILLWAY_GUARDED_BY(mutex_) = false;
  // It is no longer wanted, or was mapped unfinished.
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool growing_ SPILLWAY_GUARDED_BY(mutex_) = false;  // The last call was MapChunk.
  bool growth_ SPILLWAY_GUARDED_BY(mutex_) = true;
  bool closing_ SPILLWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway
