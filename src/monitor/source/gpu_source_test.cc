// SPDX-License-Identifier: Apache-2.0
// The contract of each kind that uses a vendor's library, with fakes of the
// four libraries. Properties of single libraries are in gpu_kinds_test.cc.
#include <atomic>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/source/kind.h"
#include "monitor/testing/fake_driver.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Driver {
  std::string kind;
  std::string fake;
  const SourceKind& (*get)();
  std::vector<std::string> Machine::* library;
  std::string init;
  std::string count;
  std::vector<std::string> memory;      // The calls of one reading, as named in errors.
  std::vector<std::string> memory_too;  // Others that a reading falls back to.
  int lost;                             // The code that a lost device returns.
  int refused;                          // A code that leaves the state usable.
  std::string without;                  // A fake that lacks a needed function, and its name.
  std::string without_what;
};

std::ostream& operator<<(std::ostream& out, const Driver& driver) { return out << driver.kind; }

const std::vector<Driver>& Drivers() {
  static const std::vector<Driver> kDrivers = {
      {.kind = "nvml",
       .fake = "nvml",
       .get = NvmlKind,
       .library = &Machine::nvml,
       .init = "nvmlInit_v2",
       .count = "nvmlDeviceGetCount_v2",
       .memory = {"nvmlDeviceGetMemoryInfo_v2"},
       .memory_too = {"nvmlDeviceGetMemoryInfo"},
       .lost = 15,
       .refused = 10,
       .without = "nvml_without_init",
       .without_what = "nvmlInit_v2"},
      {.kind = "cuda",
       .fake = "cuda",
       .get = CudaKind,
       .library = &Machine::cuda,
       .init = "cuInit",
       .count = "cuDeviceGetCount",
       .memory = {"cuMemGetInfo_v2", "cuCtxPushCurrent_v2"},
       .memory_too = {},
       .lost = 46,
       .refused = 600,
       .without = "cuda_without_memory",
       .without_what = "cuMemGetInfo_v2"},
      {.kind = "rocm-smi",
       .fake = "rocm_smi",
       .get = RocmSmiKind,
       .library = &Machine::rocm_smi,
       .init = "rsmi_init",
       .count = "rsmi_num_monitor_devices",
       .memory = {"rsmi_dev_memory_usage_get", "rsmi_dev_memory_total_get"},
       .memory_too = {},
       .lost = 3,
       .refused = 0x10,
       .without = "rocm_smi_without_usage",
       .without_what = "rsmi_dev_memory_usage_get"},
      {.kind = "amd-smi",
       .fake = "amd_smi",
       .get = AmdSmiKind,
       .library = &Machine::amd_smi,
       .init = "amdsmi_init",
       .count = "amdsmi_get_socket_handles",
       .memory = {"amdsmi_get_gpu_memory_usage", "amdsmi_get_gpu_memory_total"},
       .memory_too = {},
       .lost = 31,
       .refused = 30,
       .without = "amd_smi_without_usage",
       .without_what = "amdsmi_get_gpu_memory_usage"},
  };
  return kDrivers;
}

const std::string kOne = "0000:1b:00.0";
const std::string kTwo = "0001:c3:00.0";

class GpuSource : public ::testing::TestWithParam<Driver> {
 protected:
  GpuSource() : fake_(GetParam().fake) { machine_.*GetParam().library = {fake_.path()}; }

  // Each library has its own spelling.
  static std::string Uuid(char digit) {
    const std::string d(16, digit);
    if (GetParam().kind == "rocm-smi") return "GPU-" + d;
    return fmt::format("{2}{0}-{1}-{1}-{1}-{0}{1}", d.substr(0, 8), d.substr(0, 4),
                       GetParam().kind == "amd-smi" ? "" : "GPU-");
  }
  static std::string Card(const std::string& pci, char digit, const std::string& figures) {
    return fmt::format("device {} {} {}\n", pci, Uuid(digit), figures);
  }
  static std::string Good() { return Card(kOne, '1', "total 1000 free 400"); }
  static std::string Fail(const std::string& function, std::int64_t code) {
    return fmt::format("fail {} {}\n", function, code);
  }

  Result<std::shared_ptr<PressureSource>> Open(std::string_view device = {}) {
    return kind_.Open(machine_, device);
  }

  const testing::FakeDriver fake_;
  const SourceKind& kind_ = GetParam().get();
  Machine machine_;
};

