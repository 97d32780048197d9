// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/disk_store.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

using testing::FactsOf;
using testing::FileCall;
using ::testing::HasSubstr;
using testing::LoadAll;
using testing::Put;
using testing::ValueOf;
using Health = BlobStore::Health;

class DiskStoreTest : public testing::DiskStoreTest {};

constexpr Bytes kSizes[] = {0, 1, 4095, 4096, 4097, kMiB, kMiB + 1, 5 * kMiB};

TEST_F(DiskStoreTest, EverySizeComesBackNowAndAfterReopening) {
  Reopen();
  std::map<std::string, std::pair<BlobId, BlobFacts>> blobs;
  for (const Bytes size : kSizes) {
    const BlobFacts facts = FactsOf(fmt::format("key {}", size), size);
    blobs[facts.key] = {MustPut(facts), facts};
  }
  for (const auto& [key, blob] : blobs) ExpectGood(blob.first, blob.second);
  for (int round = 0; round < 2; ++round) {
    Reopen();
    ASSERT_EQ(found_.size(), std::size(kSizes));
    for (const auto& [key, found] : found_) ExpectGood(found.id, blobs.at(key).second);
  }
  EXPECT_EQ(store_->stats().recovered, std::size(kSizes));
  EXPECT_EQ(store_->stats().recovery_rejected, 0U);
}

