// SPDX-License-Identifier: Apache-2.0
// Faults: disks that are full, gone, slow, damaged or owned by another user. The cache
// survives, counts and explains, and never serves a wrong byte.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "cache/testing/tiers_fixture.h"
#include "spillway/log.h"
#include "tier/disk/testing/faulty_files.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using testing::Bulk;
using testing::FaultyFiles;
using testing::FileCall;
using ::testing::HasSubstr;
using testing::TiersTest;

class CacheFaults : public TiersTest {
 protected:
  // From now on calls of that kind on the files fail with `error_`.
  void UseFaultyFiles() {
    auto files = std::make_shared<FaultyFiles>(RealFiles());
    files->SetScript([this](FileCall call, std::uint64_t, int) {
      return call == failing_.load() ? error_.load() : 0;
    });
    seams_.files = files;
  }
  void Fail(FileCall call, int error) {
    failing_ = call;
    error_ = error;
  }
  void Heal() { error_ = 0; }

  // Opens as another process would; returns the error.
  std::string Refusal() {
    cache_.reset();
    const auto cache = Cache::Open(options_);
    return cache ? "" : cache.error().message;
  }
  void SetMany(int from, int to, std::size_t bytes) {
    for (int i = from; i < to; ++i) {
      const std::string key = "k" + std::to_string(i);
      if (!Set(key, Bulk(key, bytes))) ++refused_;
    }
  }
  // Each value must be right or missing; returns how many are there.
  int CountRight(int from, int to, std::size_t bytes) {
    int hits = 0;
    for (int i = from; i < to; ++i) {
      const std::string key = "k" + std::to_string(i);
      const auto got = cache_->Get(key);
      if (!got || !*got) continue;
      EXPECT_EQ((*got)->text(), Bulk(key, bytes)) << key;
      ++hits;
    }
    return hits;
  }
  // A file system of its own under the disk tier.
  bool MountSmall(const std::string& size) {
    mounted_ = scratch_ / "mount";
    std::filesystem::create_directory(mounted_);
    const std::string how = "size=" + size;
    if (::mount("spillway", mounted_.c_str(), "tmpfs", 0, how.c_str()) != 0) {
      mounted_.clear();
      return false;
    }
    options_.disk_dir = (mounted_ / "disk").string();
    return true;
  }
  ~CacheFaults() override {
    cache_.reset();
    if (!mounted_.empty()) ::umount2(mounted_.c_str(), MNT_DETACH);
  }

  std::atomic<FileCall> failing_{FileCall::kRead};
  std::atomic<int> error_{0};
  std::filesystem::path mounted_;
  int refused_ = 0;
};

// Bug: a small value's block, brought up from disk, was not marked as clean in its
// slab; the first free of it ended the process.
TEST_F(CacheFaults, ASmallValueThatCameUpFromDiskCanGoAgain) {
  ASSERT_TRUE(Open().Start());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Set("small" + std::to_string(i), "value"));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Get("small" + std::to_string(i)), "value");
  EXPECT_EQ(cache_->stats().host.bytes, cache_->stats().host.clean);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(cache_->Erase("small" + std::to_string(i)));
  cache_->Clear();
  EXPECT_EQ(cache_->stats().host.bytes, 0U);
}

// --- the file system ---

TEST_F(CacheFaults, AFullDiskIsATierThatTakesNoMore) {
  if (!MountSmall("6m")) GTEST_SKIP() << "needs the right to mount a tmpfs: root, or CAP_SYS_ADMIN";
  options_.disk_capacity = 6 * kMiB;
  ASSERT_TRUE(Open().Start());
  SetMany(0, 60, 512 * kKiB);  // 30 MiB: all of memory, and more than the disk takes.
  // Entries that only memory holds are copied down in the background.
  ASSERT_TRUE(Eventually([](const Stats& stats) {
    return stats.moves.in_flight == 0 && stats.disk.bytes > 2 * kMiB;
  }));
  EXPECT_EQ(refused_, 0) << "what was lowest made room";
  EXPECT_GE(CountRight(0, 60, 512 * kKiB), 32) << "the host tier's worth";
  const Stats stats = cache_->stats();
  EXPECT_LE(stats.disk.bytes, 6 * kMiB);
  EXPECT_EQ(stats.disk.files.trouble, "");
}

