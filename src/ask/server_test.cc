// SPDX-License-Identifier: Apache-2.0
#include "ask/server.h"

#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/client.h"
#include "ask/protocol.h"
#include "ask/testing/scripted_reclaim_server.h"
#include "base/mutex.h"
#include "spillway/log.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::Line;
using testing::ScriptedReclaimServer;
using ::testing::StartsWith;

bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 10'000; ++i) {
    if (holds()) return true;
    ::usleep(1000);  // real world: another thread is at work
  }
  return false;
}

class AskTest : public ::testing::Test {
 protected:
  AskTest() {
    std::string pattern = ::testing::TempDir() + "spillway-ask-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  ~AskTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  std::unique_ptr<AskServer> Open(AskHandler* handler, const std::string& device = "demo") {
    AskServer::Settings settings = settings_;
    settings.run_dir = dir_;
    settings.device = device;
    auto server = AskServer::Open(settings, handler);
    EXPECT_TRUE(server) << server.error().message;
    return std::move(*server);
  }
  AskOptions For(Bytes bytes) const {
    AskOptions options;
    options.run_dirs = {dir_};
    options.device = "demo";
    options.bytes = bytes;
    return options;
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(dir_), {}));
  }

  std::string dir_;
  AskServer::Settings settings_;
  ScriptedReclaimServer reclaim_server_{1000, 600};
};

// --- the server ---

TEST_F(AskTest, TheLogSaysWhichProcessAsked) {
  Mutex mutex;
  std::vector<std::string> lines;
  SetLog(LogLevel::kInfo, [&](LogLevel, std::string_view text) {
    const MutexLock lock(mutex);
    lines.emplace_back(text);
  });
  const auto logged = [&] {
    const MutexLock lock(mutex);
    return lines;
  };
  {
    ScriptedReclaimServer handler(1000, 60);
    const auto server = Open(&handler);
    const AskedRoom first = Ask(For(50));
    const AskedRoom second = Ask(For(40));
    EXPECT_EQ(second.freed(), 10U);
  }
  SetLog(LogLevel::kInfo);
  ASSERT_GE(logged().size(), 1U);
  EXPECT_THAT(logged()[0], HasSubstr("pid " + std::to_string(::getpid()) +
                                     " (ask_test) asked for "
                                     "50 B of device 'demo': 50 B given in "));
  // The second came within a second, or is a line of its own with the reason.
  if (logged().size() > 1) {
    EXPECT_THAT(logged()[1], HasSubstr("10 B given in"));
    EXPECT_THAT(logged()[1], HasSubstr("the rest is leased"));
  }
}

TEST_F(AskTest, AnswersWhatIsHeldAndGivesWhatItCan) {
  const auto server = Open(&reclaim_server_);
  EXPECT_EQ(server->path(), dir_ + "/ask-demo-" + std::to_string(::getpid()));
  Line line(server->path());
  EXPECT_EQ(line.Talk("HELD 1 demo"), "OK 1000 600");
  EXPECT_EQ(line.Talk("ASK 1 demo 500 60000"), "OK 500");
  EXPECT_EQ(line.Talk("HELD 1 demo"), "OK 500 100");
  EXPECT_EQ(reclaim_server_.promised(), 500U);
  EXPECT_EQ(line.Talk("ASK 1 demo 300 60000"), "OK 100 the rest is leased");
  EXPECT_EQ(reclaim_server_.promised(), 600U);  // Only memory that was freed is reserved.
  EXPECT_EQ(line.Talk("HOLD 1 demo 900 60000"), "OK 900");
  EXPECT_EQ(reclaim_server_.promised(), 900U);
  line.Close();
  EXPECT_TRUE(Eventually([&] { return reclaim_server_.promised() == 0; }));
  EXPECT_EQ(server->account().asks, 2U);
  EXPECT_EQ(server->account().freed, 600U);
  const auto gave = reclaim_server_.gave();
  ASSERT_EQ(gave.size(), 2U);
  EXPECT_EQ(gave[0].first, 500U);
  EXPECT_EQ(gave[1].first, 100U);
}