TEST_F(DiskStoreTest, AllFactsComeBack) {
  BlobFacts facts = FactsOf(std::string("key\0with zero", 13), 10, 7);
  facts.tenant = "tenant";
  facts.agent = "agent";
  facts.meta = std::string(60'000, 'm');
  facts.parent = std::string(64 * kKiB, 'p');
  facts.parent_declared = true;
  facts.parent_generation = 6;
  facts.tokens = 1234;
  facts.access_count = 99;
  facts.expires_unix_ns = -5;
  facts.no_idle_ttl = true;
  Reopen();
  MustPut(facts);
  Reopen();
  ASSERT_TRUE(found_.contains(facts.key));
  const BlobFacts& found = found_.at(facts.key).facts;
  EXPECT_EQ(found.tenant, facts.tenant);
  EXPECT_EQ(found.generation, facts.generation);
  EXPECT_EQ(found.size, facts.size);
  EXPECT_EQ(found.tokens, facts.tokens);
  EXPECT_EQ(found.access_count, facts.access_count);
  EXPECT_EQ(found.agent, facts.agent);
  EXPECT_EQ(found.meta, facts.meta);
  EXPECT_TRUE(found.parent_declared);
  EXPECT_EQ(found.parent, facts.parent);
  EXPECT_EQ(found.parent_generation, facts.parent_generation);
  EXPECT_EQ(found.expires_unix_ns, facts.expires_unix_ns);
  EXPECT_EQ(found.no_idle_ttl, facts.no_idle_ttl);
  ExpectGood(found_.at(facts.key).id, facts);
}

TEST_F(DiskStoreTest, AValueInFragmentsIsOneOnDisk) {
  Reopen();
  const BlobFacts facts = FactsOf("fragments", 3 * kMiB + 77);
  const std::vector<std::byte> value = ValueOf(facts);
  std::vector<Fragment> fragments;
  Bytes at = 0;
  for (Bytes bytes = 1; at < value.size(); at += bytes, bytes = bytes * 5 + 1) {
    bytes = std::min(bytes, value.size() - at);
    fragments.push_back({value.data() + at, bytes, Place::kHost});
    fragments.push_back({value.data(), 0, Place::kHost});
  }
  const Source source(fragments);
  const auto id = store_->Allocate(facts);
  ASSERT_TRUE(id);
  ASSERT_TRUE(store_->Write(*id, facts, Seal::Of(source), source, nullptr));
  ExpectGood(*id, facts);
}

TEST_F(DiskStoreTest, AlignedMemoryTravelsAsItIs) {
  Reopen();
  const BlobFacts facts = FactsOf("aligned", 2 * kMiB + kPageBytes + 3);
  AlignedBuffer from(facts.size);
  testing::FillValue(facts, from.data());
  const Source source(from.data(), facts.size);
  const auto id = store_->Allocate(facts);
  ASSERT_TRUE(id);
  ASSERT_TRUE(store_->Write(*id, facts, Seal::Of(source), source, nullptr));
  AlignedBuffer to(facts.size);
  std::memset(to.data(), 0xdb, to.bytes());
  Seal seal;
  ASSERT_TRUE(store_->Read(*id, facts, to.data(), &seal, nullptr));
  EXPECT_EQ(std::memcmp(to.data(), from.data(), facts.size), 0);
  for (Bytes at = facts.size; at < to.bytes(); ++at) {
    ASSERT_EQ(to.data()[at], std::byte{0xdb}) << "written past the value's end";
  }
  EXPECT_EQ(seal, Seal::Of(source));
  EXPECT_TRUE(store_->Read(*id, facts, nullptr, nullptr, nullptr));
}

TEST_F(DiskStoreTest, PaddingIsZeroAndNotWhatLayInABuffer) {
  Reopen();
  const BlobFacts loud = FactsOf("loud", kMiB - 1);
  const BlobFacts quiet = FactsOf("quiet", 1);
  MustPut(loud);  // Its bytes stay in the pool's buffer.
  MustPut(quiet);
  store_.reset();
  const auto content = memory_->Content("/disk/store/blobs");
  const Bytes at = kPageBytes + kMiB + kPageBytes;  // The second blob's value.
  EXPECT_EQ(content[at], ValueOf(quiet)[0]);
  for (Bytes i = 1; i < kPageBytes; ++i) ASSERT_EQ(content[at + i], std::byte{0}) << i;
}

TEST_F(DiskStoreTest, WhatWasFreedIsGone) {
  Reopen();
  const BlobId a = MustPut(FactsOf("a", 100));
  MustPut(FactsOf("b", 100));
  store_->Free(a);
  EXPECT_EQ(store_->allocated(), 100U);
  Reopen();
  EXPECT_EQ(found_.size(), 1U);
  EXPECT_TRUE(found_.contains("b"));
}

// After the caller was told that a key is gone, a kill must not bring it back,
// even if a reader or a writer had the blob at the time.
TEST_F(DiskStoreTest, ATombstonedBlobIsNotFoundThoughItWasNotFreed) {
  Reopen();
  const BlobId read = MustPut(FactsOf("read", 5000));
  const BlobFacts facts = FactsOf("written", 5000);
  const auto written = store_->Allocate(facts);
  ASSERT_TRUE(written);
  MustPut(FactsOf("stays", 5000));
  store_->Tombstone(read);
  store_->Tombstone(*written);
  ExpectGood(read, FactsOf("read", 5000));
  const std::vector<std::byte> value = ValueOf(facts);
  const Source source(value.data(), value.size());
  const Status status = store_->Write(*written, facts, Seal::Of(source), source, nullptr);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  ASSERT_TRUE(store_->FlushDeletes(Duration::zero()));

  // As a kill leaves it: nothing is synced, nothing is freed.
  const Folder killed = Keep();
  Reopen();
  EXPECT_EQ(found_.size(), 1U) << "also after a proper end";
  PutBack(killed);
  Reopen();
  EXPECT_EQ(found_.size(), 1U);
  EXPECT_TRUE(found_.contains("stays"));
}

TEST_F(DiskStoreTest, AJournalThatIsWrittenAnewLeavesOutWhatWasTombstoned) {
  options_.journal_slack = 0;
  Reopen();
  const BlobId read = MustPut(FactsOf("read", 5000));
  store_->Tombstone(read);
  ASSERT_TRUE(store_->FlushDeletes(Duration::zero()));
  for (int i = 0; i < 50; ++i) store_->Free(MustPut(FactsOf("passing", 5000)));
  store_->RunBackground();
  store_->Free(read);
  MustPut(FactsOf("stays", 5000));
  Reopen();
  EXPECT_EQ(found_.size(), 1U);
}

TEST_F(DiskStoreTest, OfOneKeyTheLatestIsFound) {
  Reopen();
  MustPut(FactsOf("key", 100, 1));
  const BlobFacts second = FactsOf("key", 200, 2);
  MustPut(second);
  BlobFacts other = FactsOf("key", 300, 1);
  other.tenant = "somebody else";
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_.at("key").facts.generation, 2U);
  ExpectGood(found_.at("key").id, second);
}

