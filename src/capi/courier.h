// Submits batches from a thread of its own, for callers that must not be held up:
// an event loop. Started with the first batch; in order, one after another.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace spillway::capi {

class Courier {
 public:
  Courier() = default;
  // Whatever was handed over is done first.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  void Hand(std::function<void()> errand);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> errands_;  // Guarded by mutex_, as stop_.
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::capi
