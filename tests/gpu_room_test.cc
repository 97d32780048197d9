// SPDX-License-Identifier: Apache-2.0
// `spillway squeeze` and `spillway room` on GPUs: the program itself, on fake drivers.
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ask/server.h"
#include "ask/testing/scripted_reclaim_server.h"
#include "gpu_commands.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using testing::FakeGpuOptions;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class GpuRoom : public GpuCommands {
 protected:
  std::unique_ptr<AskServer> Listen(AskHandler* handler, std::string_view device) {
    return std::move(
        AskServer::Open({.run_dir = run_dir_.path(), .device = std::string(device), .group = {}},
                        handler)
            .value());
  }
  // Memory as the vendor's tools report it.
  void Sense(std::string_view pci, Bytes total, Bytes free) {
    if (GetParam() == GpuKind::kCuda) {
      environment_["SPILLWAY_NVML_LIBRARY"] = SPILLWAY_FAKES_DIR "/fake_nvml.so";
      environment_["SPILLWAY_FAKE_SCRIPT"] =
          fmt::format("device {} {} total {} free {}", pci, kSecond, total, free);
      return;
    }
    const std::string card = "sys/class/drm/card1/device/";
    tree_.Write(card + "uevent", fmt::format("DRIVER=amdgpu\nPCI_SLOT_NAME={}\n", pci));
    tree_.Write(card + "mem_info_vram_total", fmt::format("{}\n", total));
    tree_.Write(card + "mem_info_vram_used", fmt::format("{}\n", total - free));
  }
};
INSTANTIATE_TEST_SUITE_P(Vendors, GpuRoom, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         KindName);

// --- squeeze ---

TEST_P(GpuRoom, SqueezeTakesHoldsAndReturns) {
  HaveGpus({.cards = 2, .total = 64 * kMiB});
  for (const std::string& which : {kind() + ":1", kind() + ":" + std::string(kSecond),
                                   std::string(kSecond), kind() + ":0000:42:00.0"}) {
    const ProgramRun run =
        Spillway(fmt::format("squeeze 10MiB --device {} --for 0 --step 4MiB", which));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, MatchesRegex("squeeze: taking 10 MiB of " + kind() +
                                      ":1 \\(Fake GPU\\) \\(64 MiB, 64 MiB free\\)\n"
                                      "squeeze: has 10 MiB after [0-9.]+ ms\n"
                                      "squeeze: returned 10 MiB after [0-9.]+ [mun]?s\n"));
  }
}

TEST_P(GpuRoom, SqueezeTakesWhatThereIsWhenTheCardStaysFull) {
  HaveGpus({.total = 64 * kMiB, .foreign = 56 * kMiB});
  const ProgramRun run =
      Spillway(fmt::format("squeeze 20MiB --device {} --for 0 --step 2MiB --patience 0", kind()));
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.out, HasSubstr("has only 8 MiB of 20 MiB after"));
  EXPECT_THAT(run.out, HasSubstr("MemCreate failed: 2"));
  EXPECT_THAT(run.out, HasSubstr("returned 8 MiB after"));
}

TEST_P(GpuRoom, SqueezeAsksTheCachesOfThatGpuFirst) {
  HaveGpus({.cards = 2, .total = 64 * kMiB, .foreign = 60 * kMiB});
  testing::ScriptedReclaimServer right(32 * kMiB, 32 * kMiB);
  testing::ScriptedReclaimServer wrong(32 * kMiB, 32 * kMiB);
  const auto second = Listen(&right, kSecond);
  const auto first = Listen(&wrong, kUuid);
  const ProgramRun run = Spillway(
      fmt::format("squeeze 20MiB --device {}:1 --ask --for 0 --step 2MiB --patience 1s", kind()));
  EXPECT_THAT(run.out, HasSubstr("gave 16 MiB of the 32 MiB it held"));  // 4 MiB were free.
  EXPECT_EQ(right.held(), 16 * kMiB);
  EXPECT_EQ(wrong.held(), 32 * kMiB);
}

