// SPDX-License-Identifier: Apache-2.0
// A changed deadline is a record of its own; the value is not rewritten. After
// a kill a blob has the last settled deadline, or a later one, or is deleted.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

using testing::FactsOf;
using testing::FileCall;
using Expires = std::optional<std::int64_t>;
using std::chrono::seconds;

class DiskDeadlineTest : public testing::DiskStoreTest {
 protected:
  Expires Found(const std::string& key) {
    EXPECT_TRUE(found_.contains(key)) << key;
    return found_.contains(key) ? found_.at(key).facts.expires_unix_ns : Expires(-1);
  }
  void Kill() {
    PutBack(Keep());
    Reopen();
  }
  void Write(BlobId id, const BlobFacts& facts) {
    const auto value = testing::ValueOf(facts);
    const Source source(value.data(), value.size());
    ASSERT_TRUE(store_->Write(id, facts, Seal::Of(source), source, nullptr));
  }
  // Calls `work` before write number `number` from now on, counted from 1.
  void BeforeWrite(int number, std::function<void()> work) {
    writes_ = 0;
    faulty_->SetScript([this, number, work = std::move(work)](FileCall call, std::uint64_t, int) {
      if (call == FileCall::kWrite && ++writes_ == number) work();
      return 0;
    });
  }
  int writes_ = 0;
};

