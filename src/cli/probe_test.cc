// SPDX-License-Identifier: Apache-2.0
#include "cli/probe.h"

#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/testing/run_command.h"
#include "device/cpu/card.h"
#include "device/testing/scratch_run_dir.h"
#include "monitor/testing/fake_driver.h"
#include "monitor/testing/file_tree.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Ran;

class ProbeTest : public ::testing::Test {
 protected:
  ProbeTest() {
    // A machine with host memory only.
    Env("SPILLWAY_SYS_ROOT", tree_.Path("sys"));
    for (const char* library : {"SPILLWAY_NVML_LIBRARY", "SPILLWAY_CUDA_LIBRARY",
                                "SPILLWAY_ROCM_SMI_LIBRARY", "SPILLWAY_AMD_SMI_LIBRARY"}) {
      Env(library, "");
    }
  }
  ~ProbeTest() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void Env(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  static Ran Run(std::vector<std::string> arguments) {
    return testing::RunCommand(RunProbe, "probe", std::move(arguments));
  }

  // The first line it prints when it fails.
  static std::string Refused(std::vector<std::string> arguments) {
    const Ran ran = Run(std::move(arguments));
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.out, "");
    return ran.err.substr(0, ran.err.find('\n'));
  }

  const testing::ScratchRunDir run_dir_;
  const testing::FileTree tree_;
  std::vector<std::string> set_;
};

constexpr const char* kTwoCards =
    "device 0000:1b:00.0 GPU-11111111-1111-1111-1111-111111111111 total 1000000 free 400000 "
    "reserved 10000\n"
    "device 0000:c3:00.0 GPU-22222222-2222-2222-2222-222222222222 total 1000000 free 900000\n";

TEST_F(ProbeTest, OnAMachineWithNothingItSaysSoAndWhatIsUsed) {
  const Ran ran = Run({});
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* kind : {"nvml", "cuda", "amd-sysfs", "amd-smi", "rocm-smi", "card"}) {
    EXPECT_THAT(ran.out, ContainsRegex(std::string(kind) + " +- +absent +[^ ]")) << kind;
  }
  for (const char* kind : {"disk", "file", "fixed"}) {  // These exist on every machine.
    EXPECT_THAT(ran.out, ContainsRegex(std::string(kind) + " +- +on call +needs a ")) << kind;
  }
  EXPECT_THAT(ran.out, AllOf(HasSubstr("no GPU can be sensed here"), HasSubstr("us a call"),
                             HasSubstr("a cache opened without settings uses device \"cpu\"")));
}

TEST_F(ProbeTest, ListsEveryDeviceAndChoosesASourceForEach) {
  const testing::FakeDriver nvml("nvml");
  const testing::FakeDriver cuda("cuda");
  nvml.Script(kTwoCards);
  cuda.Script(kTwoCards);
  Env("SPILLWAY_NVML_LIBRARY", nvml.path());
  Env("SPILLWAY_CUDA_LIBRARY", cuda.path());
  const Ran ran = Run({});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("nvml and cuda of 0000:1b:00.0 differ by 0.00 %"),
                    HasSubstr("GPU 0000:1b:00.0: pressure_source = \"nvml:0000:1b:00.0\""),
                    HasSubstr("GPU 0000:c3:00.0: pressure_source = \"nvml:0000:c3:00.0\"")));
  EXPECT_EQ(cuda.users(), 0) << "a context was left behind";
}

TEST_F(ProbeTest, ListsTheCardsOfTheRunDirectoryAndChoosesNone) {
  const auto card = Card::Open({.name = "demo", .total = 8 * kMiB}).value();
  ASSERT_TRUE(card->Take(6 * kMiB));
  const Ran ran = Run({});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("card +demo +card +2 MiB free of 8 MiB, pressure 0.750"),
                             HasSubstr("no GPU can be sensed here")));
}

TEST_F(ProbeTest, JsonSaysTheSame) {
  const testing::FakeDriver nvml("nvml");
  nvml.Script(std::string(kTwoCards) + "fail nvmlDeviceGetMemoryInfo_v2 15\n");
  Env("SPILLWAY_NVML_LIBRARY", nvml.path());
  const Ran ran = Run({"--json"});
  EXPECT_EQ(ran.exit_code, 0);
  const nlohmann::json json = nlohmann::json::parse(ran.out);
  const nlohmann::json& first = json["sources"][0];
  EXPECT_EQ(first["kind"], "nvml");
  EXPECT_EQ(first["present"], true);
  EXPECT_FALSE(first.contains("pressure"));
  EXPECT_THAT(first["why_not"].get<std::string>(), HasSubstr("15"));
  EXPECT_TRUE(json["chosen"].empty());
  for (const nlohmann::json& source : json["sources"]) {
    const std::string kind = source["kind"];
    const bool named_by_user = kind == "disk" || kind == "file" || kind == "fixed";
    EXPECT_EQ(source["named_by_user"], named_by_user) << kind;
  }
}

TEST_F(ProbeTest, WatchesWithALinePerDevice) {
  const testing::FakeDriver nvml("nvml");
  nvml.Script(kTwoCards);
  Env("SPILLWAY_NVML_LIBRARY", nvml.path());
  const Ran ran = Run({"--watch", "--every", "10ms", "--for", "25ms"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("nvml:0000:1b:00.0 +59.6 %"),
                             ContainsRegex("nvml:0000:c3:00.0 +10.0 %"), HasSubstr("host")));
}

TEST_F(ProbeTest, WrongArgumentsAreNamed) {
  EXPECT_EQ(Refused({"--watch", "--every", "1ms"}), "spillway probe: --every: at least 10ms");
  EXPECT_THAT(Refused({"--watch", "--every", "soon"}), HasSubstr("--every: \"soon\" is not"));
  EXPECT_THAT(Refused({"--watch", "--for", "ever"}), HasSubstr("--for: \"ever\" is not"));
  EXPECT_THAT(Refused({"--nonsense"}), HasSubstr("--nonsense"));
}

TEST_F(ProbeTest, FlagsThatMakeNoSenseTogetherAreNamed) {
  EXPECT_EQ(Refused({"--every", "1s"}), "--every requires --watch");
  EXPECT_EQ(Refused({"--for", "1s"}), "--for requires --watch");
  EXPECT_EQ(Refused({"--json", "--every", "1s"}), "--every requires --watch");
  EXPECT_EQ(Refused({"--watch", "--json"}), "--watch excludes --json");
  EXPECT_EQ(Refused({"--json", "--watch"}), "--watch excludes --json");
}

}  // namespace
}  // namespace spillway
