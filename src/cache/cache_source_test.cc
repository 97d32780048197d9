// SPDX-License-Identifier: Apache-2.0
// The setting `pressure_source`: a cache that opens its pressure source by name.
#include <stdlib.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/cache_fixture.h"
#include "device/cpu/card.h"
#include "device/testing/scratch_run_dir.h"
#include "monitor/testing/file_tree.h"
#include "spillway/cache.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PressureSourceByName : public testing::CacheTest {
 protected:
  PressureSourceByName() { ::setenv("SPILLWAY_SYS_ROOT", tree_.Path("sys").c_str(), 1); }
  ~PressureSourceByName() override { ::unsetenv("SPILLWAY_SYS_ROOT"); }

  Result<std::unique_ptr<Cache>> TryOpen(const std::string& source) {
    options_.pressure_source = source;
    Options options = WithWorld();
    options.pressure = nullptr;
    return Cache::Open(options);
  }
  void OpenBy(const std::string& source) {
    auto cache = TryOpen(source);
    ASSERT_TRUE(cache) << cache.error().message;
    cache_ = std::move(*cache);
  }
  Error WhyNot(const std::string& source) {
    const auto cache = TryOpen(source);
    EXPECT_FALSE(cache) << source;
    return cache ? Error{Code::kInternal, "it opened"} : cache.error();
  }

  const testing::ScratchRunDir run_dir_;
  const testing::FileTree tree_;
};

TEST_F(PressureSourceByName, AKindThatIsNotKnownIsRefusedWithTheKnownOnes) {
  const Error error = WhyNot("nvlm:0000:1b:00.0");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message,
            "pressure_source: 'nvlm' is not a kind of source; known: nvml, cuda, amd-sysfs, "
            "amd-smi, rocm-smi, card, host, disk, file, fixed, auto, part; did you mean 'nvml'?");
  EXPECT_THAT(WhyNot("prat:1GiB").message, EndsWith("did you mean 'part'?"));
  EXPECT_EQ(WhyNot("").code, Code::kInvalidArgument);
  EXPECT_THAT(WhyNot("").message, StartsWith("pressure_source: '' is not a kind of source"));
}

TEST_F(PressureSourceByName, ADeviceThatIsNotThereIsRefusedWithThoseThatAre) {
  EXPECT_EQ(WhyNot("amd-sysfs:0000:03:00.0").code, Code::kUnavailable);
  EXPECT_THAT(WhyNot("amd-sysfs:0000:03:00.0").message,
              AllOf(StartsWith("pressure_source: amd-sysfs: no AMD card: "),
                    HasSubstr(tree_.Path("sys/class/drm"))));
  tree_.Write("sys/class/drm/card0/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c3:00.0\n");
  EXPECT_EQ(WhyNot("amd-sysfs:0000:03:00.0").code, Code::kUnavailable);
  EXPECT_EQ(WhyNot("amd-sysfs:0000:03:00.0").message,
            "pressure_source: amd-sysfs: device '0000:03:00.0' is not there; there are: "
            "0000:c3:00.0");
  const auto card = Card::Open({.name = "demo", .total = kMiB}).value();
  EXPECT_EQ(WhyNot("card:dmeo").message,
            "pressure_source: card: device 'dmeo' is not there; there are: demo");
}

TEST_F(PressureSourceByName, AFileOfGarbageIsRefusedWithWhatWouldBeRight) {
  const std::string file = tree_.Path("pressure");
  tree_.Write("pressure", "high\n");
  EXPECT_EQ(WhyNot("file:" + file).code, Code::kInvalidArgument);
  EXPECT_EQ(WhyNot("file:" + file).message,
            fmt::format("pressure_source: file: {}: 'high' is no pressure; write a share from 0 to "
                        "1 (0.93), or 'total 80GiB' and 'free 5GiB'",
                        file));
  tree_.Remove("pressure");
  EXPECT_EQ(WhyNot("file:" + file).code, Code::kUnavailable);
  EXPECT_THAT(WhyNot("file:" + file).message,
              AllOf(StartsWith("pressure_source: file: "), EndsWith("pressure is not there")));
  EXPECT_EQ(WhyNot("fixed:2").message,
            "pressure_source: fixed: '2' is not a share from 0 to 1, as in fixed:0.5");
}

TEST_F(PressureSourceByName, APartOfACardIsItsOwnCard) {
  auto card = Card::Open({.name = "shared", .total = 64 * kMiB}).value();
  options_.card = "shared";
  EXPECT_EQ(WhyNot("part:65MiB").message,
            "pressure_source: part: 65 MiB are no part of card:shared, which has 64 MiB");
  EXPECT_THAT(WhyNot("part:").message, StartsWith("pressure_source: part: "));
  options_.host_capacity = 8 * kMiB;
  options_.host_pressure_source = "part:8MiB";
  EXPECT_EQ(WhyNot("auto").message,
            "host_pressure_source: 'part' is a part of the device: only pressure_source takes it");
  options_.host_capacity.reset();
  options_.capacity = 8 * kMiB;
  OpenBy("part:8MiB");
  EXPECT_EQ(cache_->Apply().level, Level::kRelaxed);
  EXPECT_EQ(cache_->stats().device.total, 8 * kMiB);
  EXPECT_EQ(cache_->stats().source.name, "part:8MiB of card:shared");
}

TEST_F(PressureSourceByName, AFixedPressureSetsTheLevel) {
  OpenBy("fixed:0.97");
  EXPECT_EQ(cache_->Apply().level, Level::kEmergency);
  EXPECT_TRUE(cache_->is_blocked());
  EXPECT_EQ(Set("a", "1").error().code, Code::kBlocked);
  EXPECT_EQ(cache_->stats().source.name, "fixed:0.97");
}

TEST_F(PressureSourceByName, AFileThatVanishesIsUnknownUntilItIsBack) {
  tree_.Write("pressure", "0.1");
  OpenBy("file:" + tree_.Path("pressure"));
  cache_->Apply();
  ASSERT_TRUE(cache_->pressure());
  EXPECT_NEAR(*cache_->pressure(), 0.1, 1e-9);
  tree_.Remove("pressure");
  cache_->Apply();
  EXPECT_EQ(cache_->pressure(), std::nullopt);
  EXPECT_EQ(cache_->level(), Level::kRelaxed);
  EXPECT_EQ(cache_->stats().samples_failed, 1U);
  EXPECT_EQ(Set("a", "1").error().code, Code::kBlocked);  // Nothing grows without a reading.
  tree_.Write("pressure", "0.2");
  cache_->Apply();
  ASSERT_TRUE(cache_->pressure());
  EXPECT_NEAR(*cache_->pressure(), 0.2, 1e-9);
  EXPECT_TRUE(Set("a", "1"));
}

TEST_F(PressureSourceByName, AnotherCardsPressureIsHeeded) {
  const auto card = Card::Open({.name = "demo", .total = 8 * kMiB}).value();
  OpenBy("card:demo");
  EXPECT_EQ(cache_->Apply().level, Level::kRelaxed);
  ASSERT_TRUE(card->Take(8 * kMiB));
  EXPECT_EQ(cache_->Apply().level, Level::kEmergency);
}

}  // namespace
}  // namespace spillway