TEST_F(DiskDeadlineTest, TheLastOneIsFoundAfterAKillAndTheValueIsNotWrittenAgain) {
  Reopen();
  BlobFacts facts = FactsOf("a", 100'000);
  facts.expires_unix_ns = 50;
  const BlobId id = MustPut(facts);
  const Bytes written = store_->stats().written;
  store_->ChangeDeadline(id, 60);
  EXPECT_TRUE(store_->has_pending_deletes());
  EXPECT_TRUE(store_->FlushDeletes(seconds(1)));
  store_->ChangeDeadline(id, 70);
  store_->ChangeDeadline(id, 80);
  EXPECT_TRUE(store_->FlushDeletes(seconds(1)));
  EXPECT_FALSE(store_->has_pending_deletes());
  EXPECT_EQ(store_->stats().written - written, 2 * 2 * kDeadlineBytes);
  ExpectGood(id, facts);
  Kill();
  EXPECT_EQ(Found("a"), 80);
  ExpectGood(found_.at("a").id, facts);
  store_->ChangeDeadline(found_.at("a").id, std::nullopt);
  EXPECT_TRUE(store_->FlushDeletes(seconds(1)));
  Kill();
  EXPECT_EQ(Found("a"), std::nullopt);
}

TEST_F(DiskDeadlineTest, ANewJournalKnowsIt) {
  options_.journal_slack = 0;
  Reopen();
  const BlobId a = MustPut(FactsOf("a", 100));
  const BlobId b = MustPut(FactsOf("b", 100));
  store_->ChangeDeadline(a, 60);
  store_->ChangeDeadline(b, 61);
  ASSERT_TRUE(store_->FlushDeletes(seconds(1)));
  for (int i = 0; i < 100; ++i) store_->Free(MustPut(FactsOf("other", 1)));
  for (std::int64_t i = 0; i < 100; ++i) {
    store_->ChangeDeadline(b, 100 + i);
    ASSERT_TRUE(store_->FlushDeletes(seconds(1)));
  }
  const Bytes before = store_->held();
  const std::string name = JournalName();
  store_->RunBackground();
  EXPECT_NE(JournalName(), name);
  EXPECT_LT(store_->held(), before) << "of each only the last one";
  Kill();
  EXPECT_EQ(Found("a"), 60);
  EXPECT_EQ(Found("b"), 199);
  store_->Free(found_.at("b").id);
  store_->ChangeDeadline(found_.at("a").id, 62);
  ASSERT_TRUE(store_->FlushDeletes(seconds(1)));
  Kill();
  EXPECT_EQ(found_.size(), 1U);
  EXPECT_EQ(Found("a"), 62);
}

TEST_F(DiskDeadlineTest, OneThatIsChangedWhileTheValueIsWrittenGoesWithIt) {
  Reopen();
  // While the value is written, and while the record is.
  for (const int number : {1, 2}) {
    const BlobFacts facts = FactsOf(fmt::format("at {}", number), 5000);
    const auto id = store_->Allocate(facts);
    ASSERT_TRUE(id);
    if (number == 1) store_->ChangeDeadline(*id, 59);
    BeforeWrite(number, [&] { store_->ChangeDeadline(*id, 60); });
    Write(*id, facts);
    faulty_->Heal();
    ASSERT_TRUE(store_->FlushDeletes(seconds(1)));
  }
  Kill();
  EXPECT_EQ(Found("at 1"), 60);
  EXPECT_EQ(Found("at 2"), 60);
}

TEST_F(DiskDeadlineTest, OneThatIsChangedWhileItIsToldIsToldAgain) {
  Reopen();
  const BlobId a = MustPut(FactsOf("a", 10));
  const BlobId b = MustPut(FactsOf("b", 10));
  const BlobId c = MustPut(FactsOf("c", 10));
  for (const BlobId id : {a, b, c}) store_->ChangeDeadline(id, 60);
  BeforeWrite(1, [&] {
    store_->ChangeDeadline(a, 61);
    store_->Tombstone(b);
    store_->Free(c);
  });
  (void)store_->FlushDeletes(seconds(1));
  faulty_->Heal();
  EXPECT_EQ(store_->stats().deletes_pending, 3U);
  EXPECT_TRUE(store_->FlushDeletes(seconds(1)));
  EXPECT_EQ(store_->stats().deletes_pending, 0U);
  MustPut(FactsOf("d", 10));  // Reuses the extent of c.
  Kill();
  EXPECT_EQ(found_.size(), 2U);
  EXPECT_EQ(Found("a"), 61);
}

TEST_F(DiskDeadlineTest, OneOfABlobThatGoesOwesNothingMore) {
  Reopen();
  const BlobId a = MustPut(FactsOf("a", 10));
  store_->ChangeDeadline(a, 60);
  store_->Free(a);
  const BlobFacts facts = FactsOf("b", 10);
  const auto b = store_->Allocate(facts);
  ASSERT_TRUE(b);
  store_->ChangeDeadline(*b, 61);
  store_->Free(*b);  // It was never written.
  EXPECT_EQ(store_->stats().deletes_pending, 1U);
  EXPECT_TRUE(store_->FlushDeletes(seconds(1)));
  EXPECT_FALSE(store_->has_pending_deletes());
  EXPECT_EQ(store_->allocated(), 0U);
  Kill();
  EXPECT_TRUE(found_.empty());
}

// Deadlines that a full disk does not take stay pending; at the end their blobs
// are dropped.
TEST_F(DiskDeadlineTest, WhereItCanNotBeToldTheBlobIsGivenUpAtTheEnd) {
  Reopen();
  int data = -1;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int file) {
    if (call == FileCall::kAllocate) data = file;
    return 0;
  });
  BlobFacts facts = FactsOf("a", 9000);
  facts.expires_unix_ns = 50;
  const BlobId id = MustPut(facts);
  const BlobFacts stays = FactsOf("stays", 100);
  MustPut(stays);
  ASSERT_TRUE(store_->Sync());
  faulty_->SetScript([&](FileCall call, std::uint64_t, int file) {
    return call == FileCall::kWrite && file != data ? ENOSPC : 0;
  });
  store_->ChangeDeadline(id, 10);
  EXPECT_FALSE(store_->FlushDeletes(seconds(1)));
  EXPECT_TRUE(store_->has_pending_deletes());
  ExpectGood(id, facts);
  EXPECT_TRUE(store_->Close());
  faulty_->Heal();
  Reopen();
  ASSERT_TRUE(found_.contains("a")) << "by its record";
  EXPECT_EQ(Failure(found_.at("a").id, facts), Code::kCorrupt);
  ExpectGood(found_.at("stays").id, stays);
}

