// SPDX-License-Identifier: Apache-2.0
#include "base/quiet_thread.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

sigset_t Mask() {
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return mask;
}

TEST(QuietThread, TakesNoSignalsOfTheProgram) {
  const sigset_t before = Mask();
  sigset_t there{};
  QuietThread([&] { there = Mask(); }).join();
  const sigset_t after = Mask();
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE}) {
    EXPECT_EQ(::sigismember(&there, number), 1) << number;
    EXPECT_EQ(::sigismember(&after, number), ::sigismember(&before, number)) << number;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGPROF}) {
    EXPECT_EQ(::sigismember(&there, number), 0) << number;
  }
}

}  // namespace
}  // namespace spillway
