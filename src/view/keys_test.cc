// SPDX-License-Identifier: Apache-2.0
#include "view/keys.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::view {
namespace {

using Kind = KeyPress::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Keys, TextAndArrowsAreFound) {
  EXPECT_THAT(KeysIn("q/"), ElementsAre(KeyPress{Kind::kText, 'q'}, KeyPress{Kind::kText, '/'}));
  EXPECT_THAT(KeysIn("\x1b[A\x1bOB\x1b[6~x"),
              ElementsAre(KeyPress{Kind::kUp, 0}, KeyPress{Kind::kDown, 0},
                          KeyPress{Kind::kPageDown, 0}, KeyPress{Kind::kText, 'x'}));
  EXPECT_THAT(KeysIn("\r\x7f"),
              ElementsAre(KeyPress{Kind::kEnter, 0}, KeyPress{Kind::kBackspace, 0}));
}

TEST(Keys, AnEscapeAloneIsAKeyAndUnknownSequencesAreNone) {
  EXPECT_THAT(KeysIn("\x1b"), ElementsAre(KeyPress{Kind::kEscape, 0}));
  EXPECT_THAT(KeysIn("\x1b[1;5C\x1b[200~"), IsEmpty());
  EXPECT_THAT(KeysIn("\x1b["), IsEmpty());
  EXPECT_THAT(KeysIn("\x01\x02\xc3\xa4"), IsEmpty());
}

TEST(RawInput, LeavesTheTerminalAsItWas) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_EQ(::grantpt(master), 0);
  ASSERT_EQ(::unlockpt(master), 0);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  termios before{};
  ASSERT_EQ(::tcgetattr(terminal, &before), 0);
  {
    const RawInput input(terminal);
    termios now{};
    ASSERT_EQ(::tcgetattr(terminal, &now), 0);
    EXPECT_EQ(now.c_lflag & static_cast<tcflag_t>(ECHO | ICANON), 0U);
    EXPECT_NE(now.c_lflag & static_cast<tcflag_t>(ISIG), 0U);
    bool gone = true;
    EXPECT_THAT(input.Read(&gone), IsEmpty());
    EXPECT_FALSE(gone);
    ASSERT_EQ(::write(master, "q", 1), 1);
    EXPECT_THAT(input.Read(&gone), ElementsAre(KeyPress{Kind::kText, 'q'}));
  }
  termios after{};
  ASSERT_EQ(::tcgetattr(terminal, &after), 0);
  EXPECT_EQ(after.c_lflag, before.c_lflag);
  ::close(terminal);
  ::close(master);
}

}  // namespace
}  // namespace spillway::view
