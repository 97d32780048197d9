// SPDX-License-Identifier: Apache-2.0
// The transfer queue of a real cache: a few threads for each direction, so that a slow
// disk does not delay copies in memory, nor writes delay reads. The second thread of
// each direction also does background work and runs at a lower priority (nice): it gets
// the processor time that others leave.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "base/mutex.h"
#include "base/strand.h"
#include "cache/transfer.h"

namespace spillway {

class ThreadTransferQueue final : public TransferQueue {
 public:
  struct Settings {
    TransferPaths ways;
    // Most bytes a second for background work; empty: no limit.
    std::optional<Bytes> background_rate;
  };
  // `alive` returns a reference that keeps the strand's owner alive: the end of a
  // transfer may be what its destruction waits for. `tick` is called regularly while
  // transfers are in flight, so that waiting calls can time out.
  ThreadTransferQueue(const Settings& settings, Strand* strand,
                      std::function<std::shared_ptr<void>()> alive, std::function<void()> tick);
  // Runs what is still queued, cancelled or not. Called on a thread of its own, it
  // detaches that thread, which then ends by itself.
  ~ThreadTransferQueue() override;

  bool IsReady(TierId from, TierId to) override;
  void Start(Transfer* transfer) override;
  void Raise(Transfer* transfer, Priority priority) override;
  std::size_t Waiting(TierId from, TierId to) const override;

 private:
  // First in, first out, linked through the transfers themselves: needs no memory.
  class Queue {
   public:
    bool empty() const { return first_ == nullptr; }
    Transfer* front() const { return static_cast<Transfer*>(first_); }
    void Push(Transfer* transfer);
    Transfer* Pop();
    bool Remove(const Transfer* transfer);  // False: it was not queued here.

   private:
    Strand::Task* first_ = nullptr;
    Strand::Task* last_ = nullptr;
  };
  // Lanes: down in memory, to disk, from disk, up in memory.
  static constexpr std::size_t kLanes = 4;
  // Threads of a lane: the second is nice, the third runs only for a GPU's link.
  static constexpr std::size_t kThreads = 3;
  struct Lane {
    Mutex mutex;
    CondVar wake;
    std::array<Queue, kPriorities> queues SPILLWAY_GUARDED_BY(mutex);
    bool stop SPILLWAY_GUARDED_BY(mutex) = false;
    // When the rate allows more background work.
    std::chrono::steady_clock::time_point background_free SPILLWAY_GUARDED_BY(mutex){};
  };
  // Shared by all threads; the last of them frees it.
  struct Shared {
    Settings settings;
    Strand* strand = nullptr;
    std::function<std::shared_ptr<void>()> alive;
    std::function<void()> tick;
    std::unique_ptr<SealCrew> crew;  // If only the device can read its memory.
    std::array<Lane, kLanes> lanes;
    std::array<std::array<std::atomic<std::size_t>, kTiers>, kTiers> waiting{};
    // Transfers finished by nice threads. Another thread posts them: a thread that
    // posts may run the strand for others, and must not be slow at that.
    Mutex done_mutex;
    CondVar done_wake;
    Queue done SPILLWAY_GUARDED_BY(done_mutex);
    bool done_stop SPILLWAY_GUARDED_BY(done_mutex) = false;
  };
  static std::size_t LaneOf(TierId from, TierId to);
  static void Work(std::shared_ptr<Shared> shared, std::size_t lane, bool nice);
  // Takes the next transfers and returns how many: one, or a batch of small values for
  // the disk, as many as are queued and fit. 0: the lane is closed and empty.
  static constexpr std::size_t kBatchMax = 512;
  using Batch = std::array<Transfer*, kBatchMax>;
  static std::size_t Next(Shared& shared, Lane& lane, bool nice, Batch* batch);
  static Queue* NextQueue(Shared& shared, Lane& lane, bool nice) SPILLWAY_REQUIRES(lane.mutex);
  static void RunAll(const TransferPaths& ways, std::span<Transfer* const> transfers);
  static void Deliver(Shared& shared, Transfer* transfer);
  static void DeliverAll(std::shared_ptr<Shared> shared);

  const std::shared_ptr<Shared> shared_;
  // Used on the strand only; started when needed.
  std::array<std::array<std::thread, kThreads>, kLanes> threads_;
  std::thread deliverer_;
};

}  // namespace spillway
