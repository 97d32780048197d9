// SPDX-License-Identifier: Apache-2.0
// Sockets that are not a cache's, or not any more: a program sees its driver's own answer, and a
// good cache beside them is asked all the same.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/preload_fixture.h"
#include "ask/unix_socket.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Answers each line by a function; an empty answer hangs, "close" closes.
class BadSocket {
 public:
  using Answer = std::function<std::string(const std::string& line)>;
  BadSocket(const std::string& path, Answer answer)
      : fd_(BindUnix(path)), answer_(std::move(answer)) {
    EXPECT_GE(fd_, 0);
    EXPECT_EQ(::listen(fd_, 64), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~BadSocket() {
    stop_ = true;
    thread_.join();
    for (const int fd : open_) ::close(fd);
    ::close(fd_);
  }
  BadSocket(const BadSocket&) = delete;
  BadSocket& operator=(const BadSocket&) = delete;
  int lines() const { return lines_; }

 private:
  void Run() {
    while (!stop_) {
      std::vector<pollfd> polled{{fd_, POLLIN, 0}};
      for (const int fd : open_) polled.push_back({fd, POLLIN, 0});
      ::poll(polled.data(), polled.size(), 20);
      if ((polled[0].revents & POLLIN) != 0) {
        const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) open_.push_back(fd);
      }
      for (std::size_t i = 1; i < polled.size(); ++i) {
        if (polled[i].revents != 0) Serve(polled[i].fd);
      }
    }
  }
  void Serve(int fd) {
    char line[512];
    const ssize_t got = ::recv(fd, line, sizeof line, MSG_DONTWAIT);
    std::string answer = "close";
    if (got > 0) {
      ++lines_;
      answer = answer_(std::string(line, static_cast<std::size_t>(got)));
    }
    if (answer == "close") {
      std::erase(open_, fd);
      ::close(fd);
    } else if (!answer.empty()) {
      (void)::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  const int fd_;
  const Answer answer_;
  std::atomic<bool> stop_{false};
  std::atomic<int> lines_{0};
  std::vector<int> open_;
  std::thread thread_;
};

class AskFaults : public AskPreload {
 protected:
  std::string Socket(const std::string& pid) const {
    return fmt::format("{}/ask-{}-{}", run_dir_.path(), kUuid, pid);
  }
  // What a program is told that wants more than is free, with half a second for each failure.
  std::string Try(std::string* log = nullptr, int wait_ms = 500) const {
    const ProgramRun run =
        RunAsk(With::kLibrary, fmt::format("{} alloc:{} errno", linked(), kTotal + kMiB),
               fmt::format("SPILLWAY_ASK_WAIT={}", wait_ms));
    if (log != nullptr) *log = run.err;
    return run.out;
  }
  // Also a program that could be given what it wants, by a cache that is there as well.
  void GoodCacheIsAskedAllTheSame() {
    Fill();
    const ProgramRun run =
        RunAsk(With::kLibrary, fmt::format("{} alloc:{}", linked(), Free() + 4 * kMiB),
               "SPILLWAY_ASK_WAIT=10000");
    EXPECT_EQ(run.out, "alloc code 0\n") << run.err;
    NothingIsLost();
  }
};
INSTANTIATE_TEST_SUITE_P(Vendors, AskFaults, ::testing::Values(GpuKind::kCuda),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

constexpr const char* kOwnAnswer = "alloc code 2\nerrno 77\n";

TEST_P(AskFaults, NoCaches) {
  std::string log;
  EXPECT_EQ(Try(&log), kOwnAnswer);
  EXPECT_THAT(log, HasSubstr("0 of 1 failed allocations succeeded after asking, 1 found no cache"));
  ::rmdir(run_dir_.path().c_str());
  EXPECT_EQ(Try(), kOwnAnswer);
  ::mkdir(run_dir_.path().c_str(), 0700);
}

TEST_P(AskFaults, WhatIsNoSocketOrNobodysOrAnotherDevices) {
  ::close(BindUnix(Socket("1")));  // Nobody listens.
  std::ofstream(Socket("2")) << "a file";
  ::mkdir(Socket("3").c_str(), 0700);
  EXPECT_EQ(::symlink(Socket("4").c_str(), Socket("4").c_str()), 0);
  std::string uuid = kUuid;
  uuid.back() = uuid.back() == 'f' ? 'e' : 'f';
  const BadSocket other(fmt::format("{}/ask-{}-5", run_dir_.path(), uuid),
                        [](const std::string&) { return "OK 999999999 999999999\n"; });
  const BadSocket longer(Socket("6") + "x", [](const std::string&) { return "OK 9 9\n"; });
  std::string log;
  EXPECT_EQ(Try(&log), kOwnAnswer);
  EXPECT_EQ(other.lines(), 0);
  EXPECT_EQ(longer.lines(), 0);
  GoodCacheIsAskedAllTheSame();
}

TEST_P(AskFaults, Garbage) {
  const std::vector<std::string> answers = {"\n",
                                            "OK\n",
                                            "OK x\n",
                                            "OK -1 0\n",
                                            "OK 99999999999999999999999999 1\n",
                                            "NO 5\n",
                                            std::string("\0\0\0\n", 4),
                                            std::string(4000, 'a'),
                                            std::string(4000, '\n'),
                                            "ERR user 7 may not ask here; user 0, root may\n",
                                            "close"};
  for (const std::string& answer : answers) {
    SCOPED_TRACE(answer.substr(0, 40));
    const BadSocket bad(Socket("7"), [&](const std::string&) { return answer; });
    EXPECT_EQ(Try(), kOwnAnswer);
    EXPECT_GE(bad.lines(), 1);
    ::unlink(Socket("7").c_str());
  }
  const BadSocket bad(Socket("8"), [&](const std::string&) { return answers[4]; });
  GoodCacheIsAskedAllTheSame();
}

// It claims to hold all, and gives what it has not.
TEST_P(AskFaults, ALiar) {
  const BadSocket liar(Socket("7"), [](const std::string& line) {
    return line.starts_with("HELD") ? "OK 1125899906842624 1125899906842624\n"
                                    : "OK 1125899906842624\n";
  });
  EXPECT_EQ(Try(), kOwnAnswer);
}

TEST_P(AskFaults, ItEndsInTheMiddle) {
  for (const char* last : {"HELD", "HOLD", "ASK"}) {
    SCOPED_TRACE(last);
    const BadSocket bad(Socket("7"), [&](const std::string& line) -> std::string {
      if (line.starts_with(last)) return "close";
      return line.starts_with("HELD") ? "OK 1000000000 1000000000\n" : "OK 0\n";
    });
    EXPECT_EQ(Try(), kOwnAnswer);
    ::unlink(Socket("7").c_str());
  }
}

TEST_P(AskFaults, ItHangs) {
  for (const char* last : {"HELD", "HOLD", "ASK"}) {
    SCOPED_TRACE(last);
    const BadSocket bad(Socket("7"), [&](const std::string& line) -> std::string {
      if (line.starts_with(last)) return "";
      return line.starts_with("HELD") ? "OK 1000000000 1000000000\n" : "OK 0\n";
    });
    EXPECT_EQ(Try(), kOwnAnswer);
    ::unlink(Socket("7").c_str());
  }
  const BadSocket bad(Socket("8"), [](const std::string&) { return ""; });
  GoodCacheIsAskedAllTheSame();
}

// Too many ask it at once: that passes.
TEST_P(AskFaults, OneThatHasNoTimeIsAskedAgain) {
  std::atomic<int> refused{0};
  std::atomic<int> asks{0};
  const BadSocket busy(Socket("7"), [&](const std::string& line) -> std::string {
    if (refused < 3) {
      ++refused;
      return "ERR 32 connections are open already; try again later\n";
    }
    if (line.starts_with("ASK")) ++asks;
    return line.starts_with("HELD") ? "OK 1000000000 1000000000\n" : "OK 0 the rest is leased\n";
  });
  std::string log;
  EXPECT_EQ(Try(&log, 10000), kOwnAnswer);
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(asks, 1);
  EXPECT_THAT(log, HasSubstr("bytes: failed, 0 bytes given by 1 cache"));
}

TEST_P(AskFaults, ThePlacesAreThoseOfTheCaches) {
  // With a run directory named, no other is looked into.
  const std::string xdg = (scratch_ / "xdg").string();
  ::mkdir(xdg.c_str(), 0700);
  ::mkdir((xdg + "/spillway").c_str(), 0700);
  const BadSocket there(fmt::format("{}/spillway/ask-{}-7", xdg, kUuid),
                        [](const std::string&) { return "OK 0 0\n"; });
  const std::string work = fmt::format("{} alloc:{}", linked(), kTotal + kMiB);
  EXPECT_THAT(RunAsk(With::kLibrary, work, "XDG_RUNTIME_DIR=" + xdg).err,
              HasSubstr("1 found no cache"));
  EXPECT_EQ(there.lines(), 0);
  EXPECT_THAT(RunAsk(With::kLibrary, work, "SPILLWAY_RUN_DIR= XDG_RUNTIME_DIR=" + xdg).err,
              Not(HasSubstr("1 found no cache")));
  EXPECT_GE(there.lines(), 1);
}

}  // namespace
}  // namespace spillway::testing
