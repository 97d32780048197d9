// SPDX-License-Identifier: Apache-2.0
// Our threads block all signals: those belong to the program, whose handlers
// and masks do not expect our threads. Otherwise a signal that the program
// blocks on its own threads could terminate it on one of ours.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace spillway {

// While it lives, the calling thread blocks signals, and threads that it starts
// block them for life. Not blocked are faults, which concern the thread itself,
// and the signal that profilers need.
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

// Like std::thread; throws the same exceptions.
template <typename... Args>
std::thread QuietThread(Args&&... args) {
  const SignalsHeldBack held;
  return std::thread(std::forward<Args>(args)...);
}

}  // namespace spillway
