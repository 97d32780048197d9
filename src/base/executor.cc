#include "base/executor.h"

#include <new>
#include <system_error>

#include "base/quiet_thread.h"

namespace spillway {

ThreadExecutor::~ThreadExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool ThreadExecutor::IsReady() {
  const std::lock_guard lock(mutex_);
  try {
    if (!thread_.joinable()) thread_ = QuietThread([this] { Loop(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void ThreadExecutor::Run(Strand::Task* task) {
  {
    const std::lock_guard lock(mutex_);
    task->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = task;
    last_ = task;
    if (!thread_.joinable()) thread_ = QuietThread([this] { Loop(); });
  }
  wake_.notify_one();
}

void ThreadExecutor::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || first_ != nullptr; });
    if (first_ == nullptr) return;
    Strand::Task* task = first_;
    first_ = task->next;
    lock.unlock();
    task->run(task);
    lock.lock();
  }
}

}  // namespace spillway
