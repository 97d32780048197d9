// SPDX-License-Identifier: Apache-2.0
// Properties of single driver libraries. The contract of all of them is in
// gpu_source_test.cc.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/source/kind.h"
#include "monitor/testing/fake_driver.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kGpu = "GPU-11111111-2222-3333-4444-555555555555";
const std::string kMig = "MIG-aaaaaaaa-bbbb-cccc-dddd-000000000001";
const std::string kMig2 = "MIG-aaaaaaaa-bbbb-cccc-dddd-000000000002";
const std::string kCard = "device 0000:1b:00.0 " + kGpu + " total 1000 free 400 reserved 10";

// One kind with one fake.
struct Bench {
  explicit Bench(const SourceKind& tested, std::vector<std::string> Machine::* library,
                 const std::string& name)
      : fake(name), kind(tested) {
    machine.*library = {fake.path()};
  }
  std::shared_ptr<PressureSource> Open(std::string_view device = {}) {
    return kind.Open(machine, device).value();
  }
  Sighting Look() { return kind.Look(machine); }

  const testing::FakeDriver fake;
  const SourceKind& kind;
  Machine machine;
};

struct NvmlBench : Bench {
  explicit NvmlBench(const std::string& name = "nvml") : Bench(NvmlKind(), &Machine::nvml, name) {}
};
struct CudaBench : Bench {
  explicit CudaBench(const std::string& name = "cuda") : Bench(CudaKind(), &Machine::cuda, name) {}
};

TEST(NvmlSource, TellsWhatTheDriverKeepsForItself) {
  NvmlBench bench;
  bench.fake.Script(kCard);
  const Result<Reading> reading = bench.Open()->Read();
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->reserved, 10U);
  EXPECT_DOUBLE_EQ(reading->pressure(), 1 - 400.0 / 990.0);
}

TEST(NvmlSource, AsksTheFirstVersionWhereTheSecondIsNotKnownAndRemembers) {
  for (const std::string& how :
       {std::string("wrong_size"), std::string("fail nvmlDeviceGetMemoryInfo_v2 13"),
        std::string("fail nvmlDeviceGetMemoryInfo_v2 25")}) {
    NvmlBench bench;
    bench.fake.Script(fmt::format("{}\n{}", kCard, how));
    const auto source = bench.Open();
    const int before = bench.fake.calls("nvmlDeviceGetMemoryInfo_v2");
    for (int times = 0; times < 3; ++times) {
      const Result<Reading> reading = source->Read();
      ASSERT_TRUE(reading) << how;
      EXPECT_EQ(reading->free, 400U);
      EXPECT_EQ(reading->reserved, std::nullopt);
    }
    EXPECT_EQ(bench.fake.calls("nvmlDeviceGetMemoryInfo_v2"), before + 1);
    EXPECT_EQ(source->name(), "nvml:0000:1b:00.0");
  }
}

TEST(NvmlSource, OldLibraryHasOnlyTheFirstVersion) {
  NvmlBench bench("nvml_without_v2");
  bench.fake.Script(kCard);
  const auto source = bench.Open();
  const Result<Reading> reading = source->Read();
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->total, 1000U);
  EXPECT_EQ(reading->reserved, std::nullopt);
  bench.fake.Script(kCard + "\nfail nvmlDeviceGetMemoryInfo 15");
  EXPECT_THAT(source->Read().error().message,
              HasSubstr("nvmlDeviceGetMemoryInfo failed: 15 (the words for 15)"));
}

TEST(NvmlSource, DeviceThatSharesHostMemoryPointsToTheHostSource) {
  NvmlBench bench;
  bench.fake.Script(kCard);
  const auto source = bench.Open();
  for (const std::string& script : {kCard + "\nfail nvmlDeviceGetMemoryInfo_v2 3",
                                    "device 0000:1b:00.0 " + kGpu + " total 0 free 0"}) {
    bench.fake.Script(script);
    const Result<Reading> reading = source->Read();
    ASSERT_FALSE(reading);
    EXPECT_THAT(reading.error().message,
                AllOf(HasSubstr("shares host memory"), HasSubstr("source \"host\"")));
  }
}

