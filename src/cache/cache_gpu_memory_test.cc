// SPDX-License-Identifier: Apache-2.0
// How a cache allocates GPU memory: in slabs where the driver's memory management does
// not work, and zeroed before release where the driver does not clear it.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/gpu_fixture.h"
#include "device/gpu/gpu_record.h"
#include "spillway/log.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

class GpuMemoryTest : public GpuCacheTest {
 protected:
  void SetUp() override { SetLog(LogLevel::kOff); }
  void TearDown() override { SetLog(LogLevel::kInfo); }
  void Begin(FakeGpuOptions options) {
    options.total = kTotal;
    options.granularity = 64 * kKiB;
    gpu_.Reset(options);
  }
  // Fills of memory by a cache that takes some and gives it back.
  std::uint64_t Fills() {
    const std::uint64_t before = gpu_.calls("fill");
    Open();
    EXPECT_TRUE(SetOnDevice("k"));
    EXPECT_GT(cache_->stats().device.held, 0U);
    EXPECT_TRUE(cache_->Erase("k"));
    EXPECT_EQ(cache_->stats().device.held, 0U);
    cache_.reset();
    return gpu_.calls("fill") - before;
  }
  void Record(bool stale) {
    GpuRecord record{.uuid = kUuid, .kind = std::string(Name(GetParam())), .version = Version()};
    record.stale_after_exit = stale;
    record.stale_after_release = false;
    ASSERT_TRUE(WriteGpuRecord(record));
  }
};
INSTANTIATE_TEST_SUITE_P(Vendors, GpuMemoryTest, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

TEST_P(GpuMemoryTest, IsZeroedWhereTheDriverWasFoundToHandOutWhatOthersLeft) {
  EXPECT_EQ(Fills(), 0U);  // There is no record of this driver.
  Record(false);
  EXPECT_EQ(Fills(), 0U);
  Record(true);
  EXPECT_GT(Fills(), 0U);
  options_.zero_before_release = "never";
  EXPECT_EQ(Fills(), 0U);
  Record(false);
  options_.zero_before_release = "always";
  EXPECT_GT(Fills(), 0U);
}

TEST_P(GpuMemoryTest, AnotherWordForZeroingIsRefused) {
  options_.zero_before_release = "sometimes";
  const auto cache = TryOpen();
  ASSERT_FALSE(cache);
  EXPECT_THAT(cache.error().message, HasSubstr("zero_before_release: 'sometimes'"));
}

class GpuCopyChoiceTest : public GpuMemoryTest {
 protected:
  void Forget() { std::filesystem::remove_all(scratch_ / "state"); }
  // Kernels launched by a cache for a set in pieces of 10,000 bytes.
  std::uint64_t Launches() {
    Open();
    const std::uint64_t before = gpu_.calls("launch");
    EXPECT_TRUE(SetOnDevice("k"));
    const std::uint64_t launches = gpu_.calls("launch") - before;
    EXPECT_EQ(GetOnDevice("k"), Bulk("k", kValue));
    cache_.reset();
    return launches;
  }
};
INSTANTIATE_TEST_SUITE_P(Cuda, GpuCopyChoiceTest, ::testing::Values(GpuKind::kCuda));

TEST_P(GpuCopyChoiceTest, IsMadeOnceAndKept) {
  Forget();
  const std::uint64_t before = gpu_.calls("launch");
  Open();
  EXPECT_GT(gpu_.calls("launch"), before);  // It has measured.
  cache_.reset();
  const auto kept = ReadCopyRecord(kUuid, "cuda", Version());
  ASSERT_TRUE(kept);
  EXPECT_NE(kept->when, "");
  const std::uint64_t tried = gpu_.calls("launch");
  Open();
  EXPECT_EQ(gpu_.calls("launch"), tried);
  EXPECT_EQ(gpu_.misuse(), "");
}

TEST_P(GpuCopyChoiceTest, IsHeeded) {
  ASSERT_TRUE(WriteCopyRecord({kUuid, "cuda", Version(), 16 * kKiB, "then"}));
  EXPECT_GT(Launches(), 0U);
  ASSERT_TRUE(WriteCopyRecord({kUuid, "cuda", Version(), 8 * kKiB, "then"}));
  EXPECT_EQ(Launches(), 0U);
}

// Other processes may hold all memory: the cache opens with its default.
TEST_P(GpuCopyChoiceTest, IsNotMadeWithoutMemoryForIt) {
  Forget();
  gpu_.FailFunction("memory_alloc", 1, 2);
  const auto cache = TryOpen();
  ASSERT_TRUE(cache) << cache.error().message;
  EXPECT_FALSE(ReadCopyRecord(kUuid, "cuda", Version()));
}

class GpuSlabTest : public GpuMemoryTest {};
INSTANTIATE_TEST_SUITE_P(Amd, GpuSlabTest, ::testing::Values(GpuKind::kHip));

TEST_P(GpuSlabTest, DoAllButLendTheirAddresses) {
  Begin({.vmm = "keeps"});
  Open();
  EXPECT_TRUE(cache_->stats().device_slabs);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(SetOnDevice("d" + std::to_string(i)));
    ASSERT_TRUE(SetOnHost("h" + std::to_string(i)));
  }
  EXPECT_GE(cache_->stats().device.entries, 8U);
  const Bytes used = gpu_.used();
  for (int i = 0; i < 8; ++i) {
    for (const std::string& key : {"d" + std::to_string(i), "h" + std::to_string(i)}) {
      GetOptions options;
      options.into = Sink({{program().at(8 * kMiB), kValue, Place::kDevice}});
      const auto got = cache_->Get(key, options);
      ASSERT_TRUE(got && *got) << key;
      EXPECT_TRUE(Same(program().Peek(8 * kMiB, kValue), Bulk(key, kValue))) << key;
      EXPECT_TRUE(Same(Get(key), Bulk(key, kValue))) << key;
    }
  }
  const auto lent = cache_->Get("d0", {.where = Place::kDevice});
  ASSERT_FALSE(lent);
  EXPECT_EQ(lent.error().code, Code::kNotResident);
  EXPECT_THAT(lent.error().message, HasSubstr("slabs"));
  // A reclaim gives whole slabs back, and nothing is lost.
  EXPECT_GT(cache_->Reclaim(kTotal, std::chrono::seconds(10)).freed, 0U);
  EXPECT_EQ(cache_->stats().device.held, 0U);
  EXPECT_LT(gpu_.used(), used);
  for (int i = 0; i < 8; ++i) {
    const std::string key = "d" + std::to_string(i);
    EXPECT_TRUE(Same(Get(key), Bulk(key, kValue))) << key;
  }
}

TEST_P(GpuMemoryTest, AGoodDriverHasNoSlabs) {
  Open();
  EXPECT_FALSE(cache_->stats().device_slabs);
}

}  // namespace
}  // namespace spillway::testing