// Two sets of one key at once, of which the later is discarded. Once, that also
// deleted the earlier one.
TEST_F(DiskStoreTest, TheLatestOfOneKeyThatHasGoneLeavesTheOneBefore) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 5000, 1);
  MustPut(facts);
  const BlobId second = MustPut(FactsOf("a", 6000, 2));
  store_->Free(second);
  ASSERT_TRUE(store_->Sync());
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  ExpectGood(found_.at("a").id, facts);
}

// An earlier blob of a key, found beside a later one, does not come back when
// the later one is deleted.
TEST_F(DiskStoreTest, AnEarlierOneOfAKeyStaysGone) {
  Reopen();
  MustPut(FactsOf("a", 5000, 1));
  MustPut(FactsOf("a", 6000, 2));
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  store_->Free(found_.at("a").id);
  Reopen();
  EXPECT_TRUE(found_.empty());
}

TEST_F(DiskStoreTest, AnotherBlobIsNeverServed) {
  Reopen();
  const BlobFacts facts = FactsOf("key", 5000, 3);
  const BlobId id = MustPut(facts);
  BlobFacts wrong = facts;
  wrong.key = "yek";
  EXPECT_EQ(Failure(id, wrong), Code::kCorrupt);
  wrong = facts;
  wrong.generation = 4;
  EXPECT_EQ(Failure(id, wrong), Code::kCorrupt);
  wrong = facts;
  wrong.tenant = "t";
  EXPECT_EQ(Failure(id, wrong), Code::kCorrupt);
  wrong = facts;
  wrong.size = 4999;
  EXPECT_EQ(Failure(id, wrong), Code::kCorrupt);
  EXPECT_EQ(store_->stats().corrupt, 4U);
  ExpectGood(id, facts);
}

TEST_F(DiskStoreTest, ABlobOfAnotherDirectoryIsNotOurs) {
  Reopen();
  const BlobFacts facts = FactsOf("key", 5000);
  MustPut(facts);
  store_.reset();
  const auto blobs = memory_->Content("/disk/store/blobs");
  options_.directory = "/disk/other";
  Reopen();
  MustPut(facts);
  store_.reset();
  memory_->SetContent("/disk/other/blobs", blobs);
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(Failure(found_.at("key").id, facts), Code::kCorrupt);
}

TEST_F(DiskStoreTest, TheQuotaHoldsToTheLastPage) {
  options_.quota = kMiB;
  Reopen();
  const BlobFacts facts = FactsOf("a", 60 * kKiB);  // 64 KiB with its header.
  std::vector<BlobId> ids;
  for (int i = 0; i < 16; ++i) ids.push_back(MustPut(FactsOf(fmt::format("{}", i), facts.size)));
  const auto refused = store_->Allocate(facts);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoMemory);
  EXPECT_EQ(store_->allocated(), 16 * facts.size);
  store_->Free(ids[7]);
  EXPECT_TRUE(store_->Allocate(facts));
  const auto larger = store_->Allocate(FactsOf("huge", ~Bytes{0}));
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, Code::kNoMemory);
}

TEST_F(DiskStoreTest, AShrunkenQuotaKeepsWhatIsThereAndTakesNothing) {
  Reopen();
  MustPut(FactsOf("a", 4 * kMiB));
  const BlobFacts b = FactsOf("b", 4 * kMiB);
  MustPut(b);
  options_.quota = kMiB;
  Reopen();
  EXPECT_EQ(found_.size(), 2U);
  EXPECT_FALSE(store_->Allocate(FactsOf("c", 10)));
  store_->Free(found_.at("a").id);
  EXPECT_FALSE(store_->Allocate(FactsOf("c", 10)));
  ExpectGood(found_.at("b").id, b);
  store_->Free(found_.at("b").id);
  EXPECT_TRUE(store_->Allocate(FactsOf("c", 10)));
}

TEST_F(DiskStoreTest, NothingIsPutBehindAShrunkenQuota) {
  Reopen();
  MustPut(FactsOf("a", kMiB));
  MustPut(FactsOf("b", kMiB / 2));
  MustPut(FactsOf("c", 4 * kMiB));
  options_.quota = 2 * kMiB;
  Reopen();
  store_->Free(found_.at("a").id);
  store_->Free(found_.at("c").id);
  // There are enough free bytes, but in one piece only beyond the quota.
  EXPECT_FALSE(store_->Allocate(FactsOf("d", kMiB + kMiB / 4)));
  EXPECT_TRUE(store_->Allocate(FactsOf("d", kMiB)));
}

