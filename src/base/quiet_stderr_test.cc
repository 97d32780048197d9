// SPDX-License-Identifier: Apache-2.0
#include "base/quiet_stderr.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

void WriteByAllWays(const std::string& what) {
  std::fputs((what + " stdio\n").c_str(), stderr);
  std::cerr << what << " stream\n";
  EXPECT_GT(::write(STDERR_FILENO, (what + " descriptor\n").data(), what.size() + 12), 0);
}

TEST(QuietStderr, ALibrarysLinesAreGoneAndThoseBeforeAndBehindAreThere) {
  CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    WriteByAllWays("before");
    {
      const QuietStderr quiet(std::chrono::minutes(1));
      WriteByAllWays("inside");
      const QuietStderr again(std::chrono::minutes(1));
      WriteByAllWays("inside");
    }
    WriteByAllWays("behind");
  }
  EXPECT_THAT(GetCapturedStderr(), AllOf(HasSubstr("before stdio"), HasSubstr("before stream"),
                                         HasSubstr("before descriptor"), HasSubstr("behind stdio"),
                                         HasSubstr("behind stream"), HasSubstr("behind descriptor"),
                                         Not(HasSubstr("inside"))));
}

TEST(QuietStderr, WhatOurLogSaysMeanwhileIsSaid) {
  CaptureStderr();
  {
    const QuietStderr quiet(std::chrono::minutes(1));
    LogInfo("ours, inside");
    std::thread([] { LogWarning("ours, of another thread"); }).join();
  }
  LogInfo("ours, behind");
  EXPECT_THAT(GetCapturedStderr(), AllOf(HasSubstr("[info] ours, inside\n"),
                                         HasSubstr("[warning] ours, of another thread\n"),
                                         HasSubstr("[info] ours, behind\n")));
}

TEST(QuietStderr, ACallThatDoesNotEndDoesNotKeepIt) {
  CaptureStderr();
  {
    const QuietStderr quiet(Duration::zero());  // Its time is over at once.
    while (QuietStderr::Real() != STDERR_FILENO) std::this_thread::yield();
    WriteByAllWays("hung");
  }
  WriteByAllWays("behind");
  EXPECT_THAT(GetCapturedStderr(), AllOf(HasSubstr("hung stdio"), HasSubstr("behind stdio")));
}

TEST(QuietStderr, ManyThreadsAtOnceLeaveItAsItWas) {
  CaptureStderr();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 50; ++n) const QuietStderr quiet(std::chrono::minutes(1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(QuietStderr::Real(), STDERR_FILENO);
  WriteByAllWays("behind");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("behind descriptor"));
}

}  // namespace
}  // namespace spillway
