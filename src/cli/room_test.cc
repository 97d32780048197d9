// SPDX-License-Identifier: Apache-2.0
#include "cli/room.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/server.h"
#include "ask/testing/scripted_reclaim_server.h"
#include "cli/testing/run_command.h"
#include "device/cpu/card.h"
#include "device/testing/scratch_run_dir.h"
#include "spillway/units.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using testing::Ran;

class RoomTest : public ::testing::Test {
 protected:
  static Ran Run(std::vector<std::string> arguments) {
    return testing::RunCommand(RunRoom, "room", std::move(arguments));
  }
  std::unique_ptr<AskServer> Listen(AskHandler* handler, const std::string& device) {
    return std::move(
        AskServer::Open({.run_dir = run_dir_.path(), .device = device, .group = {}}, handler)
            .value());
  }

  testing::ScratchRunDir run_dir_;
};

TEST_F(RoomTest, RunsTheCommandAndPassesItsEndOn) {
  const auto card = Card::Open({.name = "demo", .total = 8 * kMiB}).value();
  const Ran ran = Run({"4MiB", "--device", "demo", "--", "sh", "-c", "exit 7"});
  EXPECT_EQ(ran.exit_code, 7) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("room: no cache listens on device 'demo'\n"));
  EXPECT_THAT(ran.err, HasSubstr("room: 8 MiB of device 'demo' free after"));
  const auto as = [](std::string script) {
    return Run({"1", "--device=demo", "--", "sh", "-c", std::move(script)}).exit_code;
  };
  EXPECT_EQ(as("kill -TERM $$"), 128 + SIGTERM);
  // A signal to this process is passed on to it.
  EXPECT_EQ(as("trap 'exit 5' USR1; kill -USR1 $PPID; sleep 20 & wait"), 5);
  EXPECT_EQ(Run({"1", "--device=demo", "--", "/no/such/program"}).exit_code, 127);
  EXPECT_EQ(Run({"1", "--device=demo", "--", "/tmp"}).exit_code, 126);
}

TEST_F(RoomTest, HoldsTheRoomForItsLife) {
  const auto card = Card::Open({.name = "demo", .total = 8 * kMiB}).value();
  ASSERT_TRUE(card->Take(7 * kMiB));
  // The card's free memory does not change: no memory was really freed.
  testing::ScriptedReclaimServer reclaim_server(6 * kMiB, 6 * kMiB);
  const auto server = Listen(&reclaim_server, "demo");
  const Ran ran = Run({"4MiB", "--partial", "--", "true"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.err, HasSubstr("gave 3 MiB of the 6 MiB it held"));
  EXPECT_THAT(ran.err, HasSubstr("only 1 MiB of 4 MiB are free"));
  EXPECT_THAT(ran.err, HasSubstr("running anyway (--partial)"));
  EXPECT_EQ(reclaim_server.held(), 3 * kMiB);
}

TEST_F(RoomTest, TooLittleIsSaidAndNothingIsRun) {
  const auto card = Card::Open({.name = "demo", .total = 8 * kMiB}).value();
  ASSERT_TRUE(card->Take(7 * kMiB));
  testing::ScriptedReclaimServer reclaim_server(6 * kMiB, 0);
  const auto server = Listen(&reclaim_server, "demo");
  const Ran ran = Run({"4MiB", "--", "echo", "ran"});
  EXPECT_EQ(ran.exit_code, 125);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err,
              HasSubstr("spillway room: only 1 MiB of 4 MiB are free on device 'demo': pid"));
  EXPECT_THAT(ran.err, HasSubstr("the rest is leased; --partial would run CMD all the same"));
}

TEST_F(RoomTest, TheDeviceIsTheOneThatListensOrMustBeNamed) {
  testing::ScriptedReclaimServer reclaim_server(100, 100);
  const auto one = Listen(&reclaim_server, "GPU-1");
  // Its free memory cannot be read here, so the amount given must be enough.
  const Ran ran = Run({"60", "--", "true"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("60 B of device 'GPU-1' free after"));
  const auto two = Listen(&reclaim_server, "GPU-2");
  const Ran unclear = Run({"60", "--", "true"});
  EXPECT_EQ(unclear.exit_code, 2);
  EXPECT_THAT(unclear.err, HasSubstr("GPU-1, GPU-2; name one with --device"));
}

TEST_F(RoomTest, WrongArgumentsAreNamed) {
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("--partial"));
  EXPECT_THAT(Run({"4MiB"}).err, HasSubstr("no CMD given"));
  EXPECT_THAT(Run({"4MiB", "--"}).err, HasSubstr("no CMD given"));
  EXPECT_THAT(Run({"4G", "--", "true"}).err, HasSubstr("SIZE: \"4G\" is not a size"));
  EXPECT_THAT(Run({"4MiB", "--for", "9", "--", "true"}).err, HasSubstr("--for: "));
  EXPECT_EQ(Run({"0", "--", "true"}).exit_code, 2);
  EXPECT_EQ(Run({"1", "--device", "a/b", "--", "true"}).exit_code, 2);
}

}  // namespace
}  // namespace spillway