TEST_P(GpuSource, ListsWhatThereIs) {
  fake_.Script(Good() + Card(kTwo, '2', "total 7 free 7"));
  const Sighting sighting = kind_.Look(machine_);
  EXPECT_EQ(kind_.name(), GetParam().kind);
  ASSERT_EQ(sighting.found.size(), 2U);
  EXPECT_EQ(sighting.why_not, "");
  EXPECT_EQ(sighting.found[0].device, kOne);
  EXPECT_EQ(sighting.found[0].uuid, Uuid('1'));
  EXPECT_EQ(sighting.found[0].scope, Scope::kCard);
  EXPECT_FALSE(sighting.found[0].label.empty());
  EXPECT_EQ(sighting.found[1].device, kTwo);
  EXPECT_EQ(sighting.found[1].uuid, Uuid('2'));
}

TEST_P(GpuSource, ReadsTheFiguresOfItsDevice) {
  fake_.Script(Good() + Card(kTwo, '2', "total 7 free 3"));
  const auto source = Open(kTwo);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->name(), GetParam().kind + ":" + kTwo);
  const Result<Reading> reading = (*source)->Read();
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->total, 7U);
  EXPECT_EQ(reading->free, 3U);
  EXPECT_EQ(reading->scope, Scope::kCard);
}

TEST_P(GpuSource, IsAskedForByPciIdInAnySpellingOrByUuid) {
  fake_.Script(Card(kOne, '1', "total 10 free 1") + Card(kTwo, '2', "total 20 free 2"));
  for (const std::string& asked :
       {kTwo, std::string("0001:C3:00.0"), std::string("00000001:c3:00.0"), Uuid('2')}) {
    const auto source = Open(asked);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ((*source)->Read()->total, 20U) << asked;
    EXPECT_EQ((*source)->name(), GetParam().kind + ":" + kTwo);
  }
  EXPECT_EQ((*Open("1b:00.0"))->Read()->total, 10U);
}

TEST_P(GpuSource, UnknownDeviceIsAnErrorThatTellsWhatIsThere) {
  fake_.Script(Good());
  for (const char* asked : {"0000:2b:00.0", "GPU-9", "0", "1"}) {
    const auto source = Open(asked);
    ASSERT_FALSE(source) << asked;
    EXPECT_EQ(source.error().code, Code::kUnavailable);
    EXPECT_THAT(source.error().message,
                AllOf(HasSubstr(asked), HasSubstr(kOne), HasSubstr(Uuid('1'))));
  }
}

TEST_P(GpuSource, OneOfSeveralMustBeNamed) {
  fake_.Script(Good() + Card(kTwo, '2', "total 7 free 3"));
  const auto source = Open();
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, AllOf(HasSubstr(kOne), HasSubstr(kTwo)));
  fake_.Script(Good());
  EXPECT_TRUE(Open());
}

// Any code that a library could return, known or not, gives an Error that names
// the call, the code and the library's text; afterwards a reading succeeds.
TEST_P(GpuSource, EveryCodeIsAnErrorThatNamesItAndPasses) {
  fake_.Script(Good());
  const auto source = Open(kOne);
  ASSERT_TRUE(source);
  std::vector<std::int64_t> codes = {0xfffffffe, 0xffffffff};
  for (std::int64_t code = 1; code <= 999; ++code) codes.push_back(code);
  for (const std::string& call : GetParam().memory) {
    for (const std::int64_t code : codes) {
      std::string script = Good() + Fail(call, code);
      for (const std::string& too : GetParam().memory_too) script += Fail(too, code);
      fake_.Script(script);
      const Result<Reading> reading = (*source)->Read();
      ASSERT_FALSE(reading) << code;
      EXPECT_EQ(reading.error().code, Code::kUnavailable);
      const int as_int = static_cast<int>(code);
      const std::string number = as_int < 0 ? fmt::format("{:#x}", code) : fmt::format("{}", code);
      EXPECT_THAT(
          reading.error().message,
          AllOf(StartsWith(GetParam().kind + ":" + kOne + ": "), HasSubstr(call.substr(0, 16)),
                HasSubstr(fmt::format(" failed: {} (the words for {})", number, as_int))));
      fake_.Script(Good());
      const Result<Reading> again = (*source)->Read();
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(again->free, 400U);
    }
  }
}

TEST_P(GpuSource, EveryCodeOfTheStartSaysWhyNothingIsFound) {
  for (const std::string& call : {GetParam().init, GetParam().count}) {
    for (int code = 1; code <= 999; ++code) {
      fake_.Script(Good() + Fail(call, code));
      const Sighting sighting = kind_.Look(machine_);
      EXPECT_TRUE(sighting.found.empty());
      EXPECT_EQ(sighting.why_not, fmt::format("{0} failed: {1} (the words for {1})", call, code));
    }
    const auto source = Open();
    ASSERT_FALSE(source);
    EXPECT_THAT(source.error().message, HasSubstr(call + " failed: 999"));
  }
}