TEST_F(CacheFaults, AFolderWithoutSpaceIsNamed) {
  options_.disk_dir = "/proc/nowhere";
  options_.disk_capacity.reset();
  const auto cache = Cache::Open(options_);
  ASSERT_FALSE(cache);
  EXPECT_THAT(cache.error().message, HasSubstr("disk_dir '/proc/nowhere'"));
  EXPECT_THAT(cache.error().message, HasSubstr("set disk_capacity"));
}

TEST_F(CacheFaults, SomebodyElseFillsTheDisk) {
  if (!MountSmall("12m"))
    GTEST_SKIP() << "needs the right to mount a tmpfs: root, or CAP_SYS_ADMIN";
  options_.disk_capacity = 12 * kMiB;
  ASSERT_TRUE(Open().Start());
  SetMany(0, 4, kMiB);
  ASSERT_TRUE(AllBacked());
  {
    std::ofstream filler(mounted_ / "filler", std::ios::binary);
    const std::string block(kMiB, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  SetMany(4, 20, kMiB);
  EXPECT_EQ(refused_, 0);
  EXPECT_EQ(CountRight(0, 20, kMiB), 20) << "upper tiers have room";
  std::filesystem::remove(mounted_ / "filler");
  // The tier is used again as soon as there is space.
  EXPECT_TRUE(Eventually([](const Stats& stats) { return stats.disk.bytes >= 6 * kMiB; }));
  EXPECT_EQ(cache_->stats().disk.files.trouble, "");
}

TEST_F(CacheFaults, AFileSystemThatBecomesReadOnly) {
  UseFaultyFiles();
  ASSERT_TRUE(Open().Start());
  SetMany(0, 4, kMiB);
  ASSERT_TRUE(AllBacked());
  Fail(FileCall::kWrite, EROFS);
  SetMany(4, 20, kMiB);
  EXPECT_EQ(refused_, 0);
  EXPECT_TRUE(Eventually([](const Stats& stats) { return stats.disk.files.io_errors > 0; }));
  EXPECT_EQ(CountRight(0, 20, kMiB), 20);
  EXPECT_GT(cache_->stats().disk.failed_moves, 0U);
  Heal();
  EXPECT_TRUE(Eventually([](const Stats& stats) { return stats.disk.bytes == 20 * kMiB; }));
}

TEST_F(CacheFaults, AFolderThatIsRemovedUnderUs) {
  ASSERT_TRUE(Open().Start());
  SetMany(0, 30, kMiB);
  ASSERT_TRUE(AllBacked());
  std::filesystem::remove_all(options_.disk_dir);
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.disk.files.trouble.empty(); }));
  EXPECT_THAT(cache_->stats().disk.files.trouble, HasSubstr("was removed"));
  // The files are still open: what is in them can be read, but nothing is added.
  EXPECT_EQ(CountRight(0, 30, kMiB), 30);
  const Bytes on_disk = cache_->stats().disk.bytes;
  SetMany(30, 34, kMiB);
  CountRight(0, 34, kMiB);
  EXPECT_LE(cache_->stats().disk.bytes, on_disk);
  cache_.reset();
  Open();
  EXPECT_EQ(cache_->size(), 0U);
}

// --- reading ---

TEST_F(CacheFaults, AReadErrorIsAnErrorAndPasses) {
  UseFaultyFiles();
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", kMiB)));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  Open();
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  Fail(FileCall::kRead, EIO);
  const auto got = cache_->Get("a");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnavailable);
  EXPECT_THAT(got.error().message, HasSubstr("blobs"));
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.disk.files.io_errors, 1U);
  EXPECT_EQ(stats.moves.fetches_failed, 1U);
  EXPECT_EQ(stats.entries, 1U) << "an error may pass: nothing is forgotten";
  EXPECT_THAT(cache_->Explain("a"), HasSubstr("disk"));
  Heal();
  EXPECT_EQ(Get("a"), Bulk("a", kMiB));
}

