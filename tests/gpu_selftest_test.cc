// SPDX-License-Identifier: Apache-2.0
// `spillway selftest`: the program itself, and the second process it starts, on fake
// drivers.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpu_commands.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class GpuSelftest : public GpuCommands {
 protected:
  static const nlohmann::json& Check(const nlohmann::json& device, const std::string& name) {
    for (const auto& row : device["checks"]) {
      if (row["check"] == name) return row;
    }
    static const nlohmann::json kNone = {{"state", "(no such row)"}, {"what", ""}};
    return kNone;
  }
  nlohmann::json Json(std::string_view arguments, int status) const {
    const ProgramRun run = Spillway(fmt::format("selftest --json {}", arguments));
    EXPECT_EQ(run.status, status) << run.out << run.err;
    return nlohmann::json::parse(run.out);
  }
  std::string Backing() {
    const std::string folder = tree_.Path("backing");
    std::filesystem::create_directories(folder);
    return folder;
  }
};
INSTANTIATE_TEST_SUITE_P(Vendors, GpuSelftest, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         KindName);

TEST_P(GpuSelftest, AGoodCardPassesAndARowSaysEachThing) {
  HaveGpus({.cards = 2, .total = 64 * kMiB});
  const ProgramRun run = Spillway("selftest");
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  for (const std::string& device : {kind() + ":0", kind() + ":1", std::string("cpu")}) {
    EXPECT_THAT(run.out, ContainsRegex(device + " +chunks +ok "));
    EXPECT_THAT(run.out, ContainsRegex(device + " +copies, scattered +ok "));
    if (device == "cpu") continue;
    EXPECT_THAT(run.out, ContainsRegex(device + " +memory +ok +virtual memory management, "
                                                "granularity 2 MiB"));
    EXPECT_THAT(run.out, ContainsRegex(device + " +driver's chunks +ok +of 2 MiB: create [0-9]+"));
    EXPECT_THAT(run.out, ContainsRegex(device + " +left by the dead +ok .*none of another"));
    EXPECT_THAT(run.out, ContainsRegex(device + " +left by the living +ok .*none of another"));
  }
  const std::string other = GetParam() == GpuKind::kCuda ? "hip" : "cuda";
  EXPECT_THAT(run.out, ContainsRegex(other + " +driver +skipped"));
  EXPECT_THAT(run.out, HasSubstr(" ok, 0 failed, "));
}

TEST_P(GpuSelftest, StaleBytesAreFoundAcrossProcessesAndKept) {
  HaveGpus({.total = 64 * kMiB, .stale = true, .backing = Backing()});
  const nlohmann::json json = Json("--device " + kind(), 0);
  const nlohmann::json& device = json["devices"][0];
  EXPECT_EQ(device["stale"], true);
  for (const char* check : {"left by the dead", "left by the living"}) {
    EXPECT_THAT(Check(device, check)["what"].get<std::string>(),
                AllOf(HasSubstr("STALE"), HasSubstr("16 MiB of new memory")));
  }
  const auto kept = nlohmann::json::parse(
      FileText(fmt::format("{}/gpu/{}-{}-13000.json", tree_.Path("state"), kUuid, kind())));
  EXPECT_EQ(kept["stale_after_exit"], true);
  EXPECT_EQ(kept["stale_after_release"], true);
  EXPECT_EQ(kept["searched"], 16 * kMiB);
}

// A driver that clears memory is not blamed for the contents of memory that was used in
// another way.
TEST_P(GpuSelftest, ADriverThatClearsIsKeptAsSuch) {
  HaveGpus({.total = 64 * kMiB, .backing = Backing()});
  const nlohmann::json json = Json("--device " + kind() + ":0 --memory 4MiB", 0);
  EXPECT_EQ(json["devices"][0]["stale"], false);
  EXPECT_THAT(Check(json["devices"][0], "left by the dead")["what"].get<std::string>(),
              HasSubstr("4 MiB of new memory looked through"));
  const auto kept = nlohmann::json::parse(
      FileText(fmt::format("{}/gpu/{}-{}-13000.json", tree_.Path("state"), kUuid, kind())));
  EXPECT_EQ(kept["stale_after_exit"], false);
}

TEST_P(GpuSelftest, MemoryThatDoesNotComeBackFails) {
  HaveGpus({.total = 64 * kMiB, .vmm = "leaks"});
  const nlohmann::json json = Json("--device " + kind(), 1);
  const nlohmann::json& device = json["devices"][0];
  EXPECT_EQ(Check(device, "driver's chunks")["state"], "failed");
  EXPECT_THAT(Check(device, "driver's chunks")["what"].get<std::string>(),
              HasSubstr("not free again"));
  const bool slabs = GetParam() == GpuKind::kHip;
  EXPECT_THAT(Check(device, "memory")["what"].get<std::string>(),
              slabs ? HasSubstr("slabs, whose return waits") : HasSubstr("virtual memory"));
  // With slabs all memory comes back.
  EXPECT_EQ(Check(device, "given back")["state"], slabs ? "ok" : "failed");
  EXPECT_EQ(Check(device, "copies, pinned")["state"], "ok");
}

TEST_P(GpuSelftest, AFullCardIsSaidAndNothingIsClaimedAboutIt) {
  HaveGpus({.total = 64 * kMiB, .foreign = 58 * kMiB});
  const ProgramRun run = Spillway("selftest --device " + kind());
  EXPECT_THAT(run.out, HasSubstr("not found out: too little memory is free"));
  EXPECT_THAT(run.out, Not(HasSubstr("kept for caches")));
}

TEST_P(GpuSelftest, AMachineWithoutGpusHasItsCard) {
  const ProgramRun run = Spillway("selftest");
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_THAT(run.out, ContainsRegex("cuda +driver +skipped"));
  EXPECT_THAT(run.out, ContainsRegex("hip +driver +skipped"));
  EXPECT_THAT(run.out, ContainsRegex("cpu +copies +ok "));
}

TEST_P(GpuSelftest, WrongArgumentsAreNamed) {
  HaveGpus({.cards = 1});
  EXPECT_EQ(Spillway("selftest --device " + kind() + ":3").status, 2);
  EXPECT_THAT(Spillway("selftest --device " + kind() + ":3").err, HasSubstr("0 (GPU-5b1e0c2f"));
  EXPECT_THAT(Spillway("selftest --memory 1G").err, HasSubstr("--memory: \"1G\" is not a size"));
  EXPECT_EQ(Spillway("selftest --nonsense").status, 2);
  const ProgramRun help = Spillway("selftest --help");
  EXPECT_THAT(help.out, AllOf(HasSubstr("--json"), Not(HasSubstr("--leave"))));
}

}  // namespace
}  // namespace spillway
