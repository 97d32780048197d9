#include "server/settler.h"

#include <utility>

namespace spillway::server {

Settler::Settler(Cache* cache) : cache_(cache), thread_([this] { Run(); }) {}

Settler::~Settler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Settler::Await(std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(done));
  }
  wake_.notify_one();
}

void Settler::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto all = std::exchange(waiting_, {});
    lock.unlock();
    // What it answers is logged by the cache; the writes are done in any case.
    static_cast<void>(cache_->Settle(std::chrono::seconds(1)));
    for (const auto& done : all) done();
    lock.lock();
  }
}

}  // namespace spillway::server
