// SPDX-License-Identifier: Apache-2.0
// An Executor runs tasks on another thread than the one that submits them, such
// as copies that outlive the submitter's call. The simulator has its own, which
// picks the next task by seed.
#pragma once

#include <thread>

#include "base/mutex.h"
#include "base/strand.h"

namespace spillway {

class Executor {
 public:
  virtual ~Executor() = default;
  // Acquires what Run needs; may be called any number of times before Run.
  // Returns false if that is not possible now.
  virtual bool IsReady() { return true; }
  virtual void Run(Strand::Task* task) = 0;
};

// One thread, started on first use. The destructor runs all tasks and joins it.
class ThreadExecutor final : public Executor {
 public:
  ~ThreadExecutor() override;
  bool IsReady() override;
  void Run(Strand::Task* task) override;

 private:
  void Loop();

  Mutex mutex_;
  CondVar wake_;
  Strand::Task* first_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
  Strand::Task* last_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::thread thread_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
