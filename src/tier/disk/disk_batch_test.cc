// SPDX-License-Identifier: Apache-2.0
// Batches: several blobs in few calls, each with a result of its own.
#include <cerrno>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

using testing::FactsOf;
using testing::FileCall;
using ::testing::HasSubstr;

class DiskBatchTest : public testing::DiskStoreTest {
 protected:
  struct One {
    BlobFacts facts;
    std::vector<std::byte> value;
    Seal seal;
    std::atomic<bool> cancelled{false};
  };

  DiskBatchTest() { Reopen(); }

  void Add(const std::string& key, Bytes size) {
    auto one = std::make_unique<One>();
    one->facts = FactsOf(key, size);
    one->value = testing::ValueOf(one->facts);
    const auto id = store_->Allocate(one->facts);
    ASSERT_TRUE(id) << id.error().message;
    writes_.push_back({.id = *id,
                       .facts = &one->facts,
                       .seal = &one->seal,
                       .source = Source(one->value.data(), one->value.size()),
                       .cancelled = &one->cancelled});
    ones_.push_back(std::move(one));
  }
  void AddMany(int count, Bytes size = 100) {
    for (int i = 0; i < count; ++i) Add(fmt::format("key {}", i), size);
  }
  void Write() {
    store_->WriteBatch(writes_);
    store_->VerifyBatch(writes_);
  }
  // How many writes have this result; every byte of each good one is checked.
  std::size_t Count(std::optional<Code> code) {
    std::size_t count = 0;
    for (const BlobWrite& one : writes_) {
      const bool is =
          code ? !one.status && one.status.error().code == *code : one.status.has_value();
      if (!is) continue;
      ++count;
      if (one.status) ExpectGood(one.id, *one.facts);
    }
    return count;
  }
  std::size_t Good() { return Count(std::nullopt); }
  // Like the engine: frees all blobs that were not written.
  void FreeTheRest() {
    for (const BlobWrite& one : writes_) {
      if (!one.status) store_->Free(one.id);
    }
  }
  void ExpectFoundAgain(std::size_t count) {
    Reopen();
    EXPECT_EQ(found_.size(), count);
    for (const BlobWrite& one : writes_) {
      const auto found = found_.find(one.facts->key);
      EXPECT_EQ(found != found_.end(), one.status.has_value()) << one.facts->key;
      if (found != found_.end()) ExpectGood(found->second.id, *one.facts);
    }
  }

  std::vector<std::unique_ptr<One>> ones_;
  std::vector<BlobWrite> writes_;
};

TEST_F(DiskBatchTest, AllOfThemAreReadAndFoundAgain) {
  const Bytes sizes[] = {0, 1, 100, 4095, 4096, 4097, 30'000, 100'000, 400'000};
  for (int i = 0; i < 200; ++i) Add(fmt::format("key {}", i), sizes[i % 9]);
  Write();
  EXPECT_EQ(Good(), 200U);
  EXPECT_EQ(store_->stats().writes, 200U);
  ExpectFoundAgain(200);
}

TEST_F(DiskBatchTest, SmallBlobsSideBySideTakeFewCalls) {
  AddMany(1000);
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    writes += call == FileCall::kWrite ? 1 : 0;
    reads += call == FileCall::kRead ? 1 : 0;
    return 0;
  });
  Write();
  faulty_->Heal();
  EXPECT_EQ(Good(), 1000U);
  // A MiB has 128 blobs of two pages: eight groups, and for each a write to the
  // journal and one to its mirror.
  EXPECT_EQ(writes, 24U);
  EXPECT_EQ(reads, 8U);
}

TEST_F(DiskBatchTest, InPiecesOfFreeSpaceEachGoesWhereThereIsRoom) {
  AddMany(100);
  std::vector<BlobId> others;
  Write();
  for (std::size_t i = 0; i < writes_.size(); i += 2) store_->Free(writes_[i].id);
  writes_.clear();
  for (int i = 0; i < 80; ++i) Add(fmt::format("new {}", i), 50);
  Write();
  EXPECT_EQ(Good(), 80U);
  Reopen();
  EXPECT_EQ(found_.size(), 130U);
}

