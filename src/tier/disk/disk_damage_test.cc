// SPDX-License-Identifier: Apache-2.0
// A damaged journal: damage that the mirror or one corrected bit can repair is repaired.
// Records lost in both files are counted, and no older value is found instead.
#include <algorithm>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

using testing::Check;
using testing::FactsOf;

constexpr Bytes kSector = 512;

class DiskDamageTest : public testing::DiskStoreTest {
 protected:
  static constexpr int kKeys = 600;
  static std::string KeyOf(int i) { return fmt::format("key {}", i); }

  // Sets, replaces and erases values, changes deadlines, and closes properly.
  // folder_ is the result on disk, current_ the expected values. `version` 1:
  // as programs of that version left it.
  void Build(std::uint32_t version = JournalHeader::kVersion) {
    Reopen();
    for (int i = 0; i < kKeys; ++i) Set(i, 1);
    ASSERT_TRUE(store_->Sync());
    for (int i = 0; i < kKeys; i += 5) Set(i, 2);
    for (int i = 1; i < kKeys; i += 20) Erase(i);
    ASSERT_TRUE(store_->Sync());
    if (version == JournalHeader::kVersion) {
      for (int i = 2; i < kKeys; i += 10) Give(i, 1000 + i);
      for (int i = 2; i < kKeys; i += 20) Give(i, 5000 + i);
    }
    for (int i = 0; i < kKeys; i += 50) Erase(i);
    ASSERT_TRUE(store_->Close());
    store_.reset();
    if (version != JournalHeader::kVersion) MakeOlder(version);
    folder_ = Keep();
  }
  void Set(int i, std::uint64_t generation) {
    Current& current = current_[KeyOf(i)];
    const BlobFacts facts = FactsOf(KeyOf(i), 100, generation);
    const BlobId old = std::exchange(current.id, MustPut(facts));
    current.facts = facts;
    if (generation > 1) store_->Free(old);
  }
  void Erase(int i) {
    store_->Free(current_.at(KeyOf(i)).id);
    current_.erase(KeyOf(i));
  }
  void Give(int i, std::int64_t expires) {
    Current& current = current_.at(KeyOf(i));
    store_->ChangeDeadline(current.id, expires);
    current.facts.expires_unix_ns = expires;
  }
  void MakeOlder(std::uint32_t version) {
    memory_->Remove(MirrorName());
    auto journal = memory_->Content(JournalName());
    auto header = DecodeJournalHeader(journal);
    ASSERT_TRUE(header && *header);
    (*header)->version = version;
    (*header)->synced_bytes = 0;
    const auto bytes = Encode(**header);
    std::copy(bytes.begin(), bytes.end(), journal.begin());
    memory_->SetContent(JournalName(), journal);
  }

  // Opens the folder with the given bytes for the journal and the mirror.
  void OpenWith(const std::optional<std::vector<std::byte>>& journal,
                const std::optional<std::vector<std::byte>>& mirror) {
    store_.reset();
    for (const std::string& name : memory_->Names()) {
      if (name.find("/journal-") != std::string::npos ||
          name.find("/mirror-") != std::string::npos) {
        memory_->Remove(name);
      }
    }
    const auto write = [&](const std::string& name, const std::vector<std::byte>& content) {
      memory_->Close(memory_->Open(name, {.create = true}, nullptr));
      memory_->SetContent(name, content);
    };
    // Dropped blobs have made room for others.
    if (std::exchange(blobs_changed_, false)) {
      write("/disk/store/blobs", folder_.at("/disk/store/blobs"));
    }
    if (journal) write("/disk/store/journal-1", *journal);
    if (mirror) write("/disk/store/mirror-1", *mirror);
    Reopen();
    blobs_changed_ = store_ == nullptr || found_.size() < current_.size();
  }
  std::vector<std::byte> Journal() const { return folder_.at("/disk/store/journal-1"); }

