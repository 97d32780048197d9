// SPDX-License-Identifier: Apache-2.0
#include "cli/squeeze.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/testing/run_command.h"
#include "device/cpu/card.h"
#include "device/testing/scratch_run_dir.h"
#include "spillway/units.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using testing::Ran;

class SqueezeTest : public ::testing::Test {
 protected:
  static Ran Run(std::vector<std::string> arguments) {
    return testing::RunCommand(RunSqueeze, "squeeze", std::move(arguments));
  }

  testing::ScratchRunDir run_dir_;
};

TEST_F(SqueezeTest, TakesHoldsAndReturnsALineEach) {
  const Ran ran =
      Run({"3MiB", "--card", "demo", "--total", "8MiB", "--for", "0", "--step", "1MiB"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.out, ::testing::MatchesRegex(
                           "squeeze: taking 3 MiB of card \"demo\" \\(8 MiB, 8 MiB free\\)\n"
                           "squeeze: has 3 MiB after [0-9.]+ ms\n"
                           "squeeze: returned 3 MiB after [0-9.]+ [mun]?s\n"));
  EXPECT_EQ(Card::Open({.name = "demo", .total = 8 * kMiB}).value()->Read().free, 8 * kMiB);
}

TEST_F(SqueezeTest, TakesWhatThereIsWhenTheCardStaysFull) {
  const auto card = Card::Open({.name = "demo", .total = 8 * kMiB}).value();
  ASSERT_TRUE(card->Take(6 * kMiB));
  const Ran ran = Run({"4MiB", "--card=demo", "--for=0", "--step=1MiB", "--patience=0"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.out, HasSubstr("has only 2 MiB of 4 MiB after"));
  EXPECT_THAT(ran.out, HasSubstr("card \"demo\" is full"));
  EXPECT_THAT(ran.out, HasSubstr("returned 2 MiB after"));
  EXPECT_EQ(card->Read().free, 2 * kMiB);
}

TEST_F(SqueezeTest, WrongArgumentsAreNamed) {
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("--patience"));
  const Ran size = Run({"4G"});
  EXPECT_EQ(size.exit_code, 2);
  EXPECT_THAT(size.err, HasSubstr("SIZE: \"4G\" is not a size"));
  EXPECT_THAT(Run({"1MiB", "--for", "10"}).err, HasSubstr("--for: \"10\" is not a duration"));
  EXPECT_EQ(Run({"1MiB", "--card", ""}).exit_code, 2);
  EXPECT_EQ(Run({"0"}).exit_code, 2);
  EXPECT_EQ(Run({"1MiB", "--asks"}).exit_code, 2);
  const Ran large = Run({"9MiB", "--card", "demo", "--total", "8MiB"});
  EXPECT_EQ(large.exit_code, 2);
  EXPECT_THAT(large.err, HasSubstr("9 MiB is more than card \"demo\" has: 8 MiB"));
  EXPECT_EQ(Run({"1MiB", "--card", "no/path"}).exit_code, 1);
}

TEST_F(SqueezeTest, ACardThatNoProcessUsesIsAnErrorThatListsThoseInUse) {
  const Ran none = Run({"1MiB"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no process uses a card \"default\", or any other"));
  EXPECT_THAT(none.err, HasSubstr("started with --card default it is shared"));
  const auto card = Card::Open({.name = "demo", .total = 8 * kMiB}).value();
  for (const char* flag : {"--card=demp", "--device=cpu:demp", "--device=demp"}) {
    const Ran wrong = Run({"1MiB", flag});
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.err, HasSubstr("no process uses a card \"demp\"; did you mean 'demo'?"));
    EXPECT_THAT(wrong.err, HasSubstr("in use: demo."));
  }
}

TEST_F(SqueezeTest, AsksFirstAndTakesItThen) {
  const Ran ran = Run({"3MiB", "--card=demo", "--total=8MiB", "--for=0", "--ask"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.out, HasSubstr("no cache listens on the card\n"));
  EXPECT_THAT(ran.out, HasSubstr("asked: 8 MiB free after"));
  EXPECT_THAT(ran.out, HasSubstr("has 3 MiB after"));
}

}  // namespace
}  // namespace spillway
