// SPDX-License-Identifier: Apache-2.0
#include "base/spawn.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include <gtest/gtest.h>

namespace spillway {
namespace {

// Returns everything that a program writes to `out` (1 or 2), and its exit status.
std::string Said(SpawnOptions options, int out, int* status) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  (out == 1 ? options.out : options.err) = ends[1];
  const pid_t pid = Spawn(options);
  EXPECT_GT(pid, 0);
  ::close(ends[1]);
  std::string text;
  std::array<char, 256> some{};
  for (ssize_t n = 0; (n = ::read(ends[0], some.data(), some.size())) > 0;) {
    text.append(some.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int ended = 0;
  EXPECT_EQ(::waitpid(pid, &ended, 0), pid);
  *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  return text;
}

TEST(Spawn, ArgumentsStreamsAndStatus) {
  int status = 0;
  EXPECT_EQ(Said({.path = "sh", .arguments = {"sh", "-c", "echo \"$1\"; exit 7", "sh", "a b"}}, 1,
                 &status),
            "a b\n");
  EXPECT_EQ(status, 7);
  EXPECT_EQ(Said({.path = "/bin/sh", .arguments = {"name", "-c", "echo $0 >&2"}}, 2, &status),
            "name\n");
  EXPECT_EQ(status, 0);
}

TEST(Spawn, WhatCanNotBeStartedIsAnErrorAndNoProcess) {
  EXPECT_EQ(Spawn({.path = "/no/such/program", .arguments = {"program"}}), -ENOENT);
  EXPECT_EQ(Spawn({.path = "/", .arguments = {"program"}}), -EACCES);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, SignalsAreBlockedAsAsked) {
  sigset_t none;
  sigset_t all;
  sigset_t before;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = 0;
  const std::string blocked =
      Said({.path = "sed",
            .arguments = {"sed", "-n", "s/^SigBlk:[[:space:]]*//p", "/proc/self/status"},
            .blocked = &none},
           1, &status);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(blocked, "0000000000000000\n");
}

}  // namespace
}  // namespace spillway
