// SPDX-License-Identifier: Apache-2.0
// Deleted blobs stay deleted, whatever the disk still accepts. If it accepts
// nothing at all, the caller of Close is told.
#include <cerrno>
#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

using testing::FactsOf;
using testing::FileCall;
using ::testing::HasSubstr;
using Health = BlobStore::Health;

class DiskSettleTest : public testing::DiskStoreTest {
 protected:
  // A store with two blobs, one of them just freed.
  void SetUp() override {
    Reopen();
    // Only the data file gets space allocated; the first write of a flush goes
    // to the journal.
    faulty_->SetScript([this](FileCall call, std::uint64_t, int file) {
      if (call == FileCall::kAllocate) data_ = file;
      if (call == FileCall::kWrite && file != data_) journal_ = file;
      return 0;
    });
    gone_id_ = MustPut(gone_);
    MustPut(stays_);
    ASSERT_TRUE(store_->Sync());
    faulty_->Heal();
    ASSERT_NE(data_, journal_);
  }
  // From now on the calls that `fails` names fail.
  void Fail(std::function<bool(FileCall call, int file)> fails, int error = ENOSPC) {
    faulty_->SetScript([fails = std::move(fails), error](FileCall call, std::uint64_t, int file) {
      return fails(call, file) ? error : 0;
    });
  }
  // Closes while calls fail, and opens with working files.
  Status CloseAndReopen() {
    Status closed = store_->Close();
    last_ = store_->stats();
    faulty_->Heal();
    Reopen();
    EXPECT_EQ(store_->health(), Health::kGood) << store_->why();
    return closed;
  }
  void ExpectStays() {
    ASSERT_TRUE(found_.contains("stays"));
    ExpectGood(found_.at("stays").id, stays_);
  }
  void ExpectCold(const Status& closed) {
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, Code::kUnavailable);
    EXPECT_THAT(closed.error().message, HasSubstr("reset"));
    EXPECT_EQ(last_.voided, 1U);
    EXPECT_EQ(last_.deletes_pending, 0U);
    EXPECT_TRUE(found_.empty());
    const BlobFacts facts = FactsOf("after all", 10'000);
    ExpectGood(MustPut(facts), facts);
  }