TEST_F(DiskStoreTest, TheFileSystemsLastSpaceIsLeftToOthers) {
  options_.min_free = 1000 * kMiB;  // Of 1024.
  Reopen();
  int stored = 0;
  while (Put(store_.get(), FactsOf(fmt::format("{}", stored), kMiB))) ++stored;
  EXPECT_GE(stored, 18);
  EXPECT_LE(stored, 24);
  EXPECT_EQ(store_->health(), Health::kGood);
  options_.min_free = 0;
  Reopen();
  EXPECT_TRUE(Put(store_.get(), FactsOf("more", kMiB)));
}

TEST_F(DiskStoreTest, AFullDiskIsNoMemoryAndIsAskedAgainAfterASecond) {
  Reopen();
  MustPut(FactsOf("a", kMiB));
  faulty_->FailAll(FileCall::kAllocate, ENOSPC);
  const auto refused = Put(store_.get(), FactsOf("b", 4 * kMiB));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoMemory);
  EXPECT_EQ(store_->health(), Health::kGood);
  faulty_->Heal();
  const auto early = store_->Allocate(FactsOf("b", 4 * kMiB));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kNoMemory);
  clock_->Advance(std::chrono::seconds(1));
  MustPut(FactsOf("b", 4 * kMiB));
}

TEST_F(DiskStoreTest, ADiskThatFillsUpInTheMiddleOfAValueTakesNothing) {
  Reopen();
  const BlobFacts a = FactsOf("a", 2 * kMiB);
  const BlobId id = MustPut(a);
  memory_->SetSpace(4 * kMiB);
  options_.min_free = 0;
  Reopen();
  const auto refused = Put(store_.get(), FactsOf("b", 5 * kMiB));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoMemory);
  ExpectGood(id, a);
  memory_->SetSpace(kGiB);
  clock_->Advance(std::chrono::seconds(1));
  store_->RunBackground();
  MustPut(FactsOf("b", 5 * kMiB));
}

TEST_F(DiskStoreTest, SpaceOfWhatHasGoneIsGivenBack) {
  Reopen();
  std::vector<BlobId> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(MustPut(FactsOf(fmt::format("{}", i), kMiB)));
  const Bytes full = store_->held();
  EXPECT_GE(full, 20 * kMiB);
  const BlobFacts last = FactsOf("19", kMiB);
  for (int i = 0; i < 19; ++i) store_->Free(ids[static_cast<std::size_t>(i)]);
  store_->RunBackground();
  EXPECT_EQ(store_->held() / kMiB, full / kMiB) << "it may be wanted again at once";
  clock_->Advance(std::chrono::seconds(10));
  store_->RunBackground();
  EXPECT_LT(store_->held(), 4 * kMiB);
  ExpectGood(ids[19], last);
  SpaceFacts space;
  ASSERT_EQ(memory_->FreeSpace("/disk", &space), 0);
  EXPECT_GT(space.available, space.total - 4 * kMiB);
  for (int i = 0; i < 19; ++i) MustPut(FactsOf(fmt::format("{}", i), kMiB));
}

TEST_F(DiskStoreTest, AQuarantinedPlaceIsNotUsedAgainUntilThereAreTooMany) {
  options_.quarantine_max = 3 * kMiB;
  options_.quota = 4 * kMiB;
  Reopen();
  const BlobFacts facts = FactsOf("a", kMiB - kPageBytes);  // 1 MiB with its header.
  std::vector<BlobId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(MustPut(FactsOf(fmt::format("{}", i), facts.size)));
  for (int i = 0; i < 3; ++i) store_->Quarantine(ids[static_cast<std::size_t>(i)]);
  EXPECT_EQ(store_->stats().quarantined, 3 * kMiB);
  EXPECT_EQ(store_->allocated(), facts.size);
  EXPECT_FALSE(store_->Allocate(facts));
  store_->Quarantine(ids[3]);
  EXPECT_EQ(store_->stats().quarantined, 3 * kMiB);
  EXPECT_TRUE(store_->Allocate(facts));
  Reopen();
  EXPECT_TRUE(found_.empty());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(store_->Allocate(facts)) << i;
}

