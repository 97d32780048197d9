// SPDX-License-Identifier: Apache-2.0
// The DeleteFlusher waits for the disk in place of the connections. A write that overwrote or
// erased a value on disk is answered only when that deletion is durable; one wait serves all writes
// before it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "spillway/cache.h"

namespace spillway::server {

class DeleteFlusher {
 public:
  // The time limit for the disk to record a write.
  static constexpr Duration kBound = std::chrono::seconds(10);

  virtual ~DeleteFlusher() = default;
  // Calls `done`, on any thread: true when all earlier deletes are durable, false when that did not
  // happen within kBound.
  virtual void Await(std::function<void(bool durable)> done) = 0;
};

// On a thread of its own. Sets `not_durable` when kBound has passed, and clears it when the disk
// records deletes again, which is tried once a second.
class ThreadDeleteFlusher final : public DeleteFlusher {
 public:
  ThreadDeleteFlusher(Cache* cache, std::atomic<bool>* not_durable);
  ~ThreadDeleteFlusher() override;
  ThreadDeleteFlusher(const ThreadDeleteFlusher&) = delete;
  ThreadDeleteFlusher& operator=(const ThreadDeleteFlusher&) = delete;

  void Await(std::function<void(bool durable)> done) override;

 private:
  void Run();
  bool IsDurable(Duration within);
  bool Pause(Duration time);

  Cache* const cache_;
  std::atomic<bool>* const not_durable_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void(bool)>> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::server