TEST_F(DiskBatchTest, WhereTheCommonWriteFailsEachIsWrittenAlone) {
  AddMany(100);
  bool failed = false;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    return call == FileCall::kWrite && !std::exchange(failed, true) ? EIO : 0;
  });
  Write();
  faulty_->Heal();
  EXPECT_TRUE(failed);
  EXPECT_EQ(Good(), 100U);
  ExpectFoundAgain(100);
}

TEST_F(DiskBatchTest, ABlobThatCantBeWrittenCostsNoOther) {
  AddMany(100);
  int call_number = 0;  // The first write is of all blobs; then each has a value and a header.
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    if (call != FileCall::kWrite) return 0;
    ++call_number;
    return call_number == 1 || call_number == 2 ? EIO : 0;
  });
  Write();
  faulty_->Heal();
  EXPECT_EQ(Good(), 99U);
  EXPECT_EQ(Count(Code::kUnavailable), 1U);
  FreeTheRest();
  ExpectFoundAgain(99);
}

TEST_F(DiskBatchTest, DamageOnTheWayIsSeenAndCostsNoOther) {
  AddMany(100);
  // In the value of the tenth blob: header and value are a page each.
  faulty_->FlipOnWrite((Bytes{9} * 2 * kPageBytes + kPageBytes) * 8 + 5);
  Write();
  faulty_->FlipNothing();
  EXPECT_EQ(Good(), 99U);
  ASSERT_EQ(Count(Code::kCorrupt), 1U);
  EXPECT_THAT(writes_[9].status.error().message, HasSubstr("the value is damaged"));
  EXPECT_EQ(store_->stats().corrupt, 1U);
}

TEST_F(DiskBatchTest, DamageToZerosBehindAValueIsSeen) {
  AddMany(10);
  faulty_->FlipOnWrite((Bytes{4} * 2 * kPageBytes + kPageBytes + 200) * 8);
  Write();
  faulty_->FlipNothing();
  EXPECT_EQ(Good(), 9U);
  ASSERT_FALSE(writes_[4].status);
  EXPECT_THAT(writes_[4].status.error().message, HasSubstr("what follows the value"));
}

TEST_F(DiskBatchTest, CancelledOrTombstonedOnesAreNotWritten) {
  AddMany(20);
  ones_[3]->cancelled = true;
  store_->Tombstone(writes_[7].id);
  Write();
  EXPECT_EQ(Good(), 18U);
  EXPECT_EQ(Count(Code::kCancelled), 2U);
  FreeTheRest();
  ExpectFoundAgain(18);
}

TEST_F(DiskBatchTest, OnesThatMayNotBeWrittenAreNamedAndCostNoOther) {
  AddMany(10);
  writes_[2].id = 12345;                                          // No such blob.
  writes_[5].source = Source(ones_[5]->value.data(), Bytes{50});  // Too short.
  Write();
  EXPECT_EQ(Good(), 8U);
  EXPECT_EQ(Count(Code::kInvalidArgument), 2U);
}

TEST_F(DiskBatchTest, OnAFullFileSystemNoneIsWritten) {
  AddMany(10);
  faulty_->FailAll(FileCall::kAllocate, ENOSPC);
  Write();
  faulty_->Heal();
  EXPECT_EQ(Count(Code::kNoMemory), 10U);
  EXPECT_TRUE(store_->is_out_of_space());
  clock_->Advance(std::chrono::seconds(2));
  EXPECT_FALSE(store_->is_out_of_space());
  Write();  // The failed write left nothing half done.
  EXPECT_EQ(Good(), 10U);
  ExpectFoundAgain(10);
}

TEST_F(DiskBatchTest, WithoutTheJournalNoneIsPublished) {
  AddMany(10);
  int call_number = 0;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    return call == FileCall::kWrite && ++call_number > 1 ? EIO : 0;
  });
  Write();
  faulty_->Heal();
  EXPECT_EQ(Good(), 0U);
  EXPECT_EQ(Count(Code::kUnavailable), 10U);
  FreeTheRest();
  ExpectFoundAgain(0);
}

TEST_F(DiskBatchTest, OfAStoreThatIsReadOnlyAllAreRefused) {
  AddMany(10);
  MustPut(FactsOf("before", 100));  // So that there is something to sync.
  faulty_->FailAll(FileCall::kSync, EIO);
  EXPECT_FALSE(store_->Sync());
  faulty_->Heal();
  Write();
  EXPECT_EQ(Count(Code::kUnavailable), 10U);
}

}  // namespace
}  // namespace spillway
