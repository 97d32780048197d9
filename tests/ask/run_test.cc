// SPDX-License-Identifier: Apache-2.0
// `spillway run`: what it preloads into which programs, and what it passes on.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/preload_fixture.h"

namespace spillway::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SpillwayRun : public AskPreload {
 protected:
  // `rest` follows "spillway run".
  ProgramRun Run(const std::string& rest, const std::string& environment = {}) const {
    return RunProgram(
        fmt::format("env SPILLWAY_NVML_LIBRARY= SPILLWAY_FAKE_GPU='{}' LIBRARY='{}' "
                    "{} {} run {}",
                    card_.Text(), gpu_.library(), environment, SPILLWAY_BIN, rest));
  }
  std::string Program(const std::string& work) const {
    return fmt::format("{}/ask_{} {}", SPILLWAY_ASK_PROGRAMS, linked(), work);
  }
};
INSTANTIATE_TEST_SUITE_P(Vendors, SpillwayRun, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

TEST_P(SpillwayRun, AnUnmodifiedProgramIsGivenItsMemory) {
  Fill();
  const std::string work = Program(fmt::format("alloc:{}", Free() + 4 * kMiB));
  EXPECT_EQ(Run("--wait 0 -- " + work).out, "alloc code 2\n");
  const ProgramRun run = Run("--log --wait 5s -- " + work);
  EXPECT_EQ(run.out, "alloc code 0\n") << run.err;
  EXPECT_THAT(run.err, HasSubstr("1 of 1 failed allocations succeeded after asking"));
  NothingIsLost();
}

TEST_P(SpillwayRun, ShownMemoryIsHeldAndGiven) {
  Fill();
  const Bytes all = Free() + cache_->stats().device.clean;
  const ProgramRun run =
      Run("--show-available -- " + Program(fmt::format("info alloc:{}", all - 4 * kMiB)));
  EXPECT_EQ(run.out, fmt::format("info {} {} code 0\nalloc code 0\n", all, kTotal)) << run.err;
}

TEST_P(SpillwayRun, RoomIsAskedForAhead) {
  Fill();
  const Bytes held = cache_->stats().device.held;
  const ProgramRun run = Run("--room 20MiB -- true");
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr("run: pid"));
  EXPECT_LT(cache_->stats().device.held, held);
}

TEST_P(SpillwayRun, EndsAsTheProgramDoesAndPassesSignalsOn) {
  EXPECT_EQ(Run("-- sh -c 'exit 7'").status, 7);
  EXPECT_EQ(Run("-- sh -c 'kill -TERM $$'").status, 128 + 15);
  EXPECT_EQ(Run("-- sh -c 'trap \"exit 5\" USR1; kill -USR1 $PPID; sleep 20 & wait'").status, 5);
  EXPECT_EQ(Run("-- /no/such/program").status, 127);
  EXPECT_EQ(Run("-- no-such-program").status, 127);
  EXPECT_EQ(Run("-- /tmp").status, 126);
}

TEST_P(SpillwayRun, AnExistingPreloadIsKept) {
  const std::string other = SPILLWAY_ASK_PROGRAMS "/ask_interposer.so";
  const ProgramRun run = Run("-- sh -c 'echo $LD_PRELOAD'", "LD_PRELOAD=" + other);
  EXPECT_THAT(run.out,
              AllOf(StartsWith("/"), HasSubstr("libspillway_ask.so:"), EndsWith(other + "\n")));
  EXPECT_THAT(Run("-- sh -c 'echo $LD_PRELOAD'").out, EndsWith("/libspillway_ask.so\n"));
  EXPECT_EQ(Run("--wait 250ms --show-available --log -- sh -c "
                "'echo $SPILLWAY_ASK_WAIT $SPILLWAY_ASK_SHOW $SPILLWAY_ASK_LOG'")
                .out,
            "250 1 stderr\n");
}

TEST_P(SpillwayRun, WhatCanNotBePreloadedIntoIsRefused) {
  const std::string folder = (scratch_ / "programs").string();
  ::mkdir(folder.c_str(), 0755);
  const auto refused = [&](const std::string& program, const std::string& why) {
    const ProgramRun run = Run("-- " + program);
    EXPECT_EQ(run.status, 126) << program;
    EXPECT_EQ(run.out, "") << program;
    EXPECT_THAT(run.err, AllOf(StartsWith("spillway run: " + program), HasSubstr(why),
                               HasSubstr("spillway room")));
  };
  refused(SPILLWAY_ASK_PROGRAMS "/ask_static", "statically linked");
  const std::string script = folder + "/script";
  std::ofstream(script) << "#! " SPILLWAY_ASK_PROGRAMS "/ask_static\n";
  ::chmod(script.c_str(), 0755);
  refused(script, "statically linked");
  // A copy that belongs to another user.
  const std::string setuid = folder + "/setuid";
  ASSERT_EQ(RunProgram(fmt::format("cp /bin/true '{}'", setuid)).status, 0);
  if (::chown(setuid.c_str(), ::geteuid() + 1, static_cast<gid_t>(-1)) == 0) {
    ::chmod(setuid.c_str(), 04755);
    refused(setuid, "setuid");
  }
  const std::string foreign = folder + "/foreign";
  ASSERT_EQ(RunProgram(fmt::format("cp /bin/true '{0}' && printf '\\001' | dd of='{0}' bs=1 seek=4 "
                                   "conv=notrunc 2>/dev/null",
                                   foreign))
                .status,
            0);
  refused(foreign, "another processor");
}

TEST_P(SpillwayRun, WrongArgumentsAreNamed) {
  EXPECT_EQ(Run("").status, 2);
  EXPECT_THAT(Run("").err, HasSubstr("no CMD given"));
  EXPECT_THAT(Run("--wait 2 -- true").err, HasSubstr("--wait: "));
  EXPECT_THAT(Run("--wait 1h -- true").err, HasSubstr("--wait: at most 10s"));
  EXPECT_THAT(Run("--room 5G -- true").err, HasSubstr("--room: \"5G\" is not a size"));
  EXPECT_THAT(Run("--room 0 -- true").err, HasSubstr("can't be asked for"));
  EXPECT_EQ(Run("--help").status, 0);
  EXPECT_THAT(Run("--help").out, HasSubstr("--show-available"));
}

}  // namespace
}  // namespace spillway::testing
