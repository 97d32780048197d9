// SPDX-License-Identifier: Apache-2.0
#include "base/quiet_stderr.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <system_error>

#include "base/mutex.h"
#include "base/quiet_thread.h"

namespace spillway {

namespace {

constinit std::atomic<int> real{STDERR_FILENO};

// The first user redirects standard error, the last one restores it.
struct Silence {
  Mutex mutex;
  CondVar ended;
  int users SPILLWAY_GUARDED_BY(mutex) = 0;
  unsigned long turn SPILLWAY_GUARDED_BY(mutex) = 0;  // Rises each time it is redirected.
  bool on SPILLWAY_GUARDED_BY(mutex) = false;
  // A copy of the descriptor; never closed, so that `real` is always open.
  int kept SPILLWAY_GUARDED_BY(mutex) = -1;

  void Begin() SPILLWAY_REQUIRES(mutex) {
    const int copy = kept < 0 ? ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                              : ::dup3(STDERR_FILENO, kept, O_CLOEXEC);
    if (copy < 0) return;  // Standard error is closed: nothing to suppress.
    kept = copy;
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0) return;
    real.store(kept, std::memory_order_release);
    on = ::dup2(nowhere, STDERR_FILENO) >= 0;
    ::close(nowhere);
    ++turn;
  }
  void End() SPILLWAY_REQUIRES(mutex) {
    if (on) ::dup2(kept, STDERR_FILENO);
    on = false;
    real.store(STDERR_FILENO, std::memory_order_release);
  }
};

Silence& TheSilence() {
  static auto* const kSilence = new Silence;  // A hung call may outlive statics.
  return *kSilence;
}

// real world: a library's call hangs, and the process wants its standard error back
void EndAfter(Duration most, unsigned long turn) {
  Silence& silence = TheSilence();
  const MutexLock lock(silence.mutex);
  const bool over = silence.ended.wait_for(  // real world: as above
      silence.mutex, most,
      [&]() SPILLWAY_REQUIRES(silence.mutex) { return !silence.on || silence.turn != turn; });
  if (!over) silence.End();
}

}  // namespace

QuietStderr::QuietStderr(Duration most) {
  Silence& silence = TheSilence();
  const MutexLock lock(silence.mutex);
  if (silence.users++ > 0) return;
  silence.Begin();
  if (!silence.on) return;
  try {
    QuietThread(&EndAfter, most, silence.turn).detach();
  } catch (const std::system_error&) {
    silence.End();  // Without the thread nothing would limit it.
  }
}

QuietStderr::~QuietStderr() {
  Silence& silence = TheSilence();
  const MutexLock lock(silence.mutex);
  if (--silence.users > 0) return;
  silence.End();
  silence.ended.notify_all();
}

int QuietStderr::Real() noexcept { return real.load(std::memory_order_acquire); }

}  // namespace spillway
