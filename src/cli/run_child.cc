// SPDX-License-Identifier: Apache-2.0
#include "cli/run_child.h"

#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/spawn.h"

namespace spillway {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};

// Blocks signals while it exists, to take them one by one.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&set_);
    for (const int number : kPassedOn) ::sigaddset(&set_, number);
    ::sigaddset(&set_, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  const sigset_t& before() const { return before_; }
  // Waits for the next signal. 0: none arrived within half a second.
  int Next(siginfo_t* info) const {
    const timespec wait{.tv_sec = 0, .tv_nsec = 500'000'000};
    const int number = ::sigtimedwait(&set_, info, &wait);
    return number > 0 ? number : 0;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

int Stand(pid_t child, const Signals& signals) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (ended < 0 && errno != EINTR) return kCanNotRun;
    siginfo_t info{};
    const int number = signals.Next(&info);
    // The terminal sends its signals to both processes.
    const bool from_terminal = info.si_code == SI_KERNEL;
    if (number != 0 && number != SIGCHLD && !from_terminal) ::kill(child, number);
  }
}

}  // namespace

int RunChild(const char* who, char** argv) {
  std::fflush(nullptr);
  const Signals signals;
  ::signal(SIGCHLD, SIG_DFL);  // If it were ignored, the child's exit status would be lost.
  SpawnOptions options{.path = argv[0], .blocked = &signals.before()};
  for (char** word = argv; *word != nullptr; ++word) options.arguments.emplace_back(*word);
  const pid_t child = Spawn(options);
  if (child > 0) return Stand(child, signals);
  fmt::print(stderr, "{}: {}: {}\n", who, argv[0], std::strerror(-child));
  return child == -ENOENT ? kNotFound : kCanNotRun;
}

}  // namespace spillway
