// SPDX-License-Identifier: Apache-2.0
// Every file call of a scripted run fails, once and for good: nothing crashes,
// no byte is wrong, no descriptor leaks, and durable blobs stay durable.
#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

using testing::Check;
using testing::FactsOf;
using testing::FileCall;
using ::testing::HasSubstr;
using Health = BlobStore::Health;

class DiskFaultTest : public testing::DiskStoreTest {
 protected:
  // Opens, writes, frees, reads, syncs, closes, opens again. Failures are
  // ignored; successful reads must be correct.
  void Play() {
    options_.journal_slack = kKiB;
    for (int life = 0; life < 2; ++life) {
      auto opened = DiskStore::Open(options_);
      if (!opened) continue;
      store_ = std::move(*opened);
      found_ = testing::LoadAll(store_.get());
      for (const auto& [key, found] : found_) (void)Check(store_.get(), found.id, found.facts);
      std::vector<std::pair<BlobId, BlobFacts>> ours;
      for (int i = 0; i < 4; ++i) {
        const BlobFacts facts =
            FactsOf(fmt::format("key {}", i), 4000U * static_cast<Bytes>(i * i), ++generation_);
        if (const auto found = found_.find(facts.key); found != found_.end()) {
          store_->Free(found->second.id);
        }
        if (const auto id = testing::Put(store_.get(), facts)) ours.emplace_back(*id, facts);
        if (i == 1 && !ours.empty()) {
          store_->Free(ours.back().first);
          ours.pop_back();
        }
        if (i == 2) store_->RunBackground();
      }
      for (const auto& [id, facts] : ours) (void)Check(store_.get(), id, facts);
      (void)store_->Sync();
      store_->RunBackground();
      store_.reset();
    }
  }
  // With working files again, the store opens, and all its blobs are correct.
  void Recover() {
    faulty_->Heal();
    Reopen();
    ASSERT_EQ(store_->health(), Health::kGood) << store_->why();
    for (const auto& [key, found] : found_) {
      const Status status = Check(store_.get(), found.id, found.facts);
      EXPECT_TRUE(status || status.error().code == Code::kCorrupt) << status.error().message;
    }
    const BlobFacts facts = FactsOf("after all", 10'000);
    ExpectGood(MustPut(facts), facts);
    store_.reset();
  }
  void StartAnew() {
    store_.reset();
    EXPECT_EQ(faulty_->open_files(), 0);
    options_.directory = fmt::format("/disk/{}", ++directory_);
  }

  std::uint64_t generation_ = 0;
  int directory_ = 0;
};

TEST_F(DiskFaultTest, EveryCallMayFail) {
  StartAnew();
  const std::uint64_t before = faulty_->calls();
  Play();
  const std::uint64_t calls = faulty_->calls() - before;
  ASSERT_GT(calls, 80U);
  for (const int error : {EIO, ENOSPC}) {
    for (const bool for_good : {false, true}) {
      for (std::uint64_t n = 0; n < calls; ++n) {
        SCOPED_TRACE(fmt::format("call {} of {}, errno {}, {}", n, calls, error,
                                 for_good ? "for good" : "once"));
        StartAnew();
        faulty_->FailAt(faulty_->calls() + n, error, for_good);
        Play();
        ASSERT_NO_FATAL_FAILURE(Recover());
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(DiskFaultTest, WhatWasSyncedSurvivesEveryFaultThatFollows) {
  StartAnew();
  Reopen();
  const BlobFacts durable = FactsOf("durable", 20'000);
  MustPut(durable);
  ASSERT_TRUE(store_->Sync());
  const std::uint64_t before = faulty_->calls();
  Play();
  const std::uint64_t calls = faulty_->calls() - before;
  for (std::uint64_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(fmt::format("call {} of {}", n, calls));
    StartAnew();
    Reopen();
    MustPut(durable);
    ASSERT_TRUE(store_->Sync());
    store_.reset();
    faulty_->FailAt(faulty_->calls() + n, EIO, n % 2 == 0);
    Play();
    faulty_->Heal();
    Reopen();
    ASSERT_TRUE(found_.contains("durable"));
    ExpectGood(found_.at("durable").id, durable);
    if (HasFailure()) return;
  }
}

TEST_F(DiskFaultTest, AFailedSyncOfTheDataLosesWhatCameSinceTheLastGoodOne) {
  Reopen();
  const BlobFacts safe = FactsOf("safe", 9000);
  const BlobFacts lost = FactsOf("lost", 9000);
  const BlobId safe_id = MustPut(safe);
  ASSERT_TRUE(store_->Sync());
  const BlobId lost_id = MustPut(lost);
  bool once = true;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    return call == FileCall::kSync && std::exchange(once, false) ? EIO : 0;
  });
  const Status status = store_->Sync();
  ASSERT_FALSE(status);
  faulty_->Heal();
  EXPECT_EQ(store_->health(), Health::kReadOnly);
  EXPECT_THAT(store_->why(), HasSubstr("sync"));
  EXPECT_EQ(store_->stats().sync_failures, 1U);
  EXPECT_FALSE(store_->Sync()) << "a second try is not believed";
  ExpectGood(safe_id, safe);
  EXPECT_EQ(Failure(lost_id, lost), Code::kCorrupt);
  EXPECT_EQ(store_->Allocate(FactsOf("new", 1)).error().code, Code::kUnavailable);
  store_->Free(lost_id);
  Reopen();
  EXPECT_EQ(store_->health(), Health::kGood);
  EXPECT_TRUE(found_.contains("safe"));
  EXPECT_FALSE(found_.contains("lost"));
}

TEST_F(DiskFaultTest, AWriteInFlightWhenASyncFailsIsNotPublished) {
  Reopen();
  MustPut(FactsOf("before", 10));
  const BlobFacts facts = FactsOf("in flight", 2 * kMiB);
  const auto id = store_->Allocate(facts);
  ASSERT_TRUE(id);
  int writes = 0;
  bool failing = false;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    if (call == FileCall::kSync && failing) return EIO;
    if (call == FileCall::kWrite && ++writes == 2) {
      failing = true;
      EXPECT_FALSE(store_->Sync());  // In the middle of the value.
      failing = false;
    }
    return 0;
  });
  const auto value = testing::ValueOf(facts);
  const Source source(value.data(), value.size());
  const Status status = store_->Write(*id, facts, Seal::Of(source), source, nullptr);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  faulty_->Heal();
  Reopen();
  EXPECT_TRUE(found_.empty());
}

TEST_F(DiskFaultTest, AFailedSyncOfTheJournalIsMendedByANewOne) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 9000);
  MustPut(facts);
  int syncs = 0;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    return call == FileCall::kSync && ++syncs == 2 ? EIO : 0;
  });
  EXPECT_TRUE(store_->Sync());
  faulty_->Heal();
  EXPECT_EQ(store_->health(), Health::kGood);
  EXPECT_EQ(store_->stats().sync_failures, 1U);
  EXPECT_FALSE(memory_->Content("/disk/store/journal-2").empty());
  Reopen();
  ExpectGood(found_.at("a").id, facts);
}

