#include "cli/run_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace spillway {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};

// Held back while this lives and taken one by one.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&set_);
    for (const int number : kPassedOn) ::sigaddset(&set_, number);
    ::sigaddset(&set_, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { Restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void Restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  // Waits for the next; 0: none came in half a second.
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
    // What a terminal sends it sends to both of us.
    const bool from_terminal = info.si_code == SI_KERNEL;
    if (number != 0 && number != SIGCHLD && !from_terminal) ::kill(child, number);
  }
}

}  // namespace

int RunChild(const char* who, char** argv) {
  std::fflush(nullptr);
  const Signals signals;
  int trouble[2];
  if (::pipe2(trouble, O_CLOEXEC) != 0) {
    fmt::print(stderr, "{}: pipe: {}\n", who, std::strerror(errno));
    return kCanNotRun;
  }
  ::signal(SIGCHLD, SIG_DFL);  // Ignored, how it ended would be lost.
  const pid_t child = ::fork();
  if (child == 0) {
    signals.Restore();
    ::execvp(argv[0], argv);
    const int error = errno;
    (void)!::write(trouble[1], &error, sizeof error);
    ::_exit(kCanNotRun);
  }
  int error = child < 0 ? errno : 0;
  ::close(trouble[1]);
  if (child > 0 && ::read(trouble[0], &error, sizeof error) <= 0) error = 0;
  ::close(trouble[0]);
  if (error == 0) return Stand(child, signals);
  if (child > 0) ::waitpid(child, nullptr, 0);
  fmt::print(stderr, "{}: {}: {}\n", who, argv[0], std::strerror(error));
  return error == ENOENT ? kNotFound : kCanNotRun;
}

}  // namespace spillway