TEST(NvmlSource, MoreReservedThanThereIsIsAnError) {
  NvmlBench bench;
  bench.fake.Script("device 0000:1b:00.0 " + kGpu + " total 1000 free 400 reserved max used 0");
  EXPECT_FALSE(bench.Open()->Read());
}

TEST(NvmlSource, WhatIsUsedDoesNotCount) {  // Drivers disagree on what it includes.
  NvmlBench bench;
  bench.fake.Script("device 0000:1b:00.0 " + kGpu + " total 1000 free 400 used max");
  EXPECT_EQ(bench.Open()->Read()->free, 400U);
}

TEST(NvmlSource, CardThatMayNotBeOpenedIsNamedAndTheOthersAreListed) {
  NvmlBench bench;
  bench.fake.Script("device 0000:0a:00.0 GPU-0 denied\n" + kCard);
  const Sighting sighting = bench.Look();
  ASSERT_EQ(sighting.found.size(), 1U);
  EXPECT_EQ(sighting.found[0].uuid, kGpu);
  EXPECT_THAT(sighting.why_not, HasSubstr("device 0: nvmlDeviceGetHandleByIndex_v2 failed: 4"));
  EXPECT_TRUE(bench.Open()->Read());
}

TEST(NvmlSource, ListsInstancesInPlaceOfACardInMigMode) {
  NvmlBench bench;
  bench.fake.Script(kCard + "\nhole\nmig " + kMig + " total 100 free 30\nhole\nmig " + kMig2 +
                    " total 200 free 50\ndevice 0000:2b:00.0 GPU-2 total 7 free 3");
  const Sighting sighting = bench.Look();
  ASSERT_EQ(sighting.found.size(), 3U) << sighting.why_not;
  EXPECT_EQ(sighting.found[0].device, kMig);
  EXPECT_EQ(sighting.found[0].uuid, kMig);
  EXPECT_EQ(sighting.found[0].label, "Fake MIG on 0000:1b:00.0");
  EXPECT_EQ(sighting.found[0].scope, Scope::kInstance);
  EXPECT_EQ(sighting.found[1].device, kMig2);
  EXPECT_EQ(sighting.found[2].device, "0000:2b:00.0");
  EXPECT_EQ(sighting.found[2].scope, Scope::kCard);

  const auto source = bench.Open(kMig2);
  EXPECT_EQ(source->name(), "nvml:" + kMig2);
  EXPECT_EQ(source->Read()->total, 200U);
  EXPECT_EQ(source->Read()->scope, Scope::kInstance);
  const auto parent = bench.kind.Open(bench.machine, "0000:1b:00.0");
  ASSERT_FALSE(parent);
  EXPECT_THAT(parent.error().message, AllOf(HasSubstr(kMig), HasSubstr(kMig2)));
}

TEST(NvmlSource, InstanceThatWasTakenAwayIsFoundAgain) {
  NvmlBench bench;
  bench.fake.Script(kCard + "\nmig " + kMig + " total 100 free 30");
  const auto source = bench.Open();
  ASSERT_TRUE(source->Read());
  bench.fake.Script(kCard);
  EXPECT_FALSE(source->Read());
  EXPECT_THAT(source->Read().error().message, HasSubstr("nvmlDeviceGetHandleByUUID failed: 6"));
  bench.fake.Script(kCard + "\nhole\nmig " + kMig + " total 100 free 20");
  EXPECT_EQ(source->Read()->free, 20U);
}

TEST(NvmlSource, MigModeWithoutInstancesSaysSo) {
  NvmlBench bench;
  bench.fake.Script(kCard + "\nhole");
  const Sighting sighting = bench.Look();
  EXPECT_TRUE(sighting.found.empty());
  EXPECT_EQ(sighting.why_not, "0000:1b:00.0 is in MIG mode, without instances");
}