TEST_P(GpuRoom, WhatIsNotThereIsNamedTogetherWithWhatIs) {
  HaveGpus({.cards = 2});
  for (const char* command : {"squeeze 1MiB", "room 1MiB"}) {
    const std::string end = std::string(command) == "room 1MiB" ? " -- true" : " --for 0";
    const ProgramRun run = Spillway(fmt::format("{} --device {}:7{}", command, kind(), end));
    EXPECT_NE(run.status, 0);
    EXPECT_THAT(run.err, AllOf(HasSubstr("has no device '7'"), HasSubstr("0 (GPU-5b1e0c2f"),
                               HasSubstr("1 (GPU-5b1e0c2f")));
    const std::string other = GetParam() == GpuKind::kCuda ? "hip" : "cuda";
    const ProgramRun none = Spillway(fmt::format("{} --device {}{}", command, other, end));
    EXPECT_NE(none.status, 0);
    EXPECT_THAT(none.err, HasSubstr(other + ": no driver: "));
    const ProgramRun nonsense = Spillway(fmt::format("{} --device a/b{}", command, end));
    EXPECT_THAT(nonsense.err, AllOf(HasSubstr("'a/b' names no device"), HasSubstr("cuda:N")));
  }
  const ProgramRun unknown = Spillway(
      "squeeze 1MiB --for 0 --device "
      "GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no driver here, of cuda or hip, knows a GPU 'GPU-00000000"));
  const ProgramRun large = Spillway(fmt::format("squeeze 1GiB --device {}", kind()));
  EXPECT_EQ(large.status, 2);
  EXPECT_THAT(large.err, HasSubstr("1 GiB is more than " + kind() + ":0 (Fake GPU) has: 256 MiB"));
  const ProgramRun both = Spillway(fmt::format("squeeze 1MiB --card a --device {}", kind()));
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("name one of them"));
}

TEST_P(GpuRoom, SqueezeStillKnowsVirtualCards) {
  for (const char* named : {"--card demo", "--device cpu:demo", "--device demo"}) {
    const ProgramRun run = Spillway(fmt::format("squeeze 2MiB {} --total 8MiB --for 0", named));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("taking 2 MiB of card \"demo\" (8 MiB, 8 MiB free)"));
  }
}

// --- room ---

TEST_P(GpuRoom, RoomReadsWhatIsFreeByWhateverCanTell) {
  HaveGpus({.cards = 2});
  Sense("0000:42:00.0", 1000, 400);
  for (const std::string& which : {kind() + ":1", std::string(kSecond)}) {
    const ProgramRun run = Spillway(fmt::format("room 300 --device {} -- echo ran", which));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "ran\n");
    EXPECT_THAT(run.err, HasSubstr("400 B of device"));
    const ProgramRun little = Spillway(fmt::format("room 500 --device {} -- echo ran", which));
    EXPECT_EQ(little.status, 125);
    EXPECT_EQ(little.out, "");
    EXPECT_THAT(little.err, HasSubstr("only 400 B of 500 B are free on device"));
  }
}

TEST_P(GpuRoom, RoomAsksForWhatIsLacking) {
  HaveGpus({.cards = 2});
  Sense("0000:42:00.0", 1000, 400);
  testing::ScriptedReclaimServer reclaim_server(1000, 1000);
  const auto server = Listen(&reclaim_server, kSecond);
  const ProgramRun run = Spillway(fmt::format("room 600 --device {}:1 --partial -- true", kind()));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("gave 200 B of the 1000 B it held"));
}

TEST_P(GpuRoom, RoomSaysWhenNothingCanTell) {
  HaveGpus({.cards = 2});
  const ProgramRun run = Spillway(fmt::format("room 600 --device {}:1 -- echo ran", kind()));
  EXPECT_EQ(run.status, 125);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, AllOf(HasSubstr("what is free on it cannot be read here"),
                             HasSubstr("no AMD card"), HasSubstr("no cache listens there")));
  // A source that sees another GPU does not answer for this one.
  Sense("0000:99:00.0", 1000, 400);
  if (GetParam() == GpuKind::kCuda) {
    environment_["SPILLWAY_FAKE_SCRIPT"] = "device 0000:99:00.0 GPU-other total 1000 free 400";
  }
  const ProgramRun other = Spillway(fmt::format("room 600 --device {}:1 -- echo ran", kind()));
  EXPECT_EQ(other.status, 125);
  EXPECT_THAT(other.err, AllOf(HasSubstr("is not there"), Not(HasSubstr("400 B"))));
}

}  // namespace
}  // namespace spillway
