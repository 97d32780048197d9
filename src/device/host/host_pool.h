// The device under the host tier: a bounded amount of this machine's memory,
// chunk by chunk. Fresh memory costs a page fault for every page, so while the
// pool grows a thread of its own keeps the next chunks populated: those at the
// lowest free addresses, which an arena takes first.
//
// 1. Chunks mapped, prepared and being prepared are never more than the total.
// 2. A prepared chunk is free: it counts as such, and gives way to one that is
//    wanted elsewhere.
// 3. Nothing is prepared before the first chunk is mapped, nor after one was
//    unmapped until one is mapped again; and a pool without mapped chunks has
//    no prepared ones. Not so an eager one: all of it is prepared, as long as it
//    may grow.
// 4. The listener knows a chunk exactly while it is mapped or prepared.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/device.h"
#include "device/host/chunk_listener.h"

namespace spillway {

struct HostPoolOptions {
  Bytes capacity = 0;  // More than 0; rounded up to whole chunks.
  // A power of two of at least 4 KiB. Empty: HostPool::ChunkBytesFor(capacity).
  std::optional<Bytes> chunk_bytes = {};
  ChunkListener* listener = nullptr;  // Borrowed; must outlive the pool.
  // Registering a chunk with a driver costs more than filling it: all of the
  // pool is prepared ahead, beginning with the first range, and a chunk that is
  // unmapped stays prepared.
  bool eager = false;
};

class HostPool final : public Device {
 public:
  // Chunks that are kept ready at most.
  static constexpr std::size_t kAheadMax = 2;

  static Result<std::unique_ptr<HostPool>> Open(const HostPoolOptions& options);
  // Every range must have been released.
  ~HostPool() override;

  // About 64 chunks to a pool, 1 MiB to 32 MiB each.
  static Bytes ChunkBytesFor(Bytes capacity);

  std::string_view name() const override { return "host"; }
  Bytes total() const override { return chunks_max_ * chunk_bytes_; }
  bool shared() const override { return false; }
  Bytes chunk_bytes() const override { return chunk_bytes_; }
  // The pool's own account; what the machine has, the monitor's source "host"
  // says. Never waits.
  Result<Reading> ReadMemory() override;

  Result<std::byte*> ReserveRange(Bytes bytes) override;
  void ReleaseRange(std::byte* base, Bytes bytes) override;
  // Microseconds, and a listener's time where the chunk was not prepared; then
  // its pages come with their first touch. When the last free chunk of the pool
  // is just being prepared elsewhere it waits for 2 MiB of that, no longer.
  Status MapChunk(std::byte* at) override;
  void UnmapChunk(std::byte* at) override;

  Status CopyIn(std::byte* to, const Source& source) override;
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override;

  // Whether chunks may be prepared. False, while the machine is short of
  // memory: what was prepared is back with the kernel when this returns. True at
  // first. From any thread.
  void SetGrowth(bool allowed);

  // What is mapped, and what is populated beyond that. From any thread.
  Bytes held() const { return mapped_.load(std::memory_order_relaxed) * chunk_bytes_; }
  Bytes prepared() const { return ready_.load(std::memory_order_relaxed) * chunk_bytes_; }

 private:
  enum class State : std::uint8_t { kAway, kReady, kMapped };
  struct Range {
    std::byte* base = nullptr;
    std::vector<State> chunks;
  };
  using Lock = std::unique_lock<std::mutex>;

  HostPool(const HostPoolOptions& options, Bytes chunk_bytes);

  bool huge() const;
  Range& RangeOf(const std::byte* at);
  State& StateOf(const std::byte* at);
  // Mapped, prepared, being prepared.
  std::size_t Taken() const { return mapped_ + ready_ + (working_ != nullptr ? 1 : 0); }

  // On the strand: gets a chunk at `at` in whatever way. True: the listener has
  // not heard of it.
  Result<bool> Acquire(Lock& lock, std::byte* at);
  // Ends the work in progress. New work must have been ruled out.
  void StopWork(Lock& lock);
  void DropReady(std::byte* at);
  // Those of one range, or all.
  void DropAllReady(const Range* only);
  void DropHighestReady();
  void EnsureThread();

  // On the pool's thread.
  void Work();
  std::byte* NextAhead();
  void Prepare(Lock& lock, std::byte* at);
  bool Populate(Lock& lock, std::byte* at);

  const Bytes chunk_bytes_;
  const std::size_t chunks_max_;
  const bool eager_;
  ChunkListener* const listener_;
  const std::string full_message_;  // Made once: a full pool says it often.

  std::thread thread_;  // The strand's; started when it is first needed.

  // Guarded by mutex_ from here on; the counts are read anywhere.
  std::mutex mutex_;
  std::condition_variable wanted_;  // The thread may have something to do.
  std::condition_variable idle_;    // It has finished something.
  std::vector<Range> ranges_;
  std::byte* last_mapped_ = nullptr;  // Growth goes on in this one's range.
  std::atomic<std::size_t> mapped_{0};
  std::atomic<std::size_t> ready_{0};
  std::byte* working_ = nullptr;  // The chunk being prepared.
  bool ending_ = false;           // It is ready, or gone, in a moment.
  bool stop_ = false;             // It is not wanted any more, or mapped as it is.
  bool growing_ = false;          // The last call was MapChunk.
  bool growth_ = true;
  bool closing_ = false;
};

}  // namespace spillway
