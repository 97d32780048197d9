#include "demo/stop_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

namespace spillway::demo {

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
  // Signals that came and were heeded must not strike when they are let in.
  signalfd_siginfo heeded;
  while (::read(fd_, &heeded, sizeof heeded) > 0) {
  }
  ::close(fd_);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignals::Wait(Duration time) const {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(time, Duration::zero()));
  pollfd asked{fd_, POLLIN, 0};
  return ::poll(&asked, 1, static_cast<int>(ms.count())) > 0;
}

}  // namespace spillway::demo
