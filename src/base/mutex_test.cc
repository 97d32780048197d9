// SPDX-License-Identifier: Apache-2.0
#include "base/mutex.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace spillway {
namespace {

// Whether another thread could lock the mutex now.
bool IsFree(Mutex& mutex) {
  bool free = false;
  std::thread([&] {
    if (!mutex.try_lock()) return;
    free = true;
    mutex.unlock();
  }).join();
  return free;
}

TEST(Mutex, MutexUnlockReleasesItForItsScopeOnly) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(IsFree(mutex));
    {
      const MutexUnlock unlock(mutex);
      EXPECT_TRUE(IsFree(mutex));
    }
    EXPECT_FALSE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

TEST(Mutex, UniqueLockThatWasUnlockedLeavesTheMutexAlone) {
  Mutex mutex;
  {
    UniqueLock lock(mutex);
    lock.unlock();
    EXPECT_TRUE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

TEST(CondVar, HoldsTheMutexAfterAWait) {
  Mutex mutex;
  CondVar wake;
  const MutexLock lock(mutex);
  EXPECT_FALSE(wake.wait_for(mutex, std::chrono::nanoseconds(1), [] { return false; }));
  EXPECT_FALSE(IsFree(mutex));
  wake.wait_for(mutex, std::chrono::nanoseconds(1));
  EXPECT_FALSE(IsFree(mutex));
}

TEST(CondVar, ReleasesTheMutexWhileItWaits) {
  Mutex mutex;
  CondVar wake;
  bool said = false;
  std::thread other;
  {
    const MutexLock lock(mutex);
    other = std::thread([&] {
      const MutexLock held(mutex);
      said = true;
      wake.notify_all();
    });
    while (!said) wake.wait(mutex);
    EXPECT_TRUE(said);
  }
  other.join();
}

TEST(CondVar, AConditionThatThrowsLeavesTheMutexToItsHolder) {
  Mutex mutex;
  CondVar wake;
  {
    const MutexLock lock(mutex);
    const auto fails = []() -> bool { throw std::runtime_error("no answer"); };
    EXPECT_THROW(wake.wait_for(mutex, std::chrono::seconds(1), fails), std::runtime_error);
    EXPECT_FALSE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

TEST(SharedMutex, ReadersShareItAndAWriterDoesNot) {
  SharedMutex mutex;
  const auto is_free_to_write = [&] {
    bool free = false;
    std::thread([&] {
      if (!mutex.try_lock()) return;
      free = true;
      mutex.unlock();
    }).join();
    return free;
  };
  {
    const ReaderLock lock(mutex);
    std::thread([&] { const ReaderLock other(mutex); }).join();
    EXPECT_FALSE(is_free_to_write());
  }
  EXPECT_TRUE(is_free_to_write());
}

}  // namespace
}  // namespace spillway
