// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/journal_scan.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tier/disk/testing/memory_files.h"

namespace spillway {
namespace {

class JournalScanTest : public ::testing::Test, public JournalVisitor {
 protected:
  JournalScanTest() {
    header_.store = {11, 12};
    header_.epoch = 3;
    journal_ = Encode(header_);
  }
  void Add(std::vector<std::byte> record) {
    Finish(header_.Seed(), &record);
    ends_.push_back(journal_.size() + record.size());
    journal_.insert(journal_.end(), record.begin(), record.end());
  }
  void AddDeletes(std::initializer_list<std::uint64_t> sequences) {
    for (const std::uint64_t sequence : sequences) Add(EncodeDelete(sequence, 1));
  }
  // Scans files with this content.
  JournalScan Scan(const std::vector<std::byte>& journal,
                   const std::optional<std::vector<std::byte>>& mirror = std::nullopt) {
    const int file = Write("/disk/journal", journal);
    const int other = mirror ? Write("/disk/mirror", *mirror) : -1;
    seen_.clear();
    gaps_.clear();
    synced_ = 0;
    const JournalScan scan = ScanJournal(files_, file, other, header_, this);
    files_.Close(file);
    if (other >= 0) files_.Close(other);
    return scan;
  }
  int Write(const std::string& path, const std::vector<std::byte>& content) {
    const int file = files_.Open(path, {.create = true}, nullptr);
    EXPECT_EQ(files_.Truncate(file, 0), 0);
    EXPECT_EQ(WriteFully(files_, file, 0, content.data(), content.size()), 0);
    return file;
  }
  // Damages more than one bit.
  static void Damage(std::vector<std::byte>* bytes, std::size_t from, std::size_t to) {
    for (std::size_t at = from; at < to; ++at) (*bytes)[at] ^= std::byte{0x5a};
  }

  bool Record(JournalRecord&& record, Bytes, std::uint32_t) override {
    seen_.push_back(record.sequence);
    return true;
  }
  void Padding(Bytes synced_bytes) override { synced_ = synced_bytes; }
  void Gap(Bytes at, Bytes bytes) override { gaps_.push_back({at, bytes}); }