TEST_P(GpuSource, LostDeviceIsFoundAgainWhereverItCameBack) {
  fake_.Script(Good() + Card(kTwo, '2', "total 7 free 3"));
  const auto source = Open(kOne);
  ASSERT_TRUE(source);
  ASSERT_TRUE((*source)->Read());
  fake_.Script(Good() + "lost");
  for (int times = 0; times < 3; ++times) {
    const Result<Reading> reading = (*source)->Read();
    ASSERT_FALSE(reading);
    EXPECT_THAT(reading.error().message, HasSubstr(fmt::format("failed: {}", GetParam().lost)));
  }
  fake_.Script(Card(kTwo, '2', "total 7 free 3"));  // The card is missing.
  EXPECT_FALSE((*source)->Read());
  fake_.Script(Card(kTwo, '2', "total 7 free 3") + Good());
  const Result<Reading> reading = (*source)->Read();
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->total, 1000U);
}

TEST_P(GpuSource, StartsAfreshOnlyAfterAnErrorThatAsksForIt) {
  fake_.Script(Good());
  const auto source = Open();
  ASSERT_TRUE(source);
  const int before = fake_.calls(GetParam().init);
  EXPECT_TRUE((*source)->Read());
  EXPECT_TRUE((*source)->Read());
  fake_.Script(Good() + Fail(GetParam().memory.front(), GetParam().refused));
  EXPECT_FALSE((*source)->Read());
  fake_.Script(Good());
  EXPECT_TRUE((*source)->Read());
  EXPECT_EQ(fake_.calls(GetParam().init), before);
  fake_.Script(Good() + Fail(GetParam().memory.front(), GetParam().lost));
  EXPECT_FALSE((*source)->Read());
  EXPECT_EQ(fake_.users(), 0);  // Released, so that the next start is a real one.
  fake_.Script(Good());
  EXPECT_TRUE((*source)->Read());
  EXPECT_EQ(fake_.calls(GetParam().init), before + 1);
}

TEST_P(GpuSource, StartThatFailsIsTriedAgainAtTheNextReading) {
  fake_.Script(Good());
  const auto source = Open();
  ASSERT_TRUE(source);
  fake_.Script("lost;" + Good());
  EXPECT_FALSE((*source)->Read());
  fake_.Script(Good() + Fail(GetParam().init, 999));
  const Result<Reading> reading = (*source)->Read();
  ASSERT_FALSE(reading);
  EXPECT_THAT(reading.error().message, HasSubstr(GetParam().init + " failed: 999"));
  fake_.Script(Good());
  EXPECT_TRUE((*source)->Read());
}

TEST_P(GpuSource, AbsurdFiguresAreErrors) {
  fake_.Script(Good());
  const auto source = Open(kOne);
  ASSERT_TRUE(source);
  for (const char* figures : {"total 0 free 0", "total max free max", "total max free 1",
                              "total 1000 free 1001", "total 1000 free max used max"}) {
    fake_.Script(Card(kOne, '1', figures));
    const Result<Reading> reading = (*source)->Read();
    ASSERT_FALSE(reading) << figures;
    EXPECT_THAT(reading.error().message, StartsWith(GetParam().kind + ":" + kOne + ": "));
  }
  fake_.Script(Card(kOne, '1', "total 1000 free 1000"));
  EXPECT_EQ((*source)->Read()->pressure(), 0);
  fake_.Script(Card(kOne, '1', "total 1000 free 0"));
  EXPECT_EQ((*source)->Read()->pressure(), 1);
}

TEST_P(GpuSource, FiguresAreFreshAndFrozenOnesAreStillAnswers) {
  fake_.Script(Good() + "drift 10");
  const auto source = Open();
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->Read()->free, 390U);
  EXPECT_EQ((*source)->Read()->free, 380U);
  fake_.Script(Good() + "drift 10\nfreeze");
  EXPECT_EQ((*source)->Read()->free, 380U);
  EXPECT_EQ((*source)->Read()->free, 380U);
}

TEST_P(GpuSource, MissingLibrarySaysTheLoadersReason) {
  machine_.*GetParam().library = {"libspillway-is-not-there.so.1"};
  const Sighting sighting = kind_.Look(machine_);
  EXPECT_TRUE(sighting.found.empty());
  EXPECT_THAT(sighting.why_not, HasSubstr("libspillway-is-not-there.so.1"));
  EXPECT_FALSE(Open());
  machine_.*GetParam().library = {};
  EXPECT_NE(kind_.Look(machine_).why_not, "");
}

