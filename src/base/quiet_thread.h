// Threads of ours take no signals: those are the program's, whose handlers and
// masks know nothing of us. A signal that it holds back on its own threads would
// otherwise end it on one of ours.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace spillway {

// While it lives the calling thread takes none; threads that it starts take none
// for life. Faults are a thread's own, and profilers count on theirs.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) {
      ::sigdelset(&all, own);
    }
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsHeldBack() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

 private:
  sigset_t before_{};
};

// As std::thread, and throws as it does.
template <typename... Args>
std::thread QuietThread(Args&&... args) {
  const SignalsHeldBack held;
  return std::thread(std::forward<Args>(args)...);
}

}  // namespace spillway