TEST_F(DiskStoreTest, CancelledWritesAndReadsLeaveAllAsItWas) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 3 * kMiB);
  const std::vector<std::byte> value = ValueOf(facts);
  const Source source(value.data(), value.size());
  const auto id = store_->Allocate(facts);
  ASSERT_TRUE(id);
  std::atomic<bool> cancelled{false};
  int writes = 0;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    if (call == FileCall::kWrite && ++writes == 2) cancelled = true;
    return 0;
  });
  const Status written = store_->Write(*id, facts, Seal::Of(source), source, &cancelled);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kCancelled);
  EXPECT_EQ(writes, 2);
  EXPECT_FALSE(store_->Read(*id, facts, nullptr, nullptr, nullptr)) << "never written";
  ASSERT_TRUE(store_->Write(*id, facts, Seal::Of(source), source, nullptr));
  const Status read = store_->Read(*id, facts, nullptr, nullptr, &cancelled);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCancelled);
  ExpectGood(*id, facts);
  EXPECT_EQ(store_->stats().corrupt, 0U);
}

TEST_F(DiskStoreTest, ASealIsMadeOnTheWay) {
  Reopen();
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, Bytes{4096}, 3 * kMiB, 3 * kMiB + 17}) {
    const BlobFacts facts = FactsOf("made", bytes);
    const std::vector<std::byte> value = ValueOf(facts);
    // Also from odd fragments, which go through a buffer.
    const Bytes cut = bytes / 3;
    const Source source(
        std::vector<Fragment>{{value.data(), cut}, {value.data() + cut, bytes - cut}});
    const auto id = store_->Allocate(facts);
    ASSERT_TRUE(id);
    Seal made;
    ASSERT_TRUE(store_->Write(*id, facts, &made, source, nullptr));
    EXPECT_EQ(made, Seal::Of(source));
    Seal read;
    std::vector<std::byte> back(bytes + 1);
    ASSERT_TRUE(store_->Read(*id, facts, back.data(), &read, nullptr));
    EXPECT_EQ(read, made);
    back.pop_back();
    EXPECT_EQ(back, value);
    store_->Free(*id);
  }
}

TEST_F(DiskStoreTest, WhatIsNotWhatWasAllocatedIsRefused) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 100);
  const std::vector<std::byte> value = ValueOf(facts);
  const Source source(value.data(), value.size());
  const Seal seal = Seal::Of(source);
  const auto id = store_->Allocate(facts);
  ASSERT_TRUE(id);
  const auto code_of = [&](const BlobFacts& told, const Seal& sealed, const Source& from) {
    const Status status = store_->Write(*id, told, sealed, from, nullptr);
    return status ? Code::kInternal : status.error().code;
  };
  EXPECT_EQ(code_of(FactsOf("a", 99), seal, source), Code::kInvalidArgument);
  EXPECT_EQ(code_of(facts, seal, Source(value.data(), 99)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(facts, Seal(std::vector<Hash128>(2)), source), Code::kInvalidArgument);
  BlobFacts longer = facts;
  longer.meta = std::string(5000, 'm');
  EXPECT_EQ(code_of(longer, seal, source), Code::kInvalidArgument);
  ASSERT_TRUE(store_->Write(*id, facts, seal, source, nullptr));
  EXPECT_EQ(code_of(facts, seal, source), Code::kInvalidArgument) << "it is published";
  EXPECT_FALSE(store_->Write(1234, facts, seal, source, nullptr));
  EXPECT_FALSE(store_->Read(1234, facts, nullptr, nullptr, nullptr));
  longer.meta = std::string(300'000, 'm');
  EXPECT_EQ(store_->Allocate(longer).error().code, Code::kInvalidArgument);
}

TEST_F(DiskStoreTest, NothingIsTakenWhileLoading) {
  auto opened = DiskStore::Open(options_);
  ASSERT_TRUE(opened);
  store_ = std::move(*opened);
  EXPECT_EQ(store_->health(), Health::kLoading);
  const auto refused = store_->Allocate(FactsOf("a", 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("loading"));
  LoadAll(store_.get());
  EXPECT_EQ(store_->health(), Health::kGood);
  EXPECT_EQ(store_->why(), "");
  EXPECT_TRUE(store_->Allocate(FactsOf("a", 1)));
}

TEST_F(DiskStoreTest, ALongJournalIsWrittenAnew) {
  options_.journal_slack = 64 * kKiB;
  Reopen();
  const BlobFacts kept = FactsOf("kept", 1000);
  MustPut(kept);
  for (int i = 0; i < 2000; ++i) store_->Free(MustPut(FactsOf(fmt::format("key {}", i), 1)));
  const BlobFacts late = FactsOf("late", 2000);
  MustPut(late);
  const auto names = memory_->Names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "/disk/store/journal-1"), 1);
  const Bytes before = memory_->Content("/disk/store/journal-1").size();
  EXPECT_GT(before, 64 * kKiB);
  store_->RunBackground();
  EXPECT_TRUE(memory_->Content("/disk/store/journal-1").empty());
  EXPECT_EQ(memory_->Content("/disk/store/journal-2").size(), kPageBytes);
  const BlobFacts later = FactsOf("later", 3000);
  MustPut(later);
  Reopen();
  ASSERT_EQ(found_.size(), 3U);
  ExpectGood(found_.at("kept").id, kept);
  ExpectGood(found_.at("late").id, late);
  ExpectGood(found_.at("later").id, later);
  store_->Free(found_.at("kept").id);
  Reopen();
  EXPECT_EQ(found_.size(), 2U);
}

