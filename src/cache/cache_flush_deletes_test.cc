// SPDX-License-Identifier: Apache-2.0
// What was set again or erased does not come back after a restart, whatever the disk
// still accepts; and if it may come back, the API says so.
#include <atomic>
#include <cerrno>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/tiers_fixture.h"
#include "tier/disk/testing/faulty_files.h"

namespace spillway {
namespace {

using testing::Bulk;
using testing::FaultyFiles;
using testing::FileCall;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TiersTest;

class CacheSettleTest : public TiersTest {
 protected:
  enum class Broken { kNothing, kReads, kWrites, kAll };

  // A cache with two values on disk, and files with scripted faults.
  void SetUp() override {
    auto files = std::make_shared<FaultyFiles>(RealFiles());
    files->SetScript([this](FileCall call, std::uint64_t, int) {
      const Broken broken = broken_.load();
      const bool fails = broken == Broken::kAll ||
                         (broken == Broken::kWrites && call == FileCall::kWrite) ||
                         (broken == Broken::kReads && call == FileCall::kRead &&
                          std::this_thread::get_id() != self_);
      return fails ? EIO : 0;
    });
    seams_.files = files;
    ASSERT_TRUE(Open().Start());
    ASSERT_TRUE(Set("old", Bulk("old", 100'000)));
    ASSERT_TRUE(Set("stays", Bulk("stays", 100'000)));
    ASSERT_TRUE(AllBacked());
    cache_->Stop();  // So that nothing is copied down any more.
  }
  ~CacheSettleTest() override { cache_.reset(); }
  Status CloseNow() { return Cache::Close(std::move(cache_)); }

  std::atomic<Broken> broken_{Broken::kNothing};
  const std::thread::id self_ = std::this_thread::get_id();
};

TEST_F(CacheSettleTest, WithAGoodDiskAllIsSettledAtOnce) {
  EXPECT_TRUE(cache_->Erase("old"));
  EXPECT_TRUE(cache_->FlushDeletes(std::chrono::seconds(5)));
  EXPECT_EQ(cache_->stats().disk.files.deletes_pending, 0U);
  EXPECT_EQ(cache_->stats().disk.files.delete_flush_failures, 0U);
  EXPECT_TRUE(CloseNow());
}

// The journal still has the blobs that the tier dropped by itself: later writes wait
// until it does not, whether they find their key or not.
TEST_F(CacheSettleTest, AWriteOfAKeyThatHadBeenDestroyedIsSettledToo) {
  cache_.reset();
  options_.host_capacity.reset();
  options_.idle_critical = Duration(1);
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Eventually([&](const Stats& stats) { return stats.entries == 2; }));
  broken_ = Broken::kWrites;
  disk_pressure_->Set(0.97);
  ASSERT_TRUE(Eventually([&](const Stats& stats) { return stats.entries == 0; }));
  disk_pressure_->Set(0.1);
  const auto failures = [&] { return cache_->stats().disk.files.delete_flush_failures; };
  const std::uint64_t before = failures();
  EXPECT_FALSE(cache_->Erase("old"));
  EXPECT_EQ(failures(), before + 1) << "the erase has asked the disk, and was told";
  ASSERT_TRUE(Set("old", "new"));
  EXPECT_EQ(failures(), before + 2) << "and so has the set";
  ASSERT_TRUE(Set("old", "newer"));
  EXPECT_EQ(failures(), before + 3) << "the value it replaced was never on disk";
  cache_->Clear();
  EXPECT_EQ(failures(), before + 4);
  broken_ = Broken::kNothing;
  EXPECT_TRUE(CloseNow());
}

TEST_F(CacheSettleTest, WithoutADiskThereIsNothingToSettle) {
  cache_.reset();
  options_.disk_dir.clear();
  options_.disk_capacity.reset();
  Open();
  ASSERT_TRUE(Set("a", "1"));
  EXPECT_TRUE(cache_->Erase("a"));
  EXPECT_TRUE(cache_->FlushDeletes(Duration::max()));
  EXPECT_TRUE(CloseNow());
  EXPECT_TRUE(Cache::Close(nullptr));
}

TEST_F(CacheSettleTest, ADiskThatTakesNothingIsSaidEverywhere) {
  broken_ = Broken::kAll;
  EXPECT_TRUE(cache_->Erase("old")) << "it is done in any case";
  EXPECT_EQ(Get("old"), "(miss)");
  const Status settled = cache_->FlushDeletes(std::chrono::seconds(5));
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().code, Code::kUnavailable);
  EXPECT_THAT(settled.error().message, HasSubstr("an older one may be found"));
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.disk.files.deletes_pending, 1U);
  EXPECT_GE(stats.disk.files.delete_flush_failures, 2U) << "of the erase, and of the question";
  EXPECT_THAT(cache_->Explain("old"), HasSubstr("after a restart an older one may be found"));
  broken_ = Broken::kNothing;
  EXPECT_TRUE(cache_->FlushDeletes(std::chrono::seconds(5)));
  EXPECT_EQ(cache_->stats().disk.files.deletes_pending, 0U);
  EXPECT_THAT(cache_->Explain("old"), Not(HasSubstr("after a restart")));
  EXPECT_TRUE(CloseNow());
  Open();
  EXPECT_EQ(Get("old"), "(miss)");
  EXPECT_EQ(Get("stays"), Bulk("stays", 100'000));
}

TEST_F(CacheSettleTest, WhoeverClosesIsToldThatOlderValuesMayComeBack) {
  broken_ = Broken::kAll;
  ASSERT_TRUE(Set("old", Bulk("old", 1000, 1)));
  const Status closed = CloseNow();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::kUnavailable);
  EXPECT_THAT(closed.error().message, HasSubstr("older values may be found"));
  EXPECT_THAT(closed.error().message, HasSubstr(options_.disk_dir));
}

TEST_F(CacheSettleTest, ClosingStartsColdNextTimeRatherThanWithOldValues) {
  broken_ = Broken::kWrites;
  ASSERT_TRUE(Set("old", Bulk("old", 1000, 1)));
  const Status closed = CloseNow();
  ASSERT_FALSE(closed);
  EXPECT_THAT(closed.error().message, HasSubstr("was reset"));
  broken_ = Broken::kNothing;
  Open();
  EXPECT_EQ(Get("old"), "(miss)");
  EXPECT_EQ(Get("stays"), "(miss)");
  EXPECT_TRUE(CloseNow());
}

TEST_F(CacheSettleTest, WhatCouldNotBeReadInIsGivenUpOnceAKeyIsSet) {
  EXPECT_TRUE(CloseNow());
  broken_ = Broken::kReads;
  Open();
  EXPECT_EQ(cache_->stats().disk.files.voided, 0U);
  ASSERT_TRUE(Set("old", Bulk("old", 1000, 1)));
  broken_ = Broken::kNothing;
  EXPECT_TRUE(cache_->FlushDeletes(std::chrono::seconds(5)));
  EXPECT_EQ(cache_->stats().disk.files.voided, 1U);
  (void)CloseNow();
  Open();
  EXPECT_EQ(Get("old"), "(miss)");
}

TEST_F(CacheSettleTest, WhatCouldNotBeReadInStaysIfNothingIsSet) {
  EXPECT_TRUE(CloseNow());
  broken_ = Broken::kReads;
  Open();
  (void)cache_->Get("old");
  broken_ = Broken::kNothing;
  EXPECT_TRUE(CloseNow());
  Open();
  EXPECT_EQ(Get("old"), Bulk("old", 100'000));
  EXPECT_EQ(Get("stays"), Bulk("stays", 100'000));
}

TEST_F(CacheSettleTest, AnEraseOfWhatCouldNotBeReadInCountsToo) {
  EXPECT_TRUE(CloseNow());
  broken_ = Broken::kReads;
  Open();
  (void)cache_->Get("old");  // Waits for the disk.
  EXPECT_FALSE(cache_->Erase("old"));
  broken_ = Broken::kNothing;
  (void)CloseNow();
  Open();
  EXPECT_EQ(Get("old"), "(miss)");
}

}  // namespace
}  // namespace spillway
