// SPDX-License-Identifier: Apache-2.0
#include "base/executor.h"

#include <new>
#include <system_error>

#include "base/quiet_thread.h"

namespace spillway {

ThreadExecutor::~ThreadExecutor() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool ThreadExecutor::IsReady() {
  const MutexLock lock(mutex_);
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
    const MutexLock lock(mutex_);
    task->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = task;
    last_ = task;
    if (!thread_.joinable()) thread_ = QuietThread([this] { Loop(); });
  }
  wake_.notify_one();
}

void ThreadExecutor::Loop() {
  UniqueLock lock(mutex_);
  for (;;) {
    while (!stop_ && first_ == nullptr) wake_.wait(mutex_);
    if (first_ == nullptr) return;
    Strand::Task* task = first_;
    first_ = task->next;
    lock.unlock();
    task->run(task);
    lock.lock();
  }
}

}  // namespace spillway
