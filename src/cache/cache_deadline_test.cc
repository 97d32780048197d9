// SPDX-License-Identifier: Apache-2.0
// Deadlines change wherever a value is: without any room for it and without writing the
// value again. An acknowledged change holds after a restart.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "cache/direct.h"
#include "cache/testing/tiers_fixture.h"
#include "tier/disk/testing/faulty_files.h"

namespace spillway {
namespace {

using namespace std::chrono_literals;
using testing::Bulk;
using testing::FaultyFiles;
using testing::FileCall;
using testing::TiersTest;

class CacheDeadlineTest : public TiersTest {
 protected:
  // 4 MiB of memory, and values that only the disk holds.
  void FillBeyondMemory() {
    options_.capacity = 2 * kMiB;
    options_.host_capacity = 2 * kMiB;
    ASSERT_TRUE(Open().Start());
    ASSERT_TRUE(Set("large", Bulk("large", 6 * kMiB)));  // Larger than all memory.
    for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(Set(KeyOf(i), Bulk(KeyOf(i), kMiB)));
    ASSERT_TRUE(AllBacked());
    cache_->Stop();
  }
  static std::string KeyOf(int i) { return "k" + std::to_string(i); }
  TimePoint In(Duration time) { return Direct(cache_.get()).Now() + time; }
  void Change(std::string_view key, TimePoint deadline) {
    Direct direct(cache_.get());
    ASSERT_EQ(direct.ChangeDeadline(key, deadline), Direct::Changed::kYes) << key;
    EXPECT_EQ(direct.DeadlineOf(key), deadline) << key;
  }
  // Minutes until a deadline that is a minute or more away; -1: it has none.
  std::int64_t MinutesLeft(std::string_view key) {
    Direct direct(cache_.get());
    const auto deadline = direct.DeadlineOf(key);
    if (!deadline) return 0;
    if (*deadline == TimePoint::max()) return -1;
    return std::chrono::round<std::chrono::minutes>(*deadline - direct.Now()).count();
  }
  void Reopen() {
    ASSERT_TRUE(Cache::Close(std::move(cache_)));
    ASSERT_TRUE(Open().Start());
    ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  }
  static constexpr int kKeys = 12;
};

TEST_F(CacheDeadlineTest, OfValuesThatOnlyTheDiskHasAndOfThoseLargerThanMemory) {
  FillBeyondMemory();
  const FileStats before = cache_->stats().disk.files;
  for (int i = 0; i < kKeys; ++i) Change(KeyOf(i), In(i % 3 == 0 ? 500min : 100min));
  for (int i = 0; i < kKeys; i += 4) Change(KeyOf(i), TimePoint::max());
  Change("large", In(300min));
  ASSERT_TRUE(cache_->FlushDeletes(5s));
  const FileStats after = cache_->stats().disk.files;
  EXPECT_EQ(after.value_written, before.value_written);
  EXPECT_LT(after.written - before.written, 64 * kKiB);
  Reopen();
  for (int i = 0; i < kKeys; ++i) {
    EXPECT_EQ(MinutesLeft(KeyOf(i)), i % 4 == 0 ? -1 : i % 3 == 0 ? 500 : 100) << i;
    EXPECT_EQ(Get(KeyOf(i)), Bulk(KeyOf(i), kMiB));
  }
  EXPECT_EQ(MinutesLeft("large"), 300);
}

TEST_F(CacheDeadlineTest, OfAValueThatIsReadAndIsOnDiskToo) {
  FillBeyondMemory();
  auto lease = cache_->Get("k3");
  ASSERT_TRUE(lease && *lease);
  const std::byte* const where = (*lease)->data();
  Change("k3", In(200min));
  EXPECT_EQ((*lease)->data(), where);
  EXPECT_EQ((*lease)->text(), Bulk("k3", kMiB));
  (*lease)->Release();
  ASSERT_TRUE(cache_->FlushDeletes(5s));
  Reopen();
  EXPECT_EQ(MinutesLeft("k3"), 200);
}

TEST_F(CacheDeadlineTest, OneThatIsOverStaysOverAfterARestart) {
  FillBeyondMemory();
  Change("k1", In(100min));
  ASSERT_EQ(Direct(cache_.get()).ChangeDeadline("k1", In(1ns)), Direct::Changed::kYes);
  ASSERT_TRUE(cache_->FlushDeletes(5s));
  EXPECT_EQ(Get("k1"), "(miss)");
  Reopen();
  EXPECT_EQ(Get("k1"), "(miss)");
  EXPECT_EQ(Get("k2"), Bulk("k2", kMiB));
}

TEST_F(CacheDeadlineTest, WhereTheDiskTakesNothingItIsOwedAndSaid) {
  auto files = std::make_shared<FaultyFiles>(RealFiles());
  // Closing writes too, after this function has returned.
  const auto shared = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool>& broken = *shared;
  files->SetScript([shared](FileCall call, std::uint64_t, int) {
    return *shared && call == FileCall::kWrite ? EIO : 0;
  });
  seams_.files = files;
  FillBeyondMemory();
  broken = true;
  Change("k1", In(100min));
  EXPECT_TRUE(Direct(cache_.get()).has_pending_deletes());
  EXPECT_FALSE(cache_->FlushDeletes(5s));
  EXPECT_EQ(cache_->stats().disk.files.deletes_pending, 1U);
  broken = false;
  EXPECT_TRUE(cache_->FlushDeletes(5s));
  EXPECT_EQ(cache_->stats().disk.files.deletes_pending, 0U);
  Reopen();
  EXPECT_EQ(MinutesLeft("k1"), 100);
}

}  // namespace
}  // namespace spillway