TEST(NvmlSource, WhatCannotBeListedIsNamed) {
  NvmlBench bench;
  for (const std::string& call :
       {std::string("nvmlDeviceGetPciInfo_v3"), std::string("nvmlDeviceGetMaxMigDeviceCount"),
        std::string("nvmlDeviceGetMigDeviceHandleByIndex")}) {
    bench.fake.Script(fmt::format("{}\nmig {}\nfail {} 999", kCard, kMig, call));
    const Sighting sighting = bench.Look();
    EXPECT_TRUE(sighting.found.empty());
    EXPECT_THAT(sighting.why_not, HasSubstr(call + " failed: 999 (the words for 999)"));
  }
  bench.fake.Script(kCard + "\nmig " + kMig + "\nfail nvmlDeviceGetUUID 999");
  EXPECT_THAT(bench.Look().why_not, HasSubstr("instance 0 has no UUID"));
}

TEST(CudaSource, LookingMakesNoContextAndOpeningHoldsOne) {
  CudaBench bench;
  bench.fake.Script(kCard);
  const int before = bench.fake.calls("cuDevicePrimaryCtxRetain");
  EXPECT_EQ(bench.Look().found.size(), 1U);
  EXPECT_EQ(bench.fake.calls("cuDevicePrimaryCtxRetain"), before);
  {
    const auto source = bench.Open();
    EXPECT_EQ(bench.fake.users(), 1);
    EXPECT_TRUE(source->Read());
  }
  EXPECT_EQ(bench.fake.users(), 0);
}

TEST(CudaSource, LeavesTheThreadsContextsAsTheyWere) {
  CudaBench bench;
  bench.fake.Script(kCard);
  const auto source = bench.Open();
  const int before = bench.fake.current();
  EXPECT_TRUE(source->Read());
  EXPECT_EQ(bench.fake.current(), before);
  bench.fake.Script(kCard + "\nfail cuMemGetInfo_v2 700");
  EXPECT_FALSE(source->Read());
  EXPECT_EQ(bench.fake.current(), before);
}

TEST(CudaSource, RefusedContextIsAnErrorAtTheStart) {
  CudaBench bench;
  bench.fake.Script(kCard + "\nfail cuDevicePrimaryCtxRetain 2");
  const auto source = bench.kind.Open(bench.machine, "");
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().message,
            "cuda:0000:1b:00.0: cuDevicePrimaryCtxRetain failed: 2 (the words for 2)");
}

TEST(CudaSource, FailureToLeaveTheContextIsAnError) {
  CudaBench bench;
  bench.fake.Script(kCard);
  const auto source = bench.Open();
  bench.fake.Script(kCard + "\nfail cuCtxPopCurrent_v2 201");
  EXPECT_THAT(source->Read().error().message, HasSubstr("cuCtxPopCurrent_v2 failed: 201"));
}

TEST(CudaSource, TellsInstancesByTheirOwnUuid) {
  CudaBench bench;
  bench.fake.Script(kCard + "\nmig " + kMig + " total 100 free 30\nmig " + kMig2 +
                    " total 200 free 50");
  const Sighting sighting = bench.Look();
  ASSERT_EQ(sighting.found.size(), 2U);
  EXPECT_EQ(sighting.found[1].device, kMig2);
  EXPECT_EQ(sighting.found[1].scope, Scope::kInstance);
  const auto source = bench.Open(kMig2);
  EXPECT_EQ(source->name(), "cuda:" + kMig2);
  EXPECT_EQ(source->Read()->total, 200U);
}

TEST(CudaSource, OldLibraryTellsTheCardsUuid) {
  CudaBench bench("cuda_without_uuid_v2");
  bench.fake.Script(kCard);
  ASSERT_EQ(bench.Look().found.size(), 1U);
  EXPECT_EQ(bench.Look().found[0].uuid, kGpu);
  EXPECT_TRUE(bench.Open(kGpu)->Read());
}

TEST(CudaSource, WhatCannotBeListedIsNamed) {
  CudaBench bench;
  for (const std::string& call : {std::string("cuDeviceGet"), std::string("cuDeviceGetPCIBusId")}) {
    bench.fake.Script(fmt::format("{}\nfail {} 101", kCard, call));
    EXPECT_EQ(bench.Look().why_not, "device 0: " + call + " failed: 101 (the words for 101)");
  }
}

