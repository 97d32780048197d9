#include "monitor/source/session.h"

#include <map>
#include <mutex>

namespace spillway {

struct Session::Use {
  std::mutex mutex;
  int sessions = 0;  // Guarded by mutex.
};

Session::Use* Session::UseOf(const std::string& library) {
  // Never freed: a thread left behind inside a driver may end its session while
  // the process is exiting.
  static auto* const kMutex = new std::mutex;
  static auto* const kUses = new std::map<std::string, Use>;
  const std::lock_guard lock(*kMutex);
  return &(*kUses)[library];
}

Result<std::unique_ptr<Session>> Session::Begin(const std::string& library,
                                                const std::function<Status()>& start,
                                                std::function<void()> stop) {
  Use* const use = UseOf(library);
  const std::lock_guard lock(use->mutex);
  if (use->sessions == 0) {
    if (const Status started = start(); !started) return started.error();
  }
  ++use->sessions;
  return std::unique_ptr<Session>(new Session(use, std::move(stop)));
}

Session::~Session() {
  const std::lock_guard lock(use_->mutex);
  if (--use_->sessions > 0) return;
  try {
    stop_();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // AMD's libraries are C++ inside. It is over either way.
  }
}

}  // namespace spillway
