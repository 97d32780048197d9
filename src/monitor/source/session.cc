// SPDX-License-Identifier: Apache-2.0
#include "monitor/source/session.h"

#include <map>

#include "base/mutex.h"

namespace spillway {

struct Session::Use {
  Mutex mutex;
  int sessions SPILLWAY_GUARDED_BY(mutex) = 0;
};

Session::Use* Session::UseOf(const std::string& library) {
  // Never freed: a thread abandoned inside a driver may end its session while
  // the process exits.
  static auto* const kMutex = new Mutex;
  static auto* const kUses SPILLWAY_PT_GUARDED_BY(kMutex) = new std::map<std::string, Use>;
  const MutexLock lock(*kMutex);
  return &(*kUses)[library];
}

Result<std::unique_ptr<Session>> Session::Begin(const std::string& library,
                                                const std::function<Status()>& start,
                                                std::function<void()> stop) {
  Use* const use = UseOf(library);
  const MutexLock lock(use->mutex);
  if (use->sessions == 0) {
    if (const Status started = start(); !started) return started.error();
  }
  ++use->sessions;
  return std::unique_ptr<Session>(new Session(use, std::move(stop)));
}

Session::~Session() {
  const MutexLock lock(use_->mutex);
  if (--use_->sessions > 0) return;
  try {
    stop_();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // AMD's libraries are C++ inside and may throw. The session has ended in any case.
  }
}

}  // namespace spillway
