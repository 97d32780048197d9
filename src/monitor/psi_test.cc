// SPDX-License-Identifier: Apache-2.0
#include "monitor/psi.h"

#include <poll.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/testing/file_tree.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kCalm =
    "some avg10=1.50 avg60=0.10 avg300=0.00 total=1234\n"
    "full avg10=0.50 avg60=0.00 avg300=0.00 total=99\n";

class Psi : public ::testing::Test {
 protected:
  Psi() { tree_.Write("proc/pressure/memory", kCalm); }
  std::string File() const { return tree_.Path("proc/pressure/memory"); }

  testing::FileTree tree_;
};

TEST(PsiText, GivesTheShareOfTheLastTenSeconds) {
  EXPECT_DOUBLE_EQ(ParseSomeAvg10(kCalm).value(), 0.015);
  EXPECT_DOUBLE_EQ(ParseSomeAvg10("some avg10=100.00").value(), 1);
  for (const char* garbage :
       {"", "some", "some avg10=", "some avg10=x avg60=1", "full avg10=1.00", "some avg10=1.0.0",
        "some avg10=-1", "some avg10=101", "some avg10=nan"}) {
    EXPECT_FALSE(ParseSomeAvg10(garbage)) << garbage;
  }
}

TEST_F(Psi, AsksForAWindowOfASecond) {
  const auto psi = PsiTrigger::Open(File()).value();
  EXPECT_GE(psi->fd(), 0);
  EXPECT_EQ(psi->window(), std::chrono::seconds(1));
  std::ifstream file(File(), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The kernel overwrites the last byte, so one more is sent.
  EXPECT_THAT(text, ::testing::StartsWith(std::string("some 150000 1000000\0", 20)));
}

TEST_F(Psi, FallsBackToTwoSeconds) {
  std::vector<std::string> asked;
  const auto psi = PsiTrigger::Open(File(), [&](int, std::string_view trigger) {
                     asked.emplace_back(trigger);
                     return trigger.ends_with(" 2000000") ? 0 : EINVAL;
                   }).value();
  EXPECT_GE(psi->fd(), 0);
  EXPECT_EQ(psi->window(), std::chrono::seconds(2));
  EXPECT_THAT(asked, ElementsAre("some 150000 1000000", "some 300000 2000000"));
  EXPECT_DOUBLE_EQ(psi->SomeAvg10().value(), 0.015);
}

TEST_F(Psi, SaysThatOnlyTheTextCanBePolled) {
  const auto psi = PsiTrigger::Open(File(), [](int, std::string_view) { return EINVAL; }).value();
  EXPECT_EQ(psi->fd(), -1);
  EXPECT_THAT(psi->why_polling(), HasSubstr("only its text can be polled"));
  EXPECT_THAT(psi->why_polling(), HasSubstr("Invalid argument"));
  EXPECT_DOUBLE_EQ(psi->SomeAvg10().value(), 0.015);
}

TEST_F(Psi, IsUnavailableWithoutTheFileOrWithAnother) {
  const auto missing = PsiTrigger::Open(tree_.Path("none"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kUnavailable);
  EXPECT_THAT(missing.error().message, HasSubstr("none is not there"));
  tree_.Write("other", "MemTotal: 1 kB\n");
  EXPECT_THAT(PsiTrigger::Open(tree_.Path("other")).error().message, HasSubstr("MemTotal"));
}

TEST_F(Psi, AReadingAfterTheFileWentIsAnErrorAndThenGoodAgain) {
  const auto psi = PsiTrigger::Open(File(), [](int, std::string_view) { return EPERM; }).value();
  tree_.Remove("proc/pressure/memory");
  EXPECT_FALSE(psi->SomeAvg10());
  tree_.Write("proc/pressure/memory", kCalm);
  EXPECT_TRUE(psi->SomeAvg10());
}

TEST_F(Psi, OurControlGroupComesBeforeTheMachine) {
  EXPECT_THAT(PsiFiles(tree_.Machine()), ElementsAre(File()));
  tree_.Write("proc/self/cgroup", "0::/a/b\n");
  tree_.Write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  tree_.Write("sys/fs/cgroup/a/b/memory.pressure", kCalm);
  EXPECT_THAT(PsiFiles(tree_.Machine()),
              ElementsAre(tree_.Path("sys/fs/cgroup/a/b/memory.pressure"), File()));
  tree_.Remove("proc");
  EXPECT_THAT(PsiFiles(tree_.Machine()), IsEmpty());
}

TEST(PsiOfThisMachine, CanBeReadAndTriggeredOn) {
  const std::vector<std::string> files = PsiFiles(Machine{});
  if (files.empty()) GTEST_SKIP() << "this kernel has no PSI (/proc/pressure/memory)";
  const auto psi = PsiTrigger::Open(files.back());
  if (!psi) GTEST_SKIP() << psi.error().message;
  EXPECT_GE((*psi)->SomeAvg10().value(), 0);
  if ((*psi)->fd() < 0) GTEST_SKIP() << (*psi)->why_polling();
  pollfd waits{(*psi)->fd(), POLLPRI, 0};
  EXPECT_GE(::poll(&waits, 1, 0), 0);
  EXPECT_EQ(waits.revents & POLLERR, 0);
}

}  // namespace
}  // namespace spillway
