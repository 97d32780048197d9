// SPDX-License-Identifier: Apache-2.0
#include "capi/courier.h"

#include <utility>

#include "base/quiet_thread.h"

namespace spillway::capi {

Courier::~Courier() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Courier::Hand(std::function<void()> errand) {
  const MutexLock lock(mutex_);
  if (!thread_.joinable()) thread_ = QuietThread([this] { Loop(); });
  errands_.push_back(std::move(errand));
  wake_.notify_one();
}

void Courier::Loop() {
  UniqueLock lock(mutex_);
  for (;;) {
    while (!stop_ && errands_.empty()) wake_.wait(mutex_);
    if (errands_.empty()) return;
    const std::function<void()> errand = std::move(errands_.front());
    errands_.pop_front();
    lock.unlock();
    errand();
    lock.lock();
  }
}

}  // namespace spillway::capi