// Bug: values lent for one read each were given back only between Start and Stop; after
// some of them no cold key could be read any more.
TEST_F(CacheFaults, ManyColdReadsWithoutStart) {
  options_.host_capacity = kMiB;
  options_.capacity = kMiB;
  options_.disk_capacity = 256 * kMiB;
  ASSERT_TRUE(Open().Start());
  SetMany(0, 50, 2 * kMiB);
  EXPECT_EQ(refused_, 0);
  cache_->Stop();
  EXPECT_EQ(CountRight(0, 50, 2 * kMiB), 50);
  EXPECT_LE(cache_->stats().moves.staging_bytes, 64 * kMiB);
}

TEST_F(CacheFaults, ADamagedBlobIsAMiss) {
  ASSERT_TRUE(Open().Start());
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Set(key, Bulk(key, 100'000)));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  {
    std::fstream blobs(std::filesystem::path(options_.disk_dir) / "blobs",
                       std::ios::in | std::ios::out | std::ios::binary);
    std::stringstream all;
    all << blobs.rdbuf();
    const std::string b = Bulk("b", 100'000);
    const std::size_t at = all.str().find(b.substr(0, 64));
    ASSERT_NE(at, std::string::npos);
    blobs.seekp(static_cast<std::streamoff>(at + 77'777));
    blobs.put(static_cast<char>(b[77'777] ^ 4));
  }
  TakeTold();
  Open();
  EXPECT_EQ(Get("a"), Bulk("a", 100'000));
  EXPECT_EQ(Get("b"), "(miss)");
  EXPECT_EQ(Get("b"), "(miss)");
  EXPECT_EQ(Get("c"), Bulk("c", 100'000));
  const Stats stats = cache_->stats();
  EXPECT_EQ(stats.disk.files.corrupt, 1U);
  EXPECT_EQ(stats.moves.corrupt, 1U);
  EXPECT_EQ(stats.removed_by_reason[static_cast<std::size_t>(Reason::kCorrupt)], 1U);
  EXPECT_GT(stats.disk.files.quarantined, 0U);
  EXPECT_THAT(cache_->Explain("b"), HasSubstr("damaged"));
  ASSERT_TRUE(Set("b", Bulk("b", 100'000, 1)));
  EXPECT_EQ(Get("b"), Bulk("b", 100'000, 1));
}

// --- sizes ---

TEST_F(CacheFaults, ALowerTierMayBeTheSmaller) {
  std::string log;
  SetLog(LogLevel::kInfo, [&log](LogLevel, std::string_view text) { log += text; });
  options_.host_capacity = 2 * kMiB;
  options_.disk_capacity = 4 * kMiB;
  ASSERT_TRUE(Open().Start());
  SetLog(LogLevel::kInfo);
  EXPECT_THAT(log, AllOf(HasSubstr("host tier"), HasSubstr("disk tier"),
                         HasSubstr("smaller than the device tier")));
  SetMany(0, 24, 512 * kKiB);
  EXPECT_EQ(refused_, 0);
  EXPECT_GE(CountRight(0, 24, 512 * kKiB), 14) << "the device alone has room for 16";
}

TEST_F(CacheFaults, WhatIsLargerThanATierGoesToOneThatFits) {
  options_.capacity = kMiB;
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("host", Bulk("host", 4 * kMiB)));
  EXPECT_THAT(cache_->Explain("host"), HasSubstr("in the host"));
  ASSERT_TRUE(Eventually([](const Stats& stats) { return !stats.loading; }));
  ASSERT_TRUE(Set("disk", Bulk("disk", 20 * kMiB)));
  EXPECT_THAT(cache_->Explain("disk"), HasSubstr("in the disk tier"));
  EXPECT_EQ(Get("disk"), Bulk("disk", 20 * kMiB));
  EXPECT_EQ(Get("host"), Bulk("host", 4 * kMiB));
  const Status refused = Set("none", Bulk("none", 65 * kMiB));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
}

// --- what a kill leaves ---

// Bug: the journal recorded that a value was replaced or erased only a moment after the
// write was answered; a kill in between brought it back.
TEST_F(CacheFaults, WhatWasReplacedOrErasedDoesNotComeBackAfterAKill) {
  ASSERT_TRUE(Open().Start());
  for (const char* key : {"erased", "replaced", "leased", "stays"}) {
    ASSERT_TRUE(Set(key, Bulk(key, 100'000)));
  }
  ASSERT_TRUE(AllBacked());
  cache_->Stop();  // So that nothing is copied down any more.
  const auto lease = cache_->Get("leased");
  EXPECT_TRUE(cache_->Erase("erased"));
  ASSERT_TRUE(Set("replaced", Bulk("replaced", 100'000, 1)));
  EXPECT_TRUE(cache_->Erase("leased"));
  // The files as they are at this moment.
  const std::filesystem::path killed = scratch_ / "killed";
  std::filesystem::copy(options_.disk_dir, killed);
  std::filesystem::permissions(killed, std::filesystem::perms::owner_all);
  EXPECT_EQ((*lease)->text(), Bulk("leased", 100'000));
  cache_.reset();
  options_.disk_dir = killed.string();
  Open();
  EXPECT_EQ(Get("stays"), Bulk("stays", 100'000));
  for (const char* key : {"erased", "replaced", "leased"}) EXPECT_EQ(Get(key), "(miss)") << key;
}

TEST_F(CacheFaults, WhatIsErasedWhileTheDiskIsBeingReadStaysErased) {
  auto files = std::make_shared<FaultyFiles>(RealFiles());
  std::atomic<bool> hung{false};
  const std::thread::id self = std::this_thread::get_id();
  files->SetScript([&hung, self](FileCall call, std::uint64_t, int) {
    if (call == FileCall::kRead && std::this_thread::get_id() != self) hung.wait(true);
    return 0;
  });
  seams_.files = files;
  ASSERT_TRUE(Open().Start());
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Set(key, Bulk(key, 100'000)));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  hung = true;
  Open();
  EXPECT_FALSE(cache_->Erase("a")) << "it waits, but not for ever";
  ASSERT_TRUE(Set("b", Bulk("b", 1000, 1)));
  cache_->Erase("b");
  EXPECT_TRUE(cache_->stats().loading);
  hung = false;
  hung.notify_all();
  EXPECT_EQ(Get("a"), "(miss)");
  EXPECT_EQ(Get("b"), "(miss)");
  EXPECT_EQ(Get("c"), Bulk("c", 100'000));
}

// --- opening ---

TEST_F(CacheFaults, AFolderOpenToOthersIsRefused) {
  std::filesystem::create_directory(options_.disk_dir);
  ASSERT_EQ(::chmod(options_.disk_dir.c_str(), 0755), 0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(options_.disk_dir), HasSubstr("0755"), HasSubstr("0700")));
}

TEST_F(CacheFaults, SomebodyElsesFolderIsRefused) {
  std::filesystem::create_directory(options_.disk_dir);
  ASSERT_EQ(::chmod(options_.disk_dir.c_str(), 0700), 0);
  if (::chown(options_.disk_dir.c_str(), 65534, 65534) != 0)
    GTEST_SKIP() << "needs the right to give a folder away: root, or CAP_CHOWN";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(options_.disk_dir), HasSubstr("65534")));
}

TEST_F(CacheFaults, AFolderWithoutAParentIsRefused) {
  options_.disk_dir = (scratch_ / "not" / "there").string();
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(options_.disk_dir), HasSubstr("No such file")));
}

TEST_F(CacheFaults, ANewerFormatIsRefusedAndLeftAlone) {
  ASSERT_TRUE(Open().Start());
  ASSERT_TRUE(Set("a", Bulk("a", 100'000)));
  ASSERT_TRUE(AllBacked());
  cache_.reset();
  const auto write_version = [&](char version) {
    std::fstream journal(std::filesystem::path(options_.disk_dir) / "journal-1",
                         std::ios::in | std::ios::out | std::ios::binary);
    journal.seekp(8);  // After the magic number.
    journal.put(version);
  };
  write_version(4);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("journal-1"), HasSubstr("newer")));
  write_version(3);
  Open();
  EXPECT_EQ(Get("a"), Bulk("a", 100'000));
}

}  // namespace
}  // namespace spillway