// Both of AMD's libraries, with the same cards.
class SmiSource : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr auto kLibrary = [](bool old) {
    return old ? &Machine::rocm_smi : &Machine::amd_smi;
  };
  SmiSource()
      : bench_(GetParam() ? RocmSmiKind() : AmdSmiKind(), kLibrary(GetParam()),
               GetParam() ? "rocm_smi" : "amd_smi") {}
  Bench bench_;
};

TEST_P(SmiSource, MoreUsedThanThereIsIsAnError) {
  bench_.fake.Script("device 0000:1b:00.0 GPU-1 total 1000 used 1001");
  const auto source = bench_.Open();
  EXPECT_THAT(source->Read().error().message,
              HasSubstr("more used than there is (total 1000, used 1001)"));
  bench_.fake.Script("device 0000:1b:00.0 GPU-1 total 1000 used 1000");
  EXPECT_EQ(source->Read()->free, 0U);
}

TEST_P(SmiSource, PartitionsAreMarkedAndOnesOfOnePciIdAreOne) {
  bench_.fake.Script(
      "device 0000:1b:00.0 GPU-1 total 1000 free 10\n"
      "device 0000:1b:00.1 GPU-2 total 1000 free 10\n"
      "device 0000:2b:00.0 GPU-3 total 1000 free 20\n"
      "device 0000:2b:00.0 GPU-4 partition 3 total 0 free 0\n"
      "device 0000:3b:00.0 GPU-5 total 1000 free 30");
  const Sighting sighting = bench_.Look();
  ASSERT_EQ(sighting.found.size(), 4U);
  EXPECT_EQ(sighting.found[0].scope, Scope::kPartition);
  EXPECT_EQ(sighting.found[1].device, "0000:1b:00.1");
  EXPECT_EQ(sighting.found[1].scope, Scope::kPartition);
  EXPECT_EQ(sighting.found[2].scope, Scope::kPartition);
  EXPECT_EQ(sighting.found[3].scope, Scope::kCard);
  const auto source = bench_.Open("0000:2b:00.0");
  EXPECT_EQ(source->Read()->free, 20U);
  EXPECT_EQ(source->Read()->scope, Scope::kPartition);
}

TEST_P(SmiSource, TheLibrarysOwnLinesDoNotReachStandardError) {
  bench_.fake.Script("device 0000:1b:00.0 GPU-1 total 1000 free 10");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(bench_.Open()->Read()->free, 10U);
  bench_.fake.Script(GetParam() ? "fail rsmi_init 8" : "fail amdsmi_init 34");
  EXPECT_THAT(bench_.Look().why_not, HasSubstr("init failed: "));
  bench_.fake.Script(GetParam() ? "throw rsmi_init" : "throw amdsmi_init");
  EXPECT_THAT(bench_.Look().why_not, HasSubstr("threw"));
  std::fputs("ours\n", stderr);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "ours\n");
}

TEST_P(SmiSource, WideDomainsKeepTheirDigits) {
  bench_.fake.Script("device 10000:1b:1f.0 GPU-1 total 1000 free 10");
  EXPECT_EQ(bench_.Open("10000:1b:1f.0")->Read()->free, 10U);
}

TEST_P(SmiSource, DeviceWithoutPciIdIsNamedAndTheSourceSaysWhyItIsGone) {
  bench_.fake.Script("device 0000:1b:00.0 GPU-1 total 1000 free 10");
  const auto source = bench_.Open();
  const std::string call = GetParam() ? "rsmi_dev_pci_id_get" : "amdsmi_get_gpu_device_bdf";
  bench_.fake.Script("device 0000:1b:00.0 GPU-1 total 1000 free 10;lost");
  EXPECT_FALSE(source->Read());
  bench_.fake.Script("device 0000:1b:00.0 GPU-1 total 1000 free 10;fail " + call + " 2");
  EXPECT_THAT(bench_.Look().why_not, HasSubstr("device 0: " + call + " failed: 2"));
  EXPECT_THAT(source->Read().error().message, HasSubstr(call + " failed: 2"));
}

