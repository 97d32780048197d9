// SPDX-License-Identifier: Apache-2.0
#include "view/screen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::view {
namespace {

using ::testing::HasSubstr;

// Sets an environment variable and restores it on destruction.
class Env {
 public:
  Env(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name); before != nullptr) before_ = before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Env() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

class ScreenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    ASSERT_GE(master_, 0);
    ASSERT_EQ(::grantpt(master_), 0);
    ASSERT_EQ(::unlockpt(master_), 0);
    terminal_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal_, 0);
    const winsize size{.ws_row = 30, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(terminal_, TIOCSWINSZ, &size), 0);
  }
  void TearDown() override {
    ::close(terminal_);
    ::close(master_);
  }
  std::string Shown() const {
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = ::read(master_, buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return text;
  }

  int master_ = -1;
  int terminal_ = -1;
};

TEST_F(ScreenTest, ATableNeedsATerminalThatCanMoveItsCursor) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Env term("TERM", "xterm");
  EXPECT_TRUE(Screen::Possible(terminal_));
  EXPECT_FALSE(Screen::Possible(ends[1]));
  const Env dumb("TERM", "dumb");
  EXPECT_FALSE(Screen::Possible(terminal_));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(ScreenTest, LeavesTheTerminalAsItWas) {
  {
    Screen screen(terminal_);
    EXPECT_THAT(Shown(), HasSubstr("\x1b[?1049h\x1b[?25l"));
    ASSERT_TRUE(screen.Draw({"one", "two"}));
    const std::string frame = Shown();
    EXPECT_THAT(frame, HasSubstr("\x1b[2Kone"));
    EXPECT_THAT(frame, HasSubstr("\x1b[2Ktwo\x1b[J"));
  }
  EXPECT_THAT(Shown(), HasSubstr("\x1b[?25h\x1b[?1049l"));
}

TEST_F(ScreenTest, ThePaperIsTheTerminals) {
  const Env all("LC_ALL", nullptr);
  const Env type("LC_CTYPE", nullptr);
  const Env lang("LANG", "C.UTF-8");
  const Env no_color("NO_COLOR", nullptr);
  Screen screen(terminal_);
  EXPECT_EQ(screen.paper().width, 100U);
  EXPECT_EQ(screen.paper().height, 30U);
  EXPECT_TRUE(screen.paper().color);
  EXPECT_TRUE(screen.paper().unicode);
}

TEST_F(ScreenTest, NoColourAndNoUnicodeWhereTheyAreNotWanted) {
  const Env all("LC_ALL", "C");
  const Env lang("LANG", "C.UTF-8");
  const Env no_color("NO_COLOR", "1");
  Screen screen(terminal_);
  EXPECT_FALSE(screen.paper().color);
  EXPECT_FALSE(screen.paper().unicode);
}

TEST(WriteAll, SaysWhenNobodyReads) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_TRUE(WriteAll(ends[1], "text"));
  ::close(ends[0]);
  EXPECT_FALSE(WriteAll(ends[1], "text"));
  ::close(ends[1]);
  std::signal(SIGPIPE, before);
}

TEST(WriteAll, DoesNotWaitForAReaderThatStandsStill) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_TRUE(WriteAll(ends[1], std::string(1 << 20, 'x')));  // More than the pipe holds.
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace spillway::view
