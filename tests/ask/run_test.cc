// SPDX-License-Identifier: Apache-2.0
// `spillway run`: what it preloads into which programs, and what it passes on.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/preload_fixture.h"
#include "ask/server.h"
#include "ask/testing/scripted_reclaim_server.h"

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

// Free memory is read by NVML here.
class SpillwayRunCuda : public SpillwayRun {};
INSTANTIATE_TEST_SUITE_P(Vendors, SpillwayRunCuda, ::testing::Values(GpuKind::kCuda),
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

// Free memory must not grow while a program starts that was shown all there is, nor may a cache
// grow into it.
TEST_P(SpillwayRunCuda, WhatIsFreeIsHeldWhileTheProgramStarts) {
  ScriptedReclaimServer reclaim_server(1000, 1000);
  const auto server = std::move(
      AskServer::Open({.run_dir = run_dir_.path(), .device = kUuid, .group = {}}, &reclaim_server)
          .value());
  const std::string go = (scratch_ / "go").string();
  const std::string began = (scratch_ / "began").string();
  const std::string environment = fmt::format(
      "SPILLWAY_NVML_LIBRARY={}/fake_nvml.so "
      "SPILLWAY_FAKE_SCRIPT='device 0000:41:00.0 {} total 1000 free 400'",
      SPILLWAY_FAKES_DIR, kUuid);
  const std::string wait =
      fmt::format("-- sh -c 'touch {}; until [ -e {} ]; do sleep 0.05; done'", began, go);
  for (const bool shown : {true, false}) {
    std::filesystem::remove(go);
    std::filesystem::remove(began);
    ProgramRun run;
    std::thread program([&] { run = Run((shown ? "--show-available " : "") + wait, environment); });
    for (int looks = 0; looks < 15'000 && !std::filesystem::exists(began); ++looks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // real world: it starts
    }
    EXPECT_EQ(reclaim_server.promised(), shown ? 400U : 0U);
    std::ofstream(go) << "go";
    program.join();
    EXPECT_EQ(run.status, 0) << run.err;
    for (int looks = 0; looks < 15'000 && reclaim_server.promised() != 0; ++looks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // real world: it is noticed
    }
    EXPECT_EQ(reclaim_server.promised(), 0U);
  }
  EXPECT_EQ(reclaim_server.held(), 1000U);
}

TEST_P(SpillwayRun, ShownMemoryIsGiven) {
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
