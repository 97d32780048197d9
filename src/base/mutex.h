// SPDX-License-Identifier: Apache-2.0
// The standard library's mutexes, locks and condition variable, with the annotations
// by which clang checks that guarded members are used with their lock held
// (base/thread_annotations.h). Nothing is added at run time, and members that the
// standard has, too, are spelled as there.
//
//   Mutex, MutexLock               std::mutex, std::lock_guard
//   UniqueLock                     std::unique_lock: may be unlocked and locked again
//   MutexUnlock                    the reverse of a MutexLock, for functions that are
//                                  called with the mutex held and release it meanwhile
//   SharedMutex, WriterLock, ReaderLock
//   CondVar                        std::condition_variable; it waits with the mutex
//                                  itself, since clang cannot tell which mutex a lock
//                                  that is passed on belongs to
//
// Where a wait must end with a std::stop_token, std::condition_variable_any does: it
// takes a Mutex in place of a lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/thread_annotations.h"

namespace spillway {

class SPILLWAY_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() SPILLWAY_ACQUIRE() { mutex_.lock(); }
  bool try_lock() SPILLWAY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() SPILLWAY_RELEASE() { mutex_.unlock(); }
  // Says to clang alone that it is held, where that follows from something else.
  void AssertHeld() const SPILLWAY_ASSERT_HELD() {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SPILLWAY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SPILLWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~MutexLock() SPILLWAY_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class SPILLWAY_SCOPED_CAPABILITY UniqueLock {
 public:
  explicit UniqueLock(Mutex& mutex) SPILLWAY_ACQUIRE(mutex) : lock_(mutex) {}
  ~UniqueLock() SPILLWAY_RELEASE() = default;
  UniqueLock(const UniqueLock&) = delete;
  UniqueLock& operator=(const UniqueLock&) = delete;

  void lock() SPILLWAY_ACQUIRE() { lock_.lock(); }
  void unlock() SPILLWAY_RELEASE() { lock_.unlock(); }

 private:
  std::unique_lock<Mutex> lock_;
};

class SPILLWAY_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) SPILLWAY_RELEASE(mutex) : mutex_(mutex) { mutex.unlock(); }
  ~MutexUnlock() SPILLWAY_RELEASE() { mutex_.lock(); }  // To clang: this scope's effect ends.
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

class SPILLWAY_CAPABILITY("shared mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() SPILLWAY_ACQUIRE() { mutex_.lock(); }
  bool try_lock() SPILLWAY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() SPILLWAY_RELEASE() { mutex_.unlock(); }
  void lock_shared() SPILLWAY_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() SPILLWAY_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class SPILLWAY_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) SPILLWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~WriterLock() SPILLWAY_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class SPILLWAY_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) SPILLWAY_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex.lock_shared();
  }
  ~ReaderLock() SPILLWAY_RELEASE_GENERIC() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Each wait releases the mutex meanwhile and holds it again on return. A condition
// that needs the mutex is either the caller's loop,
//
//   while (!stop_ && tasks_.empty()) wake_.wait(mutex_);
//
// or, where the time is limited, a lambda that says so.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void notify_one() noexcept { wake_.notify_one(); }
  void notify_all() noexcept { wake_.notify_all(); }

  void wait(Mutex& mutex) SPILLWAY_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    wake_.wait(borrowed.lock);
  }
  template <typename Clock, typename Span>
  void wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Span>& end)
      SPILLWAY_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    wake_.wait_until(borrowed.lock, end);
  }
  template <typename Rep, typename Period>
  void wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& most)
      SPILLWAY_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    wake_.wait_for(borrowed.lock, most);
  }
  // Returns what `ready` last answered.
  template <typename Rep, typename Period, typename Ready>
  bool wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& most, Ready ready)
      SPILLWAY_REQUIRES(mutex) {
    Borrowed borrowed(mutex);
    return wake_.wait_for(borrowed.lock, most, std::move(ready));
  }

 private:
  // What std::condition_variable asks for: a unique_lock. The mutex stays its holder's,
  // also if a condition throws.
  struct Borrowed {
    explicit Borrowed(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Borrowed() { static_cast<void>(lock.release()); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable wake_;
};

}  // namespace spillway