TEST_P(GpuSource, MissingFunctionIsNamed) {
  const testing::FakeDriver poor(GetParam().without);
  machine_.*GetParam().library = {poor.path()};
  poor.Script(Good());
  EXPECT_THAT(kind_.Look(machine_).why_not, EndsWith(".so has no " + GetParam().without_what));
  const auto source = Open();
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr(GetParam().without_what));
}

TEST_P(GpuSource, LibraryWithoutDevicesSaysSo) {
  fake_.Script("");
  EXPECT_THAT(kind_.Look(machine_).why_not, HasSubstr("lists no devices"));
  EXPECT_FALSE(Open());
}

TEST_P(GpuSource, LibraryThatThrowsIsAnError) {
  fake_.Script(Good());
  const auto source = Open();
  ASSERT_TRUE(source);
  fake_.Script(Good() + "throw " + GetParam().memory.front());
  const Result<Reading> reading = (*source)->Read();
  ASSERT_FALSE(reading);
  EXPECT_THAT(reading.error().message, HasSubstr(GetParam().memory.front() + " threw"));
  fake_.Script(Good() + "throw " + GetParam().init);
  EXPECT_FALSE((*source)->Read());
  EXPECT_THAT(kind_.Look(machine_).why_not, HasSubstr("threw"));
  fake_.Script(Good());
  EXPECT_TRUE((*source)->Read());
}

TEST_P(GpuSource, LibraryIsHeldAsLongAsOneNeedsItAndNoLonger) {
  fake_.Script(Good() + Card(kTwo, '2', "total 7 free 3"));
  EXPECT_EQ(kind_.Look(machine_).found.size(), 2U);
  EXPECT_EQ(fake_.users(), 0);
  {
    const auto one = Open(kOne);
    {
      const auto two = Open(kTwo);
      EXPECT_TRUE((*two)->Read());
    }
    EXPECT_EQ(kind_.Look(machine_).found.size(), 2U);
    EXPECT_TRUE((*one)->Read());  // The others did not disturb it.
    EXPECT_EQ(fake_.users(), 1);
  }
  EXPECT_EQ(fake_.users(), 0);
}

TEST_P(GpuSource, HungQueryHoldsUpNobodyElse) {
  const std::string call = GetParam().memory.front();
  const std::string cards = Good() + Card(kTwo, '2', "total 7 free 3");
  fake_.Script(cards);
  const auto hangs = Open(kOne);
  const auto other = Open(kTwo);
  ASSERT_TRUE(hangs && other);
  fake_.Script(cards + "hang " + call + " 1");
  const int before = fake_.calls(call);
  bool answered = false;
  std::thread thread([&] { answered = (*hangs)->Read().has_value(); });
  fake_.WaitFor(call, before + 1);
  EXPECT_TRUE((*other)->Read());
  EXPECT_EQ(kind_.Look(machine_).found.size(), 2U);
  EXPECT_TRUE((*Open(kTwo))->Read());
  fake_.Script(cards);
  thread.join();
  EXPECT_TRUE(answered);
}

TEST_P(GpuSource, SourcesOfOneLibraryMayBeReadAtOnce) {
  const std::string cards = Good() + Card(kTwo, '2', "total 7 free 3");
  fake_.Script(cards);
  constexpr int kReadings = 300;
  constexpr int kTriesMost = 1'000'000;  // Reached only if it never recovers.
  std::atomic<int> reading_still = 2;
  const auto read = [&](const std::string& device, Bytes total) {
    const auto source = Open(device);
    int right = 0;
    int failed = 0;
    for (int times = 0; source && times < kTriesMost && right < kReadings; ++times) {
      const Result<Reading> reading = (*source)->Read();
      if (!reading) {
        ++failed;
        ASSERT_THAT(reading.error().message, HasSubstr(GetParam().memory.front()));
        continue;
      }
      ++right;
      EXPECT_EQ(reading->total, total);
    }
    EXPECT_EQ(right, kReadings) << failed << " failed";
  };
  const auto read_all = [&](const std::string& device, Bytes total) {
    read(device, total);
    --reading_still;
  };
  std::thread one([&] { read_all(kOne, 1000); });
  std::thread two([&] { read_all(kTwo, 7); });
  // Both start again now and then, while the other one reads.
  while (reading_still > 0) {
    fake_.Script(cards + Fail(GetParam().memory.front(), GetParam().lost));
    std::this_thread::yield();
    fake_.Script(cards);
    std::this_thread::yield();
  }
  one.join();
  two.join();
  EXPECT_EQ(fake_.users(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, GpuSource, ::testing::ValuesIn(Drivers()),
                         [](const ::testing::TestParamInfo<Driver>& tested) {
                           return tested.param.fake;
                         });

}  // namespace
}  // namespace spillway
