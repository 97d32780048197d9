#include "capi/courier.h"

#include <utility>

#include "base/quiet_thread.h"

namespace spillway::capi {

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Courier::Hand(std::function<void()> errand) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = QuietThread([this] { Loop(); });
  errands_.push_back(std::move(errand));
  wake_.notify_one();
}

void Courier::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !errands_.empty(); });
    if (errands_.empty()) return;
    const std::function<void()> errand = std::move(errands_.front());
    errands_.pop_front();
    lock.unlock();
    errand();
    lock.lock();
  }
}

}  // namespace spillway::capi