TEST_F(DiskStoreTest, TheEarlierOfTwoThatOverlapIsRejected) {
  Reopen();
  const BlobId a = MustPut(FactsOf("a", 100));
  store_->Free(a);
  const BlobFacts b = FactsOf("b", 100);
  MustPut(b);  // Reuses the extent.
  store_.reset();
  // A journal that lost the delete of a: put a, put b.
  auto journal = memory_->Content("/disk/store/journal-1");
  const auto header = DecodeJournalHeader(journal);
  ASSERT_TRUE(header && *header);
  std::vector<std::byte> changed(journal.begin(), journal.begin() + JournalHeader::kBytes);
  for (Bytes at = JournalHeader::kBytes; at < journal.size();) {
    const auto parsed = ParseRecord(std::span(journal).subspan(at), (*header)->Seed());
    ASSERT_TRUE(parsed);
    const auto begin = journal.begin() + static_cast<std::ptrdiff_t>(at);
    if (!parsed->record.deleted) changed.insert(changed.end(), begin, begin + parsed->bytes);
    at += parsed->bytes;
  }
  memory_->SetContent("/disk/store/journal-1", changed);
  memory_->Remove("/disk/store/mirror-1");
  Reopen();
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(store_->stats().recovery_rejected, 1U);
  ExpectGood(found_.at("b").id, b);
  store_->Free(found_.at("b").id);
  Reopen();
  EXPECT_TRUE(found_.empty()) << "a is back";
}

TEST_F(DiskStoreTest, ADirectoryThatHasGoneIsNoticed) {
  Reopen();
  const BlobFacts facts = FactsOf("a", 5000);
  const BlobId id = MustPut(facts);
  ASSERT_EQ(memory_->Remove("/disk/store/blobs"), 0);
  store_->RunBackground();
  EXPECT_EQ(store_->health(), Health::kDown);
  EXPECT_THAT(store_->why(), HasSubstr("/disk/store/blobs"));
  EXPECT_EQ(store_->Allocate(facts).error().code, Code::kUnavailable);
  ExpectGood(id, facts);  // Open files can still be read.
}

TEST_F(DiskStoreTest, CountsWhatItDid) {
  Reopen();
  const BlobFacts facts = FactsOf("a", kMiB);
  const BlobId id = MustPut(facts);
  ExpectGood(id, facts);
  ASSERT_TRUE(store_->Sync());
  const BlobStoreStats stats = store_->stats();
  EXPECT_EQ(stats.writes, 1U);
  EXPECT_EQ(stats.reads, 1U);
  EXPECT_EQ(stats.value_written, kMiB);
  EXPECT_EQ(stats.read, kMiB + kPageBytes);
  EXPECT_EQ(stats.written, kMiB + 5 * kPageBytes) << "two pages of journal, and its mirror's";
  EXPECT_GE(stats.syncs, 2U);
  EXPECT_EQ(stats.sync_failures, 0U);
}

}  // namespace
}  // namespace spillway