TEST_F(DiskFaultTest, AJournalThatCanNotBeMendedMakesItReadOnly) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 9000);
  const BlobId id = MustPut(facts);
  int syncs = 0;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    return call == FileCall::kSync && ++syncs >= 2 ? EIO : 0;
  });
  EXPECT_FALSE(store_->Sync());
  EXPECT_EQ(store_->health(), Health::kReadOnly);
  ExpectGood(id, facts);
  faulty_->Heal();
}

TEST_F(DiskFaultTest, AFailedWriteOfTheJournalPublishesNothing) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 9000);
  const auto id = store_->Allocate(facts);
  ASSERT_TRUE(id);
  const auto value = testing::ValueOf(facts);
  const Source source(value.data(), value.size());
  int writes = 0;
  // Header, value, and then the record.
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    return call == FileCall::kWrite && ++writes == 3 ? EIO : 0;
  });
  EXPECT_FALSE(store_->Write(*id, facts, Seal::Of(source), source, nullptr));
  EXPECT_EQ(store_->stats().io_errors, 1U);
  faulty_->Heal();
  ASSERT_TRUE(store_->Write(*id, facts, Seal::Of(source), source, nullptr));
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  ExpectGood(found_.at("a").id, facts);
}

TEST_F(DiskFaultTest, ATailThatCanNotBeTakenBackIsNotWrittenBehind) {
  Reopen();
  faulty_->SetWriteMax(30);  // Half of a record is written.
  int journal_writes = 0;
  const BlobFacts first = FactsOf("a", 0);
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    if (call == FileCall::kTruncate) return EIO;
    // 137 writes of 30 bytes make a header of 4096.
    return call == FileCall::kWrite && ++journal_writes == 139 ? EIO : 0;
  });
  EXPECT_FALSE(testing::Put(store_.get(), first));
  faulty_->Heal();
  faulty_->SetWriteMax(0);
  EXPECT_FALSE(testing::Put(store_.get(), first)) << "the journal is broken";
  store_->RunBackground();
  EXPECT_EQ(store_->health(), Health::kGood);
  const BlobId id = MustPut(first);
  ExpectGood(id, first);
  Reopen();
  EXPECT_EQ(found_.size(), 1U);
}