  const BlobFacts gone_ = FactsOf("gone", 9000);
  const BlobFacts stays_ = FactsOf("stays", 20'000);
  BlobId gone_id_ = kNoBlob;
  int data_ = -1;
  int journal_ = -1;
  BlobStoreStats last_;
};

TEST_F(DiskSettleTest, WhatCanNotBeToldIsOwedUntilItCan) {
  Fail([](FileCall call, int) { return call == FileCall::kWrite; }, EIO);
  store_->Free(gone_id_);
  EXPECT_TRUE(store_->has_pending_deletes());
  EXPECT_FALSE(store_->FlushDeletes(std::chrono::seconds(1)));
  EXPECT_EQ(store_->stats().deletes_pending, 1U);
  EXPECT_EQ(store_->stats().delete_flush_failures, 1U);
  EXPECT_THAT(store_->pending_why(), HasSubstr("journal-1"));
  EXPECT_FALSE(testing::Put(store_.get(), FactsOf("other", 9000)))
      << "its place may not be written over yet";
  faulty_->Heal();
  EXPECT_TRUE(store_->FlushDeletes(std::chrono::seconds(1)));
  EXPECT_EQ(store_->stats().deletes_pending, 0U);
  EXPECT_EQ(store_->pending_why(), "");
  EXPECT_FALSE(store_->has_pending_deletes());
  EXPECT_TRUE(CloseAndReopen());
  EXPECT_FALSE(found_.contains("gone"));
  ExpectStays();
}

TEST_F(DiskSettleTest, ManyThousandsAreToldInOneGo) {
  std::vector<BlobId> ids;
  for (int i = 0; i < 5000; ++i) {
    ids.push_back(MustPut(FactsOf(fmt::format("key {}", i), 0)));
  }
  for (const BlobId id : ids) store_->Free(id);
  EXPECT_EQ(store_->stats().deletes_pending, 5000U);
  EXPECT_TRUE(store_->FlushDeletes(std::chrono::seconds(1)));
  EXPECT_EQ(store_->stats().deletes_pending, 0U);
  // Entries and extents are free again.
  for (int i = 0; i < 5000; ++i) MustPut(FactsOf(fmt::format("key {}", i), 0, 2));
  EXPECT_TRUE(CloseAndReopen());
  EXPECT_EQ(found_.size(), 5002U);
  EXPECT_EQ(found_.at("key 4999").facts.generation, 2U);
}

TEST_F(DiskSettleTest, OnAFullDiskWhatHasGoneIsSpoiledInItsPlace) {
  Fail([this](FileCall call, int file) { return call == FileCall::kWrite && file != data_; });
  store_->Tombstone(gone_id_);
  EXPECT_FALSE(store_->FlushDeletes(std::chrono::seconds(1))) << "somebody may be reading it";
  ExpectGood(gone_id_, gone_);
  store_->Free(gone_id_);
  EXPECT_TRUE(store_->FlushDeletes(std::chrono::seconds(1)));
  EXPECT_EQ(store_->stats().deletes_pending, 0U);
  EXPECT_FALSE(store_->has_pending_deletes());
  const Status closed = CloseAndReopen();
  EXPECT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(last_.voided, 0U);
  ExpectStays();
  // The journal still has its record, but it is not served.
  ASSERT_TRUE(found_.contains("gone"));
  EXPECT_EQ(Failure(found_.at("gone").id, gone_), Code::kCorrupt);
}

TEST_F(DiskSettleTest, WhatWasSpoiledIsToldWhenThatCanBeDone) {
  Fail([this](FileCall call, int file) { return call == FileCall::kWrite && file != data_; });
  store_->Free(gone_id_);
  EXPECT_TRUE(store_->FlushDeletes(std::chrono::seconds(1)));
  faulty_->Heal();
  const BlobFacts other = FactsOf("other", 9000);  // Reuses the extent.
  ExpectGood(MustPut(other), other);
  EXPECT_TRUE(CloseAndReopen());
  EXPECT_FALSE(found_.contains("gone"));
  ExpectGood(found_.at("other").id, other);
  ExpectStays();
}

TEST_F(DiskSettleTest, AtTheEndANewJournalLeavesItOut) {
  Fail([this](FileCall call, int file) { return call == FileCall::kWrite && file == journal_; });
  store_->Free(gone_id_);
  const Status closed = CloseAndReopen();
  EXPECT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(last_.deletes_pending, 0U);
  EXPECT_FALSE(found_.contains("gone"));
  ExpectStays();
}

TEST_F(DiskSettleTest, AtTheEndAJournalThatCanOnlyBeCutIsCut) {
  Fail([](FileCall call, int) { return call == FileCall::kWrite; });
  store_->Free(gone_id_);
  ExpectCold(CloseAndReopen());
}

TEST_F(DiskSettleTest, AtTheEndAJournalThatCanNotBeCutLosesItsHeader) {
  int writes = 0;
  // The journal's tail, a new journal and its mirror, the blob's page; then the
  // journal's header.
  Fail([&writes](FileCall call, int) {
    return call == FileCall::kTruncate || (call == FileCall::kWrite && ++writes <= 4);
  });
  store_->Free(gone_id_);
  ExpectCold(CloseAndReopen());
  EXPECT_EQ(writes, 5);
}

TEST_F(DiskSettleTest, AtTheEndAJournalThatCanNotBeWrittenIsRemoved) {
  Fail([](FileCall call, int) {
    return call == FileCall::kTruncate || call == FileCall::kWrite || call == FileCall::kOpen;
  });
  store_->Free(gone_id_);
  ExpectCold(CloseAndReopen());
}

TEST_F(DiskSettleTest, AJournalIsNotRemovedFromBeforeAnOlderOne) {
  // A new journal replaces the old one; the old one, which has "gone", cannot be removed.
  int syncs = 0;
  Fail([&syncs](FileCall call, int) {
    return call == FileCall::kRemove || (call == FileCall::kSync && ++syncs == 2);
  });
  const BlobFacts late = FactsOf("late", 100);
  MustPut(late);
  ASSERT_TRUE(store_->Sync());
  ASSERT_FALSE(memory_->Content("/disk/store/journal-2").empty());
  ASSERT_FALSE(memory_->Content("/disk/store/journal-1").empty());
  store_->Free(gone_id_);
  Fail([this](FileCall call, int file) {
    return (call == FileCall::kTruncate && file != data_) || call == FileCall::kWrite ||
           call == FileCall::kOpen;
  });
  // Only the data file can still be truncated.
  ExpectCold(CloseAndReopen());
}

TEST_F(DiskSettleTest, WhereNothingCanBeDoneWhoeverClosesIsTold) {
  Fail([](FileCall, int) { return true; }, EIO);
  store_->Free(gone_id_);
  const Status closed = CloseAndReopen();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::kUnavailable);
  EXPECT_THAT(closed.error().message, HasSubstr("/disk/store"));
  EXPECT_THAT(closed.error().message, HasSubstr("older values may be found"));
  EXPECT_EQ(last_.deletes_pending, 1U);
  EXPECT_EQ(last_.delete_flush_failures, 1U);
  ExpectStays();
}

