#include "demo/neighbours.h"

#include <sys/wait.h>

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace spillway::demo {
namespace {

using std::chrono::milliseconds;
using State = Neighbour::State;

TEST(Neighbours, UnderstandWhatSqueezeSays) {
  Neighbour n;
  NoteLine("squeeze: taking 3 MiB of card \"demo\" (8 MiB, 8 MiB free)", &n);
  EXPECT_EQ(n.state, State::kAsking);
  NoteLine("squeeze: has 3 MiB after 1.5 ms", &n);
  EXPECT_EQ(n.state, State::kHolding);
  ASSERT_TRUE(n.waited);
  EXPECT_EQ(*n.waited, std::chrono::microseconds(1500));
  NoteLine("squeeze: returned 3 MiB after 1.2 s", &n);
  EXPECT_EQ(*n.waited, std::chrono::microseconds(1500));
}

TEST(Neighbours, KnowWhenOneBeganToTake) {
  Neighbour n;
  for (const char* line : {"squeeze: began to take at soon", "squeeze: began to take at 12",
                           "squeeze: began to take at 12.34", "squeeze: began to take at "}) {
    NoteLine(line, &n);
    EXPECT_EQ(n.took_unix_us, 0) << line;
  }
  NoteLine("squeeze: began to take at 1763280824.000123", &n);
  EXPECT_EQ(n.took_unix_us, 1'763'280'824'000'123);
  EXPECT_EQ(n.state, State::kAsking);
}

TEST(Neighbours, APartIsNotAll) {
  Neighbour n;
  NoteLine("squeeze: has only 2 MiB of 4 MiB after 5000.0 ms: card \"demo\" is full", &n);
  EXPECT_EQ(n.state, State::kHolding);
  EXPECT_FALSE(n.waited);
}

TEST(Neighbours, GarbageIsOnlyQuoted) {
  Neighbour n;
  for (const char* line : {"", "squeeze: has ", "squeeze: has 3 MiB after soon", "\x1b[31mhas"}) {
    NoteLine(line, &n);
    EXPECT_FALSE(n.waited) << line;
    EXPECT_EQ(n.said, line);
  }
}

// A program that says nothing and does not end by itself.
constexpr const char* kStubborn = "/bin/sleep";

TEST(Neighbours, AProgramThatIsNotThereIsAnError) {
  Neighbours neighbours("/nowhere/spillway", {"--card", "card"});
  EXPECT_FALSE(neighbours.Send(1, 1, milliseconds(1), {}));
  EXPECT_TRUE(neighbours.all().empty());
}

TEST(Neighbours, OneThatFailsIsSeenToGo) {
  Neighbours neighbours(kStubborn, {"--card", "card"});  // `sleep squeeze ...` is no use of sleep.
  ASSERT_TRUE(neighbours.Send(1, 1, milliseconds(1), {}));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (neighbours.present() > 0 && std::chrono::steady_clock::now() < give_up) {
    neighbours.Look(milliseconds(7));
    std::this_thread::yield();
  }
  ASSERT_EQ(neighbours.all().size(), 1U);
  const Neighbour& n = neighbours.all().front();
  EXPECT_EQ(n.state, State::kGone);
  EXPECT_EQ(n.left, milliseconds(7));
  EXPECT_TRUE(WIFEXITED(n.status) && WEXITSTATUS(n.status) != 0);
  EXPECT_NE(n.said, "");
}

TEST(Neighbours, NoneIsLeftBehind) {
  Neighbours neighbours("/usr/bin/yes",
                        {"--card", "card"});  // Talks without end, so that its pipe is full.
  ASSERT_TRUE(neighbours.Send(1, 1, milliseconds(1), {}));
  const pid_t pid = neighbours.all().front().pid;
  neighbours.EndAll(milliseconds(9));
  EXPECT_EQ(neighbours.present(), 0U);
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);  // Reaped.
}

}  // namespace
}  // namespace spillway::demo