// A kill before each write, complete or partial, with and without settling each change.
TEST_F(DiskDeadlineTest, AfterAKillAtAnyStepItIsTheLastSettledOneOrALaterOne) {
  options_.journal_slack = 2 * kKiB;
  Reopen();
  struct Key {
    BlobId id = kNoBlob;
    std::vector<Expires> given;  // In order; all from `settled` on may be found.
    std::size_t settled = 0;
    bool was_written = false;
  };
  std::map<std::string, Key> keys;
  struct Left {
    Folder folder;
    std::map<std::string, Key> keys;
  };
  std::vector<Left> left;
  faulty_->SetScript([&](FileCall call, std::uint64_t, int) {
    if (call == FileCall::kWrite || call == FileCall::kRename || call == FileCall::kRemove) {
      left.push_back({Keep(), keys});
    }
    return 0;
  });
  for (int i = 0; i < 4; ++i) {
    BlobFacts facts = FactsOf(fmt::format("key {}", i), 100);
    if (i % 2 == 0) facts.expires_unix_ns = 7;
    Key& key = keys[facts.key];
    key.given = {facts.expires_unix_ns};
    key.id = MustPut(facts);
    key.was_written = true;
  }
  for (int round = 0; round < 40; ++round) {
    int i = 0;
    for (auto& [name, key] : keys) {
      if ((round + ++i) % 3 == 0) continue;
      const Expires expires = (round + i) % 7 == 0 ? Expires() : Expires(100 * round + i);
      key.given.push_back(expires);
      store_->ChangeDeadline(key.id, expires);
    }
    if (round % 4 == 3) store_->RunBackground();  // Syncs, and may shorten the journal.
    if (round % 2 == 1) {
      ASSERT_TRUE(store_->FlushDeletes(seconds(1)));
      for (auto& [name, key] : keys) key.settled = key.given.size() - 1;
    }
  }
  faulty_->Heal();
  EXPECT_NE(JournalName(), "/disk/store/journal-1") << "no journal was written anew";
  ASSERT_GT(left.size(), 100U);
  const auto judge = [&](const std::map<std::string, Key>& then) {
    for (const auto& [name, key] : then) {
      if (!found_.contains(name)) {
        EXPECT_FALSE(key.was_written) << name << " is lost";
        continue;
      }
      const auto allowed = std::find(key.given.begin() + static_cast<std::ptrdiff_t>(key.settled),
                                     key.given.end(), Found(name));
      EXPECT_NE(allowed, key.given.end())
          << name << " has " << Found(name).value_or(-1) << " and had been settled at "
          << key.given[key.settled].value_or(-1);
    }
  };
  for (const Left& one : left) {
    PutBack(one.folder);
    Reopen();
    judge(one.keys);
    // The journal's end is torn; the mirror has it.
    Folder torn = one.folder;
    for (auto& [name, content] : torn) {
      const bool is_journal = name.find("/journal-") != std::string::npos;
      if (is_journal && content.size() > kPageBytes)
        content.erase(content.end() - 13, content.end());
    }
    PutBack(torn);
    Reopen();
    judge(one.keys);
    if (HasFailure()) break;
  }
}

TEST_F(DiskDeadlineTest, AFolderOfVersionOneIsReadAndUpgraded) {
  Reopen();
  BlobFacts facts = FactsOf("a", 5000);
  facts.expires_unix_ns = 50;
  MustPut(facts);
  ASSERT_TRUE(store_->Close());
  store_.reset();
  // As version 1 left it: no mirror, no deadlines, and no synced lengths.
  memory_->Remove(MirrorName());
  auto journal = memory_->Content(JournalName());
  auto header = DecodeJournalHeader(journal);
  ASSERT_TRUE(header && *header);
  (*header)->version = 1;
  (*header)->synced_bytes = 0;
  const auto bytes = Encode(**header);
  std::copy(bytes.begin(), bytes.end(), journal.begin());
  memory_->SetContent(JournalName(), journal);
  Reopen();
  EXPECT_EQ(Found("a"), 50);
  ExpectGood(found_.at("a").id, facts);
  const auto upgraded = DecodeJournalHeader(memory_->Content(JournalName()));
  ASSERT_TRUE(upgraded && *upgraded);
  EXPECT_EQ((*upgraded)->version, JournalHeader::kVersion);
  EXPECT_EQ(store_->stats().recovery_mended + store_->stats().recovery_rejected, 0U);
  store_->ChangeDeadline(found_.at("a").id, 60);
  ASSERT_TRUE(store_->FlushDeletes(seconds(1)));
  Kill();
  EXPECT_EQ(Found("a"), 60);
}

}  // namespace
}  // namespace spillway