TEST_F(DiskSettleTest, WithNothingOwedTheEndLeavesAllAsItIs) {
  Fail([](FileCall call, int) { return call == FileCall::kWrite; });
  const Status closed = CloseAndReopen();
  EXPECT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(last_.voided, 0U);
  EXPECT_EQ(found_.size(), 2U);
}

TEST_F(DiskSettleTest, WhatCouldNotBeReadInIsGivenUpWhenSomeOfItHasGone) {
  store_.reset();
  auto opened = DiskStore::Open(options_);
  ASSERT_TRUE(opened);
  store_ = std::move(*opened);
  faulty_->FailAll(FileCall::kRead, EIO);
  EXPECT_FALSE(store_->has_unseen());
  EXPECT_TRUE(testing::LoadAll(store_.get()).empty());
  EXPECT_TRUE(store_->has_unseen());
  EXPECT_FALSE(store_->has_pending_deletes());
  store_->TombstoneUnseen();
  EXPECT_TRUE(store_->has_pending_deletes());
  EXPECT_EQ(store_->stats().deletes_pending, 1U);
  EXPECT_TRUE(store_->FlushDeletes(std::chrono::seconds(1)));
  EXPECT_FALSE(store_->has_unseen());
  EXPECT_EQ(store_->stats().voided, 1U);
  store_->TombstoneUnseen();  // Nothing is left to revoke.
  EXPECT_FALSE(store_->has_pending_deletes());
  faulty_->Heal();
  Reopen();
  EXPECT_EQ(store_->health(), Health::kGood);
  EXPECT_TRUE(found_.empty());
}

TEST_F(DiskSettleTest, WhatCouldNotBeReadInAndNotGivenUpIsTold) {
  store_.reset();
  auto opened = DiskStore::Open(options_);
  ASSERT_TRUE(opened);
  store_ = std::move(*opened);
  Fail([](FileCall, int) { return true; }, EIO);
  EXPECT_TRUE(testing::LoadAll(store_.get()).empty());
  store_->TombstoneUnseen();
  EXPECT_FALSE(store_->FlushDeletes(std::chrono::seconds(1)));
  const Status closed = CloseAndReopen();
  ASSERT_FALSE(closed);
  EXPECT_THAT(closed.error().message, HasSubstr("older values may be found"));
}

TEST(JournalHeader, AVoidOneReadsAsDamaged) {
  const auto bytes = VoidHeader();
  const auto header = DecodeJournalHeader(bytes);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_FALSE(header->has_value());
}

}  // namespace
}  // namespace spillway