  testing::MemoryFiles files_;
  JournalHeader header_;
  std::vector<std::byte> journal_;
  std::vector<std::size_t> ends_;
  std::vector<std::uint64_t> seen_;
  std::vector<Extent> gaps_;
  Bytes synced_ = 0;
};

using Sequences = std::vector<std::uint64_t>;

TEST_F(JournalScanTest, SkipsWhatIsOlderThanWhatStandsBefore) {
  AddDeletes({4, 7, 6, 8});
  const JournalScan scan = Scan(journal_);
  EXPECT_EQ(seen_, (Sequences{4, 7, 8}));
  EXPECT_FALSE(scan.torn);
  ASSERT_EQ(scan.gaps, 1U);
  EXPECT_EQ(gaps_[0], (Extent{ends_[1], kDeleteBytes}));
  EXPECT_EQ(scan.good, journal_.size());
  EXPECT_EQ(scan.last_sequence, 8U);
}

TEST_F(JournalScanTest, FindsTheNextRecordBehindADamagedOne) {
  AddDeletes({1, 2, 3, 4});
  Add(EncodePadding(100, 77));
  AddDeletes({5});
  Damage(&journal_, ends_[0] + 1, ends_[2] - 1);
  const JournalScan scan = Scan(journal_);
  EXPECT_EQ(seen_, (Sequences{1, 4, 5}));
  EXPECT_EQ(synced_, 77U);
  EXPECT_EQ(scan.gaps, 1U);
  EXPECT_EQ(scan.gap_bytes, 2 * kDeleteBytes);
  EXPECT_TRUE(scan.is_damaged());
  EXPECT_FALSE(scan.torn);
}

TEST_F(JournalScanTest, TakesFromTheMirrorWhatIsDamaged) {
  AddDeletes({1, 2, 3, 4, 5});
  const std::vector<std::byte> whole = journal_;
  Damage(&journal_, ends_[0], ends_[2]);
  JournalScan scan = Scan(journal_, whole);
  EXPECT_EQ(seen_, (Sequences{1, 2, 3, 4, 5}));
  EXPECT_EQ(scan.from_mirror, 2U);
  EXPECT_EQ(scan.gaps, 0U);
  // A truncated journal still has records that the mirror lacks.
  journal_.resize(ends_[1] + 5);
  scan = Scan(journal_, whole);
  EXPECT_EQ(seen_, (Sequences{1, 2, 3, 4, 5}));
  EXPECT_TRUE(scan.is_damaged());
  // And the other way round.
  scan = Scan(whole, journal_);
  EXPECT_EQ(seen_, (Sequences{1, 2, 3, 4, 5}));
  EXPECT_FALSE(scan.is_damaged());
  EXPECT_TRUE(scan.mirror_differs);
  scan = Scan(whole, whole);
  EXPECT_FALSE(scan.mirror_differs);
}

TEST_F(JournalScanTest, WhereBothAreDamagedABitIsMendedAndMoreIsSkipped) {
  AddDeletes({1, 2, 3, 4, 5});
  std::vector<std::byte> mirror = journal_;
  journal_[ends_[0] + 9] ^= std::byte{4};
  Damage(&mirror, ends_[0], ends_[1]);
  Damage(&journal_, ends_[2], ends_[3]);
  Damage(&mirror, ends_[2], ends_[3]);
  const JournalScan scan = Scan(journal_, mirror);
  EXPECT_EQ(seen_, (Sequences{1, 2, 3, 5}));
  EXPECT_EQ(scan.corrected, 1U);
  EXPECT_EQ(scan.gaps, 1U);
}

TEST_F(JournalScanTest, EndsWhereNothingWholeFollows) {
  AddDeletes({1, 2});
  const std::size_t end = journal_.size();
  journal_.resize(end + 10'000, std::byte{7});
  const JournalScan scan = Scan(journal_);
  EXPECT_EQ(seen_, (Sequences{1, 2}));
  EXPECT_TRUE(scan.torn);
  EXPECT_EQ(scan.good, end);
}

TEST_F(JournalScanTest, FindsRecordsAcrossItsWindows) {
  PutRecord put;
  put.facts.meta = std::string(60'000, 'm');
  std::uint64_t sequence = 0;
  while (journal_.size() < 20 * kMiB) Add(EncodePut(++sequence, put));
  const std::vector<std::byte> whole = journal_;
  for (std::size_t at = 100'000; at < journal_.size(); at += 3 * kMiB) {
    Damage(&journal_, at, at + 200);
  }
  JournalScan scan = Scan(journal_, whole);
  EXPECT_EQ(seen_.size(), sequence);
  EXPECT_GT(scan.from_mirror, 4U);
  scan = Scan(journal_);
  EXPECT_EQ(seen_.size() + scan.gaps, sequence);
}

// A key may contain bytes that look like a record; a record with an older
// sequence is not one.
TEST_F(JournalScanTest, ARecordInsideADamagedOneIsNotTakenForAnother) {
  std::vector<std::byte> old = EncodeDelete(1, 77);
  Finish(header_.Seed(), &old);
  AddDeletes({1, 2});
  PutRecord put;
  put.facts.meta.assign(reinterpret_cast<const char*>(old.data()), old.size());
  Add(EncodePut(3, put));
  AddDeletes({4});
  Damage(&journal_, ends_[1], ends_[1] + 16);
  (void)Scan(journal_);
  EXPECT_EQ(seen_, (Sequences{1, 2, 4}));
}

TEST_F(JournalScanTest, ARecordIsReadBackWholeFromEither) {
  AddDeletes({1, 2});
  std::vector<std::byte> mirror = journal_;
  const std::vector<std::byte> record(journal_.begin() + static_cast<std::ptrdiff_t>(ends_[0]),
                                      journal_.end());
  const auto read = [&] {
    const int file = Write("/disk/journal", journal_);
    const int other = Write("/disk/mirror", mirror);
    const auto got = ReadRecord(files_, file, other, ends_[0], kDeleteBytes, 2, header_.Seed());
    files_.Close(file);
    files_.Close(other);
    return got;
  };
  EXPECT_EQ(read(), record);
  Damage(&journal_, ends_[0], ends_[1]);
  EXPECT_EQ(read(), record);
  mirror[ends_[0] + 20] ^= std::byte{1};
  EXPECT_EQ(read(), record);
  Damage(&mirror, ends_[0], ends_[1]);
  EXPECT_FALSE(read());
}

}  // namespace
}  // namespace spillway
