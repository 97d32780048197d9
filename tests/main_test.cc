// SPDX-License-Identifier: Apache-2.0
// `spillway` itself: which command is run, and what it prints if there is none.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_program.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ProgramRun Spillway(const std::string& arguments) {
  return RunProgram(SPILLWAY_BIN " " + arguments);
}

TEST(Program, SuggestsTheCommandThatWasMeant) {
  const ProgramRun run = Spillway("prob");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err,
              AllOf(StartsWith("spillway: 'prob' is not a command; did you mean 'probe'?\n\n"),
                    HasSubstr("usage: spillway COMMAND")));
}

TEST(Program, SuggestsNothingWhereNoCommandIsNear) {
  EXPECT_THAT(Spillway("xyzzy").err, StartsWith("spillway: 'xyzzy' is not a command\n\n"));
  EXPECT_EQ(Spillway("xyzzy").status, 2);
  EXPECT_THAT(Spillway("").err, StartsWith("spillway: no command given\n\n"));
  EXPECT_EQ(Spillway("").status, 2);
}

TEST(Program, ShowsWhatIsNoTextEscaped) {
  EXPECT_THAT(Spillway("\"$(printf 'pr\\033[2J')\"").err,
              StartsWith("spillway: 'pr\\x1b[2J' is not a command"));
}

}  // namespace
}  // namespace spillway
