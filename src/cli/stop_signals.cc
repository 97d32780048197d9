// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace spillway {

StopSignals::StopSignals() {
  sigset_t stop;
  sigemptyset(&stop);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stop, signal);
  ::pthread_sigmask(SIG_BLOCK, &stop, &before_);
  fd_ = ::signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
}

StopSignals::~StopSignals() {
  // Signals that were received and handled must not be delivered when they are unblocked.
  signalfd_siginfo heeded;
  while (::read(fd_, &heeded, sizeof heeded) > 0) {
  }
  ::close(fd_);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignals::Wait(std::optional<Duration> time) const {
  const auto until = std::chrono::steady_clock::now() + time.value_or(Duration::zero());
  for (;;) {
    const auto left =
        std::max<Duration>(until - std::chrono::steady_clock::now(), Duration::zero());
    const timespec rest{.tv_sec = left / std::chrono::seconds(1),
                        .tv_nsec = (left % std::chrono::seconds(1)).count()};
    pollfd asked{fd_, POLLIN, 0};
    const int ready = ::ppoll(&asked, 1, time ? &rest : nullptr, nullptr);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace spillway
