// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { SetLog(LogLevel::kInfo); }

  LogCall Into() {
    return [this](LogLevel level, std::string_view text) { said_.emplace_back(level, text); };
  }

  std::vector<std::pair<LogLevel, std::string>> said_;
};

TEST_F(LogTest, GoesToStandardErrorAndNeverToStandardOutput) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  LogWarning("{} of {}", 3, "them");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("spillway"), HasSubstr("warning"), HasSubstr("3 of them\n")));
}

TEST_F(LogTest, GoesToWhoeverWantsItInstead) {
  SetLog(LogLevel::kInfo, Into());
  ::testing::internal::CaptureStderr();
  LogInfo("a");
  LogError("b {}", 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(said_, ElementsAre(Pair(LogLevel::kInfo, "a"), Pair(LogLevel::kError, "b 1")));
}

TEST_F(LogTest, WhatIsLessSeriousIsNotSaid) {
  SetLog(LogLevel::kWarning, Into());
  LogInfo("a");
  LogWarning("b");
  SetLogLevel(LogLevel::kError);
  LogWarning("c");
  LogError("d");
  SetLogLevel(LogLevel::kOff);
  LogError("e");
  EXPECT_THAT(said_, ElementsAre(Pair(LogLevel::kWarning, "b"), Pair(LogLevel::kError, "d")));
}

TEST_F(LogTest, ACallThatThrowsHarmsNobody) {
  SetLog(LogLevel::kInfo, [](LogLevel, std::string_view) { throw std::string("thrown"); });
  LogError("a");
  SetLog(LogLevel::kInfo, Into());
  LogError("b");
  EXPECT_THAT(said_, ElementsAre(Pair(LogLevel::kError, "b")));
}

TEST_F(LogTest, LevelsHaveNames) {
  for (const LogLevel level :
       {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    EXPECT_EQ(LogLevelNamed(Name(level)), level);
  }
  EXPECT_EQ(LogLevelNamed("loud"), std::nullopt);
}

}  // namespace
}  // namespace spillway