TEST_F(AskTest, GivesInStepsAndMeanwhileAnswersOthers) {
  reclaim_server_.NeverDone();
  const auto server = Open(&reclaim_server_);
  Line slow(server->path());
  slow.Send("ASK 1 demo 800 2000\n");
  ASSERT_TRUE(Eventually([&] { return reclaim_server_.steps() > 3; }));
  Line quick(server->path());
  EXPECT_EQ(quick.Talk("HELD 1 demo"), "OK 400 0");
  EXPECT_EQ(slow.Next(0), "(silence)");  // It is still being served.
  EXPECT_EQ(reclaim_server_.promised(), 800U);
  EXPECT_EQ(slow.Next(), "OK 600 time ran out");
  // The time from the ask to its answer, over all steps.
  ASSERT_EQ(reclaim_server_.gave().size(), 1U);
  EXPECT_EQ(reclaim_server_.gave()[0].first, 600U);
  EXPECT_GE(reclaim_server_.gave()[0].second, std::chrono::milliseconds(2000));
}

TEST_F(AskTest, AGrantEndsWithItsTimeAndThenTheConnection) {
  const auto server = Open(&reclaim_server_);
  Line line(server->path());
  EXPECT_EQ(line.Talk("ASK 1 demo 100 2000"), "OK 100");
  EXPECT_EQ(reclaim_server_.promised(), 100U);
  EXPECT_EQ(line.Next(20'000), "(closed)");
  EXPECT_EQ(reclaim_server_.promised(), 0U);
}

TEST_F(AskTest, WhoGoesWhileItIsBeingServedLeavesNothingBehind) {
  reclaim_server_.NeverDone();
  const auto server = Open(&reclaim_server_);
  Line line(server->path());
  line.Send("ASK 1 demo 800 60000\n");
  ASSERT_TRUE(Eventually([&] { return reclaim_server_.promised() == 800; }));
  line.Close();
  EXPECT_TRUE(Eventually([&] { return reclaim_server_.promised() == 0; }));
  EXPECT_TRUE(Eventually([&] { return server->account().connections == 0; }));
}

TEST_F(AskTest, BadLinesGetAReasonAndCostNothing) {
  const auto server = Open(&reclaim_server_);
  Line line(server->path());
  EXPECT_THAT(line.Talk("ASK 2 demo 1 1"), HasSubstr("ERR version '2'"));
  EXPECT_THAT(line.Talk("ASK 1 other 1 1"),
              HasSubstr("ERR device 'other' is not served here; 'demo' is"));
  EXPECT_THAT(line.Talk("ASK 1 demo -5 1"), StartsWith("ERR '-5'"));
  EXPECT_THAT(line.Talk("ASK 1 demo 99999999999999999999 1"), StartsWith("ERR "));
  EXPECT_THAT(line.Talk("\x01\xff\x80"), StartsWith("ERR that is not a line of text"));
  EXPECT_EQ(line.Talk("HELD 1 demo"), "OK 1000 600");  // A valid request may follow.
  Line endless(server->path());
  endless.Send(std::string(kAskLineMax, 'a'));
  EXPECT_THAT(endless.Next(), HasSubstr("ERR a line has at most 256 bytes"));
  EXPECT_EQ(endless.Next(), "(closed)");
  Line stubborn(server->path());
  for (int i = 0; i < 100; ++i) stubborn.Send("no\n");
  std::string last;
  int errors = 0;
  while ((last = stubborn.Next()).starts_with("ERR")) ++errors;
  EXPECT_EQ(last, "(closed)");
  EXPECT_EQ(errors, 16);
  EXPECT_EQ(reclaim_server_.held(), 1000U);
}

TEST_F(AskTest, HalfALineAndSilenceIsClosed) {
  settings_.idle_max = milliseconds(100);
  const auto server = Open(&reclaim_server_);
  Line half(server->path());
  half.Send("ASK 1 demo 10");
  EXPECT_THAT(half.Next(), HasSubstr("ERR no request came for too long"));
  EXPECT_EQ(half.Next(), "(closed)");
  // On a busy machine a connection may be too slow and be closed; then try again.
  std::unique_ptr<Line> granted;
  std::string answer;
  do {
    granted = std::make_unique<Line>(server->path());
    answer = granted->Talk("HOLD 1 demo 10 60000");
  } while (answer.starts_with("ERR no request came"));
  EXPECT_EQ(answer, "OK 10");
  // A connection with a reservation need not send anything.
  EXPECT_EQ(granted->Next(300), "(silence)");
}

TEST_F(AskTest, AHundredConnectionsAreMoreThanItTakes) {
  const auto server = Open(&reclaim_server_);
  std::vector<std::unique_ptr<Line>> lines;
  int answered = 0;
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    lines.push_back(std::make_unique<Line>(server->path()));
    const std::string answer = lines.back()->Talk("HELD 1 demo");
    answered += answer == "OK 1000 600" ? 1 : 0;
    refused += answer.starts_with("ERR 32 connections") ? 1 : 0;
  }
  EXPECT_EQ(answered, 32);
  EXPECT_EQ(refused, 68);
  lines.clear();
  EXPECT_TRUE(Eventually([&] { return server->account().connections == 0; }));
  EXPECT_EQ(Line(server->path()).Talk("HELD 1 demo"), "OK 1000 600");
}

TEST_F(AskTest, WhoNeverReadsIsNotWaitedFor) {
  const auto server = Open(&reclaim_server_);
  Line deaf(server->path());
  for (int i = 0; i < 100'000; ++i) {
    if (::send(deaf.fd(), "HELD 1 demo\n", 12, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE) {
      break;
    }
  }
  Line other(server->path());
  EXPECT_EQ(other.Talk("HELD 1 demo"), "OK 1000 600");
  deaf.Close();
}

TEST_F(AskTest, ItsSocketIsForItsOwnerAndGoesWithIt) {
  auto server = Open(&reclaim_server_);
  struct stat facts{};
  ASSERT_EQ(::stat(server->path().c_str(), &facts), 0);
  EXPECT_TRUE(S_ISSOCK(facts.st_mode));
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  const auto second = Open(&reclaim_server_);
  EXPECT_EQ(second->path(), server->path() + ".2");
  const auto third = Open(&reclaim_server_, "demo-2");
  EXPECT_EQ(Files(), 3U);
  server.reset();
  EXPECT_EQ(Files(), 2U);
  const auto again = Open(&reclaim_server_);
  EXPECT_EQ(again->path(), dir_ + "/ask-demo-" + std::to_string(::getpid()));
  EXPECT_EQ(FindAskSockets({dir_}, "demo").size(), 2U);
  EXPECT_EQ(FindAskSockets({dir_}, "demo-2").size(), 1U);
  EXPECT_EQ(FindAskSockets({dir_, dir_ + "/none"}, "").size(), 3U);
  EXPECT_THAT(AskableDevices({dir_}), ::testing::ElementsAre("demo", "demo-2"));
}

TEST_F(AskTest, AGroupIsLetIn) {
  settings_.group = ::getegid();
  const auto server = Open(&reclaim_server_);
  struct stat facts{};
  ASSERT_EQ(::stat(server->path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0660U);
  EXPECT_EQ(facts.st_gid, ::getegid());
  ASSERT_EQ(::stat(dir_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0750U);
  EXPECT_EQ(FindGroup("4711").value(), 4711U);
  EXPECT_EQ(FindGroup("root").value(), 0U);
  EXPECT_THAT(FindGroup("no-such-group").error().message, HasSubstr("'no-such-group' is no group"));
}

// Another user of the machine, even if the socket can be reached.
TEST_F(AskTest, StrangersAreTurnedAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const auto run_as_stranger = [&](const std::string& path, gid_t group) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setgid(group) != 0 || ::setuid(54321) != 0) ::_exit(9);
      Line line(path);
      if (!line.connected()) ::_exit(2);
      ::_exit(line.Talk("HELD 1 demo").starts_with("OK") ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  auto server = Open(&reclaim_server_);
  ASSERT_EQ(::chmod(dir_.c_str(), 0755), 0);
  EXPECT_EQ(run_as_stranger(server->path(), 54321), 2);
  ASSERT_EQ(::chmod(server->path().c_str(), 0666), 0);
  EXPECT_EQ(run_as_stranger(server->path(), 54321), 1);
  server.reset();
  settings_.group = 4711;
  server = Open(&reclaim_server_);
  EXPECT_EQ(run_as_stranger(server->path(), 4711), 0);
  EXPECT_EQ(run_as_stranger(server->path(), 54321), 2);
}

TEST_F(AskTest, WhatTheDeadLeftIsRemovedAndTheLivingStay) {
  const pid_t child = ::fork();
  if (child == 0) {
    ScriptedReclaimServer theirs(1, 1);
    AskServer::Settings settings;
    settings.run_dir = dir_;
    settings.device = "demo";
    const auto server = AskServer::Open(settings, &theirs);
    for (;;) ::pause();
  }
  ASSERT_TRUE(Eventually([&] { return !AskableDevices({dir_}).empty(); }));
  const auto first = Open(&reclaim_server_);
  EXPECT_EQ(Files(), 2U);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(Ask(For(100)).answers().size(), 1U);  // Sockets of dead processes are not asked.
  const auto second = Open(&reclaim_server_);
  EXPECT_EQ(Files(), 2U);
  EXPECT_EQ(FindAskSockets({dir_}, "demo").front().pid, ::getpid());
}

// A fork copies open sockets: a child that lives on must not keep a reservation, or a dead parent's
// socket, alive.
TEST_F(AskTest, AForkedChildHasNoPartInIt) {
  auto server = Open(&reclaim_server_);
  Line line(server->path());
  ASSERT_EQ(line.Talk("HOLD 1 demo 10 60000"), "OK 10");
  const pid_t child = ::fork();
  if (child == 0) {
    line.Close();
    for (;;) ::pause();
  }
  line.Close();
  EXPECT_TRUE(Eventually([&] { return reclaim_server_.promised() == 0; }));
  const std::string path = server->path();
  server.reset();
  EXPECT_FALSE(Line(path).connected());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(AskTest, AnUnusableDirectoryIsAnErrorThatNamesIt) {
  AskServer::Settings settings;
  settings.device = "demo";
  for (const std::string& bad : {dir_ + "/none", dir_ + "/" + std::string(120, 'x')}) {
    settings.run_dir = bad;
    const auto server = AskServer::Open(settings, &reclaim_server_);
    ASSERT_FALSE(server);
    EXPECT_THAT(server.error().message, HasSubstr(bad));
  }
}

// --- asking ---

TEST_F(AskTest, SeveralGiveInProportionToWhatTheyHold) {
  ScriptedReclaimServer large(3000, 3000);
  ScriptedReclaimServer small(1000, 1000);
  const auto first = Open(&large);
  const auto second = Open(&small);
  const AskedRoom room = Ask(For(800));
  EXPECT_EQ(room.freed(), 800U);
  EXPECT_EQ(room.why_not_more(), "");
  EXPECT_EQ(large.held(), 2400U);
  EXPECT_EQ(small.held(), 800U);
  // Neither may use what the other freed.
  EXPECT_EQ(large.promised(), 800U);
  EXPECT_EQ(small.promised(), 800U);
}

TEST_F(AskTest, WhatOneCanNotGiveComesFromWhoCan) {
  ScriptedReclaimServer stuck(1000, 100);
  ScriptedReclaimServer rich(1000, 1000);
  const auto first = Open(&stuck);
  const auto second = Open(&rich);
  {
    const AskedRoom room = Ask(For(1000));
    EXPECT_EQ(room.freed(), 1000U);
    EXPECT_EQ(rich.held(), 100U);
    EXPECT_EQ(stuck.promised(), 1000U);
    EXPECT_THAT(room.why_not_more(), HasSubstr("the rest is leased"));
  }
  EXPECT_TRUE(Eventually([&] { return stuck.promised() + rich.promised() == 0; }));
  const AskedRoom more = Ask(For(500));
  EXPECT_EQ(more.freed(), 100U);  // All that is left.
  EXPECT_EQ(rich.promised(), 100U);
}

TEST_F(AskTest, WhatIsFreeAlreadyIsKeptFreeToo) {
  const auto server = Open(&reclaim_server_);
  AskOptions options = For(100);
  options.keep = 700;
  const AskedRoom room = Ask(options);
  EXPECT_EQ(room.freed(), 100U);
  EXPECT_EQ(reclaim_server_.promised(), 700U);
  options.bytes = 0;
  const AskedRoom only_kept = Ask(options);
  EXPECT_EQ(only_kept.freed(), 0U);
  EXPECT_EQ(reclaim_server_.promised(), 1400U);
  ASSERT_EQ(only_kept.answers().size(), 1U);
  EXPECT_EQ(only_kept.answers()[0].pid, ::getpid());
}

TEST_F(AskTest, NobodyThereIsAnAnswerToo) {
  const AskedRoom room = Ask(For(100));
  EXPECT_TRUE(room.answers().empty());
  EXPECT_EQ(room.freed(), 0U);
}

// A peer that listens and says nothing, or nonsense, costs only its own time.
TEST_F(AskTest, WhoDoesNotAnswerIsLeftOut) {
  const auto server = Open(&reclaim_server_);
  const Result<AskSocket> mute = AskSocket::Open(dir_, "demo", std::nullopt);
  ASSERT_TRUE(mute);
  AskOptions options = For(100);
  options.within = seconds(2);
  const auto start = std::chrono::steady_clock::now();  // real world: a wait is measured
  const AskedRoom room = Ask(options);
  const auto took = std::chrono::steady_clock::now() - start;  // real world: as above
  EXPECT_LT(took, seconds(10));
  EXPECT_EQ(room.freed(), 100U);
  ASSERT_EQ(room.answers().size(), 2U);
  EXPECT_THAT(room.why_not_more(), HasSubstr("did not answer in time"));
}

}  // namespace
}  // namespace spillway