TEST_F(DiskFaultTest, ShortWritesAreFinished) {
  faulty_->SetWriteMax(1000);
  Reopen();
  const BlobFacts facts = FactsOf("a", 123'456);
  ExpectGood(MustPut(facts), facts);
  Reopen();
  ExpectGood(found_.at("a").id, facts);
}

TEST_F(DiskFaultTest, ABitFlippedOnTheWayIsSeen) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 123'456);
  const BlobId id = MustPut(facts);
  faulty_->FlipOnRead(12'345);
  EXPECT_EQ(Failure(id, facts), Code::kCorrupt);
  faulty_->FlipNothing();
  ExpectGood(id, facts);
  const BlobFacts other = FactsOf("b", 123'456);
  const auto other_id = store_->Allocate(other);
  ASSERT_TRUE(other_id);
  const auto value = testing::ValueOf(other);
  const Source source(value.data(), value.size());
  faulty_->FlipOnWrite(20'000);  // Beyond the journal's records.
  ASSERT_TRUE(store_->Write(*other_id, other, Seal::Of(source), source, nullptr));
  faulty_->FlipNothing();
  EXPECT_EQ(Failure(*other_id, other), Code::kCorrupt);
}

TEST_F(DiskFaultTest, AReadErrorIsNoCorruption) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 5000);
  const BlobId id = MustPut(facts);
  faulty_->FailAll(FileCall::kRead, EIO);
  EXPECT_EQ(Failure(id, facts), Code::kUnavailable);
  EXPECT_EQ(store_->stats().io_errors, 1U);
  EXPECT_EQ(store_->stats().corrupt, 0U);
  faulty_->Heal();
  ExpectGood(id, facts);
}

TEST_F(DiskFaultTest, AJournalThatCanNotBeReadIsLeftAlone) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 5000);
  MustPut(facts);
  store_.reset();
  auto opened = DiskStore::Open(options_);
  ASSERT_TRUE(opened);
  store_ = std::move(*opened);
  faulty_->FailAll(FileCall::kRead, EIO);
  EXPECT_TRUE(testing::LoadAll(store_.get()).empty());
  EXPECT_EQ(store_->health(), Health::kDown);
  EXPECT_THAT(store_->why(), HasSubstr("journal-1"));
  faulty_->Heal();
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  ExpectGood(found_.at("a").id, facts);
}

TEST_F(DiskFaultTest, AFileCutShortIsCorruptNowAndAbsentLater) {
  Reopen();
  const BlobFacts a = FactsOf("a", 100);
  const BlobFacts b = FactsOf("b", 5000);
  const BlobId a_id = MustPut(a);
  const BlobId b_id = MustPut(b);
  auto content = memory_->Content("/disk/store/blobs");
  content.resize(3 * kPageBytes);  // All of a and one page of b.
  memory_->SetContent("/disk/store/blobs", content);
  ExpectGood(a_id, a);
  EXPECT_EQ(Failure(b_id, b), Code::kCorrupt);
  Reopen();
  EXPECT_EQ(found_.size(), 1U);
  EXPECT_EQ(store_->stats().recovery_rejected, 1U);
  ExpectGood(found_.at("a").id, a);
}

}  // namespace
}  // namespace spillway
