// An Executor runs tasks away from whoever hands them over: copies whose
// submitter has gone on. The simulator has its own and picks by seed.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/strand.h"

namespace spillway {

class Executor {
 public:
  virtual ~Executor() = default;
  // Before Run, as often as one likes: what it needs for that. False: there is
  // none to be had now.
  virtual bool IsReady() { return true; }
  virtual void Run(Strand::Task* task) = 0;
};

// One thread, started when it is first asked for, joined (all tasks done) at
// the end.
class ThreadExecutor final : public Executor {
 public:
  ~ThreadExecutor() override;
  bool IsReady() override;
  void Run(Strand::Task* task) override;

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  Strand::Task* first_ = nullptr;  // Guarded by mutex_, as all below.
  Strand::Task* last_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace spillway
