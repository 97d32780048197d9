// A lock for a few dozen instructions: who finds it taken looks again, and lets
// others run now and then. Its holder never waits for anything.
#pragma once

#include <sched.h>

#include <atomic>

#include "base/strand.h"

namespace spillway {

class BriefLock {
 public:
  void lock() {
    for (int looks = 0; !try_lock(); ++looks) {
      looks < kLooksBeforeSleep ? PauseBriefly() : static_cast<void>(sched_yield());
    }
  }
  // False: it was not to be had within a few microseconds.
  bool try_lock_briefly() {
    for (int looks = 0; looks < kLooksBeforeSleep; ++looks) {
      if (try_lock()) return true;
      PauseBriefly();
    }
    return false;
  }
  bool try_lock() {
    return !taken_.load(std::memory_order_relaxed) &&
           !taken_.exchange(true, std::memory_order_acquire);
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace spillway
