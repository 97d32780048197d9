// SPDX-License-Identifier: Apache-2.0
#include "server/delete_flusher.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace spillway::server {

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr Duration kTry = std::chrono::seconds(1);
constexpr Duration kPause =
    std::chrono::milliseconds(10);  // Between two tries: a tier whose disk is late fails at once.

}  // namespace

ThreadDeleteFlusher::ThreadDeleteFlusher(Cache* cache, std::atomic<bool>* not_durable)
    : cache_(cache), not_durable_(not_durable), thread_([this] { Run(); }) {}

ThreadDeleteFlusher::~ThreadDeleteFlusher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ThreadDeleteFlusher::Await(std::function<void(bool durable)> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(done));
  }
  wake_.notify_one();
}

// False: the destructor wants the thread to stop.
bool ThreadDeleteFlusher::Pause(Duration time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, time, [&] { return stop_; });
}

bool ThreadDeleteFlusher::IsDurable(Duration within) {
  const auto until = SteadyClock::now() + within;  // real world: a disk is slow
  do {
    if (cache_->FlushDeletes(kTry)) return true;
  } while (SteadyClock::now() < until && Pause(kPause));  // real world: as above
  return false;
}

void ThreadDeleteFlusher::Run() {
  for (;;) {
    std::vector<std::function<void(bool)>> all;
    {
      std::unique_lock lock(mutex_);
      const auto due = [&] { return stop_ || !waiting_.empty(); };
      // After a failure it is tried again even if no write waits.
      *not_durable_ ? static_cast<void>(wake_.wait_for(lock, kTry, due)) : wake_.wait(lock, due);
      if (stop_ && waiting_.empty()) return;
      all = std::exchange(waiting_, {});
    }
    const bool durable = IsDurable(*not_durable_ ? Duration::zero() : kBound);
    if (durable == not_durable_->exchange(!durable)) {
      durable ? LogWarning("the disk tier records deletes again: writes are accepted")
              : LogWarning(
                    "the disk tier has not recorded deletes for {} s: writes are refused "
                    "until it does",
                    std::chrono::duration_cast<std::chrono::seconds>(kBound).count());
    }
    for (const auto& done : all) done(durable);
  }
}

}  // namespace spillway::server