INSTANTIATE_TEST_SUITE_P(Both, SmiSource, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& tested) {
                           return tested.param ? "rocm_smi" : "amd_smi";
                         });

TEST(RocmSmiSource, UsesALockOfItsOwnUnlessToldOtherwise) {
  Bench bench(RocmSmiKind(), &Machine::rocm_smi, "rocm_smi");
  bench.fake.Script("device 0000:1b:00.0 GPU-1 total 1000 free 10");
  unsetenv("RSMI_MUTEX_THREAD_ONLY");
  EXPECT_EQ(bench.Look().found.size(), 1U);
  EXPECT_STREQ(std::getenv("RSMI_MUTEX_THREAD_ONLY"), "1");
  setenv("RSMI_MUTEX_THREAD_ONLY", "0", 1);
  EXPECT_EQ(bench.Look().found.size(), 1U);
  EXPECT_STREQ(std::getenv("RSMI_MUTEX_THREAD_ONLY"), "0");
  unsetenv("RSMI_MUTEX_THREAD_ONLY");
}

TEST(AmdSmiSource, LeavesOutProcessorsThatAreNoGpus) {
  Bench bench(AmdSmiKind(), &Machine::amd_smi, "amd_smi");
  bench.fake.Script("device 0000:00:00.0 CPU-1 other\ndevice 0000:1b:00.0 GPU-1 total 9 free 1");
  ASSERT_EQ(bench.Look().found.size(), 1U);
  EXPECT_EQ(bench.Look().found[0].uuid, "GPU-1");
}

TEST(AmdSmiSource, ListsThatCannotBeHadAreNamed) {
  Bench bench(AmdSmiKind(), &Machine::amd_smi, "amd_smi");
  for (const std::string& call :
       {std::string("amdsmi_get_processor_handles"), std::string("amdsmi_get_processor_type")}) {
    bench.fake.Script("device 0000:1b:00.0 GPU-1 total 9 free 1\nfail " + call + " 34");
    EXPECT_EQ(bench.Look().why_not, call + " failed: 34 (the words for 34)");
  }
}

// Debian's librocm-smi64, on whichever machine the test runs.
TEST(RocmSmiSource, RealLibrarySaysWhatItFindsOrWhyNot) {
  const Machine machine;
  if (const auto library = Library::Open(machine.rocm_smi); !library) {
    GTEST_SKIP() << "librocm-smi64 is not installed: " << library.error().message;
  }
  const Sighting sighting = RocmSmiKind().Look(machine);
  EXPECT_TRUE(!sighting.found.empty() || !sighting.why_not.empty());
  for (const Found& found : sighting.found) {
    EXPECT_EQ(CanonicalPci(found.device), found.device);
    EXPECT_TRUE(RocmSmiKind().Open(machine, found.device));
  }
}

// For tests of whole programs: the script comes from a file, which may change.
TEST(FakeDriver, FollowsTheFileItsEnvironmentNames) {
  namespace fs = std::filesystem;
  std::string pattern = ::testing::TempDir() + "spillway-fake-driver-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const fs::path dir = pattern;
  const auto write = [&](const std::string& text) {
    std::ofstream(dir / "script.new") << text;
    fs::rename(dir / "script.new", dir / "script");
  };
  // A copy of the library: the variable is read once, when the library is loaded.
  const fs::path copy = dir / "fake_nvml_copy.so";
  fs::copy_file(SPILLWAY_FAKES_DIR "/fake_nvml.so", copy);
  setenv("SPILLWAY_FAKE_SCRIPT", ("@" + (dir / "script").string()).c_str(), 1);
  write(kCard);
  Machine machine;
  machine.nvml = {copy.string()};
  const auto source = NvmlKind().Open(machine, "");
  unsetenv("SPILLWAY_FAKE_SCRIPT");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->Read()->free, 400U);
  write("device 0000:1b:00.0 " + kGpu + " total 1000 free 300");
  EXPECT_EQ((*source)->Read()->free, 300U);
  write("lost;" + kCard);
  EXPECT_THAT((*source)->Read().error().message, HasSubstr("failed: 15"));
  fs::remove_all(dir);
}

}  // namespace
}  // namespace spillway