  // Every blob found is current and correct; returns how many there are.
  std::size_t Served(bool read_all = true) {
    std::size_t served = 0;
    for (const auto& [key, found] : found_) {
      const auto current = current_.find(key);
      if (current == current_.end()) {
        ADD_FAILURE() << key << " was erased and is back";
        continue;
      }
      EXPECT_EQ(found.facts.generation, current->second.facts.generation) << key;
      EXPECT_EQ(found.facts.expires_unix_ns, current->second.facts.expires_unix_ns) << key;
      if (read_all || served % 50 == 0) {
        EXPECT_TRUE(Check(store_.get(), found.id, found.facts)) << key;
      }
      ++served;
    }
    return served;
  }
  std::uint64_t Mended() const { return store_->stats().recovery_mended; }
  std::uint64_t Rejected() const { return store_->stats().recovery_rejected; }
  std::uint64_t GivenUp() const { return store_->stats().recovery_given_up; }
  static void Zero(std::vector<std::byte>* bytes, Bytes at, Bytes count) {
    for (Bytes i = at; i < std::min<Bytes>(at + count, bytes->size()); ++i) {
      (*bytes)[i] = std::byte{0};
    }
  }
  static void FlipBit(std::vector<std::byte>* bytes, Bytes bit) {
    (*bytes)[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  // The places of all records of one kind.
  template <typename Is>
  std::vector<Extent> RecordsThat(Is&& is) const {
    const auto journal = Journal();
    const auto header = DecodeJournalHeader(journal);
    std::vector<Extent> found;
    for (Bytes at = JournalHeader::kBytes; at < journal.size();) {
      const auto parsed = ParseRecord(std::span(journal).subspan(at), (*header)->Seed());
      if (!parsed) break;
      if (is(parsed->record)) found.push_back({at, parsed->bytes});
      at += parsed->bytes;
    }
    return found;
  }

  struct Current {
    BlobFacts facts;
    BlobId id = kNoBlob;
  };
  // From now on writes to the mirror fail.
  void FailMirror() {
    faulty_->SetScript([this](testing::FileCall call, std::uint64_t, int file) {
      if (call == testing::FileCall::kAllocate) data_ = file;
      if (call != testing::FileCall::kWrite || file == data_) return 0;
      if (journal_ == -1) journal_ = file;  // The journal is written first.
      return file == journal_ ? 0 : ENOSPC;
    });
  }

  std::map<std::string, Current> current_;
  Folder folder_;
  bool blobs_changed_ = false;
  int data_ = -1;
  int journal_ = -1;
};

TEST_F(DiskDamageTest, AFolderThatIsWholeNeedsNoMending) {
  Build();
  OpenWith(Journal(), folder_.at("/disk/store/mirror-1"));
  EXPECT_EQ(Served(), current_.size());
  EXPECT_EQ(Mended() + Rejected() + GivenUp(), 0U);
  EXPECT_EQ(JournalName(), "/disk/store/journal-1") << "nor to be written anew";
}

// One bit at a time, with the mirror and without one.
TEST_F(DiskDamageTest, OneFlippedBitOfTheJournalLosesNothing) {
  Build();
  const Bytes bits = Journal().size() * 8;
  for (Bytes bit = 0; bit < bits; bit += 1000) {
    SCOPED_TRACE(fmt::format("bit {}", bit));
    auto damaged = Journal();
    FlipBit(&damaged, bit);
    const bool is_alone = bit % 7000 == 0;
    OpenWith(damaged, is_alone ? std::nullopt : std::optional(folder_.at("/disk/store/mirror-1")));
    ASSERT_EQ(Served(bit % 50'000 == 0), current_.size());
    EXPECT_EQ(Mended(), 1U);
    EXPECT_EQ(GivenUp(), 0U);
    if (HasFailure()) break;
  }
}

TEST_F(DiskDamageTest, OneFlippedBitOfAnOlderFoldersJournalLosesNothing) {
  Build(1);
  const Bytes bits = Journal().size() * 8;
  for (Bytes bit = 0; bit < bits; bit += 9973) {
    SCOPED_TRACE(fmt::format("bit {}", bit));
    auto damaged = Journal();
    FlipBit(&damaged, bit);
    OpenWith(damaged, std::nullopt);
    ASSERT_EQ(Served(false), current_.size());
    EXPECT_EQ(Mended(), 1U);
  }
}

TEST_F(DiskDamageTest, OneFlippedBitOfTheHeaderLosesNothing) {
  Build();
  for (Bytes bit = 0; bit < JournalHeader::kBytes * 8; ++bit) {
    auto damaged = Journal();
    FlipBit(&damaged, bit);
    OpenWith(damaged,
             bit % 2 == 0 ? std::nullopt : std::optional(folder_.at("/disk/store/mirror-1")));
    ASSERT_EQ(Served(false), current_.size()) << "bit " << bit;
    EXPECT_EQ(Mended(), 1U);
  }
}

TEST_F(DiskDamageTest, ASectorThatIsZeroedOrTornLosesNothing) {
  Build();
  const auto mirror = folder_.at("/disk/store/mirror-1");
  for (Bytes at = 0; at < mirror.size(); at += 7 * kSector) {
    SCOPED_TRACE(fmt::format("sector at {}", at));
    auto damaged = Journal();
    if (at % (2 * kSector) == 0) {
      Zero(&damaged, at, kSector);
    } else {  // The sector has bytes from elsewhere.
      std::copy_n(mirror.begin() + 4096, kSector,
                  damaged.begin() + static_cast<std::ptrdiff_t>(at));
    }
    OpenWith(damaged, mirror);
    ASSERT_EQ(Served(false), current_.size());
  }
  for (const Bytes cut : {mirror.size() / 2, Bytes{4096}, Bytes{100}}) {
    auto damaged = Journal();
    damaged.resize(cut);
    OpenWith(damaged, mirror);
    EXPECT_EQ(Served(), current_.size()) << "cut at " << cut;
    EXPECT_GT(Mended(), 0U);
  }
}

TEST_F(DiskDamageTest, WhatIsMendedStaysSo) {
  Build();
  auto damaged = Journal();
  auto mirror = folder_.at("/disk/store/mirror-1");
  Zero(&damaged, 10 * kSector, kSector);
  FlipBit(&mirror, 100'003);
  OpenWith(damaged, mirror);
  EXPECT_EQ(Served(), current_.size());
  EXPECT_GT(Mended(), 0U);
  EXPECT_EQ(memory_->Content(JournalName()), memory_->Content(MirrorName()));
  Reopen();
  EXPECT_EQ(Served(), current_.size());
  EXPECT_EQ(Mended() + Rejected(), 0U);
}

TEST_F(DiskDamageTest, AMirrorThatIsDamagedOrMissingIsMadeAnew) {
  Build();
  auto mirror = folder_.at("/disk/store/mirror-1");
  Zero(&mirror, 0, kSector);
  OpenWith(Journal(), mirror);
  EXPECT_EQ(Served(), current_.size());
  OpenWith(Journal(), std::nullopt);
  EXPECT_EQ(Served(), current_.size());
  EXPECT_EQ(memory_->Content(JournalName()), memory_->Content(MirrorName()));
  EXPECT_EQ(Mended() + Rejected() + GivenUp(), 0U);
}

// The same sector in both files: no copy of its records is left.
TEST_F(DiskDamageTest, WhatIsLostInBothBringsNothingBack) {
  Build();
  std::size_t least = current_.size();
  for (Bytes at = 0; at < Journal().size(); at += 3 * kSector) {
    SCOPED_TRACE(fmt::format("sector at {}", at));
    auto damaged = Journal();
    Zero(&damaged, at, kSector);
    if (at == 0) {  // Nothing says which store the files belong to.
      store_.reset();
      memory_->SetContent(JournalName(), damaged);
      memory_->SetContent(MirrorName(), damaged);
      EXPECT_THAT(Refusal(), ::testing::HasSubstr("magic"));
      continue;
    }
    OpenWith(damaged, damaged);
    const std::size_t served = Served(false);
    least = std::min(least, served);
    EXPECT_TRUE(served == current_.size() || Rejected() > 0);
    Reopen();
    EXPECT_EQ(Served(false), served) << "found once, and not again";
  }
  EXPECT_LT(least, current_.size()) << "nothing was ever in doubt: the test tests nothing";
}

TEST_F(DiskDamageTest, ALostTombstoneOrDeadlineBringsNothingBack) {
  Build();
  const auto deletes = RecordsThat([](const JournalRecord& record) { return record.deleted; });
  const auto deadlines = RecordsThat([](const JournalRecord& record) { return record.deadline; });
  ASSERT_GT(deletes.size(), 100U);
  ASSERT_GT(deadlines.size(), 50U);
  for (const auto* records : {&deletes, &deadlines}) {
    for (std::size_t i = 0; i < records->size(); i += 17) {
      SCOPED_TRACE(fmt::format("record at {}", (*records)[i].at));
      auto damaged = Journal();
      for (const Bytes bit : {70U, 75U, 130U}) FlipBit(&damaged, (*records)[i].at * 8 + bit);
      OpenWith(damaged, folder_.at("/disk/store/mirror-1"));
      EXPECT_EQ(Served(false), current_.size());
      OpenWith(damaged, damaged);
      Served(false);
      EXPECT_GT(GivenUp(), 0U);
      EXPECT_EQ(Rejected(), 1U);
    }
  }
}

TEST_F(DiskDamageTest, ALostRangeOfAnOlderFolderBringsNothingBack) {
  Build(1);
  for (Bytes at = 3 * kSector; at < Journal().size(); at += 11 * kSector) {
    auto damaged = Journal();
    Zero(&damaged, at, kSector);
    OpenWith(damaged, std::nullopt);
    (void)Served(false);
  }
}

// Both files are cut off before their synced length.
TEST_F(DiskDamageTest, AJournalThatEndsBeforeWhatWasSafeBringsNothingBack) {
  Build();
  OpenWith(Journal(), std::nullopt);  // Rewrites the journal.
  ASSERT_TRUE(store_->Close());
  store_.reset();
  folder_ = Keep();
  auto journal = folder_.at(JournalName());
  const Bytes whole = journal.size();
  for (const Bytes cut : {whole / 2, whole - kPageBytes - 1}) {
    journal.resize(cut);
    PutBack(folder_);
    memory_->SetContent(JournalName(), journal);
    memory_->SetContent(MirrorName(), journal);
    Reopen();
    EXPECT_EQ(Served(), 0U) << "cut at " << cut;
    EXPECT_GT(GivenUp(), 0U);
  }
}

TEST_F(DiskDamageTest, AVoidedJournalIsNotMendedFromItsMirror) {
  Build();
  auto damaged = Journal();
  const auto header = VoidHeader();
  std::copy(header.begin(), header.end(), damaged.begin());
  const auto mirror = folder_.at("/disk/store/mirror-1");
  OpenWith(damaged, mirror);
  EXPECT_TRUE(found_.empty());
  OpenWith(std::vector<std::byte>(), mirror);
  EXPECT_TRUE(found_.empty());
  OpenWith(std::nullopt, mirror);
  EXPECT_TRUE(found_.empty()) << "a mirror alone tells of nothing";
  EXPECT_EQ(Mended(), 0U);
}

// The mirror is optional.
TEST_F(DiskDamageTest, WithoutRoomForAMirrorAllGoesOn) {
  Reopen();
  FailMirror();
  const BlobFacts a = FactsOf("a", 100);
  MustPut(a);
  faulty_->Heal();
  MustPut(FactsOf("b", 100));
  EXPECT_NE(memory_->Content(JournalName()), memory_->Content(MirrorName()));
  PutBack(Keep());
  Reopen();
  EXPECT_EQ(found_.size(), 2U);
  ExpectGood(found_.at("a").id, a);
  EXPECT_EQ(memory_->Content(JournalName()), memory_->Content(MirrorName()));
}

TEST_F(DiskDamageTest, AJournalThatLostItsMirrorGetsAnother) {
  Reopen();
  store_->RunBackground();
  EXPECT_EQ(JournalName(), "/disk/store/journal-1") << "it has one";
  FailMirror();
  MustPut(FactsOf("a", 100));
  faulty_->Heal();
  EXPECT_NE(memory_->Content(JournalName()), memory_->Content(MirrorName()));
  store_->RunBackground();
  EXPECT_EQ(JournalName(), "/disk/store/journal-2");
  EXPECT_EQ(memory_->Content(JournalName()), memory_->Content(MirrorName()));
}

}  // namespace
}  // namespace spillway
