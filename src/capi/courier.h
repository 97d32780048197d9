// SPDX-License-Identifier: Apache-2.0
// Runs tasks on a thread of its own, one after another, in order. Used to submit batches for
// callers that must not block, such as an event loop. The thread starts with the first task.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace spillway::capi {

// Owned by a spillway_cache.
class Courier {
 public:
  Courier() = default;
  // Runs all tasks handed over so far, then ends the thread.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Adds a task. From any thread.
  void Hand(std::function<void()> errand);

 private:
  void Loop();

  Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> errands_ SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::capi
