// SPDX-License-Identifier: Apache-2.0
// On the real file system: io_uring, full disks, kills, threads.
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "base/testing/sanitized.h"
#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using testing::Check;
using testing::FactsOf;
using testing::FoundMap;
using testing::LoadAll;
using testing::Put;

// Processor time of this thread: on a busy machine wall time includes other work.
double ThreadSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);  // real world: what it cost this thread
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

class DiskRealTest : public ::testing::TestWithParam<bool> {
 protected:
  DiskRealTest() {
    std::string pattern = ::testing::TempDir() + "spillway-disk-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    options_.directory = pattern + "/store";
    options_.quota = 64 * kMiB;
    options_.min_free = 0;
  }
  ~DiskRealTest() override {
    store_.reset();
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  void Reopen() {
    store_.reset();
    auto opened = DiskStore::Open(options_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
    found_ = LoadAll(store_.get(), options_.background);
  }
  static std::size_t OpenFiles() {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
  }

  std::string root_;
  DiskOptions options_;
  std::unique_ptr<DiskStore> store_;
  FoundMap found_;
};

TEST_P(DiskRealTest, RoundTripsAndReopens) {
  const std::size_t before = OpenFiles();
  options_.files = RealFiles(GetParam());
  Reopen();
  EXPECT_LE(store_->stats().together, GetParam());
  std::map<std::string, BlobFacts> all;
  for (const Bytes size : {Bytes{0}, Bytes{1}, Bytes{4095}, Bytes{4096}, kMiB + 1, 5 * kMiB}) {
    const BlobFacts facts = FactsOf(fmt::format("key {}", size), size);
    const auto id = Put(store_.get(), facts);
    ASSERT_TRUE(id) << id.error().message;
    all[facts.key] = facts;
    const Status status = Check(store_.get(), *id, facts);
    EXPECT_TRUE(status) << status.error().message;
  }
  Reopen();
  EXPECT_EQ(found_.size(), all.size());
  for (const auto& [key, found] : found_) {
    const Status status = Check(store_.get(), found.id, all.at(key));
    EXPECT_TRUE(status) << status.error().message;
  }
  store_.reset();
  options_.files.reset();
  EXPECT_EQ(OpenFiles(), before);
}

INSTANTIATE_TEST_SUITE_P(Ways, DiskRealTest, ::testing::Bool(), [](const auto& way) {
  return std::string(way.param ? "ByUring" : "OneAfterAnother");
});

TEST_F(DiskRealTest, FourThreadsWriteReadAndFreeWhileItSyncs) {
  Reopen();
  constexpr int kThreads = 4;
  std::atomic<int> stored{0};
  // Allocate and Free belong to the strand: one thread at a time.
  Mutex strand;
  const auto work = [&](int thread) {
    std::mt19937_64 random(static_cast<std::uint64_t>(thread));
    std::vector<std::pair<BlobId, BlobFacts>> mine;
    for (int i = 0; i < 60; ++i) {
      const BlobFacts facts = FactsOf(fmt::format("{} {}", thread, i), random() % (2 * kMiB));
      Result<BlobId> id = [&] {
        const MutexLock lock(strand);
        return store_->Allocate(facts);
      }();
      if (id) {
        const auto value = testing::ValueOf(facts);
        const Source source(value.data(), value.size());
        const Status status = store_->Write(*id, facts, Seal::Of(source), source, nullptr);
        ASSERT_TRUE(status) << status.error().message;
        mine.emplace_back(*id, facts);
        ++stored;
      }
      if (i % 16 == 0) {
        ASSERT_TRUE(store_->Sync());
      }
      if (mine.size() > 6) {
        const std::size_t victim = random() % mine.size();
        const Status status = Check(store_.get(), mine[victim].first, mine[victim].second);
        EXPECT_TRUE(status) << status.error().message;
        const MutexLock lock(strand);
        store_->Free(mine[victim].first);
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(victim));
      }
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(stored, kThreads * 50);
  Reopen();
  EXPECT_EQ(found_.size(), kThreads * 6U);
  for (const auto& [key, found] : found_) EXPECT_TRUE(Check(store_.get(), found.id, found.facts));
}

// The child writes blobs until it is killed, and reports each one that was written.
TEST_F(DiskRealTest, WhatWasWrittenSurvivesAKill) {
  options_.background = false;
  for (int round = 0; round < 5; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto store = DiskStore::Open(options_);
      if (!store) ::_exit(1);
      FoundMap found = LoadAll(store->get());
      for (int i = 0;; i = (i + 1) % 50) {
        const BlobFacts facts = FactsOf(fmt::format("{}", i), 20'000U + static_cast<Bytes>(i), 1);
        if (found.contains(facts.key)) (*store)->Free(found.at(facts.key).id);
        const auto id = Put(store->get(), facts);
        if (!id) ::_exit(1);
        found[facts.key].id = *id;
        (void)!::write(pipe[1], &i, sizeof i);
      }
    }
    ::close(pipe[1]);
    int last = -1;
    for (int told = 0; told < 20 + 17 * round; ++told) {
      ASSERT_EQ(::read(pipe[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    while (::read(pipe[0], &last, sizeof last) > 0) continue;
    ::close(pipe[0]);
    Reopen();
    EXPECT_TRUE(found_.contains(fmt::format("{}", last))) << "it was told of, and is gone";
    for (const auto& [key, found] : found_) {
      const Status read = Check(store_.get(), found.id, found.facts);
      EXPECT_TRUE(read) << key << ": " << read.error().message;
    }
    EXPECT_EQ(store_->stats().recovery_rejected, 0U);
    store_.reset();
  }
}

TEST_F(DiskRealTest, AFullFileSystemIsNoMemoryAndPassesBy) {
  const std::string mount_point = root_ + "/small";
  fs::create_directory(mount_point);
  if (::mount("none", mount_point.c_str(), "tmpfs", 0, "size=8m") != 0) {
    GTEST_SKIP() << "mount is refused: " << std::strerror(errno);
  }
  options_.directory = mount_point + "/store";
  options_.background = false;
  Reopen();
  std::vector<std::pair<BlobId, BlobFacts>> blobs;
  Code code = Code::kInternal;
  for (int i = 0; i < 20; ++i) {
    const BlobFacts facts = FactsOf(fmt::format("{}", i), kMiB);
    const auto id = Put(store_.get(), facts);
    if (!id) {
      code = id.error().code;
      break;
    }
    blobs.emplace_back(*id, facts);
  }
  EXPECT_EQ(code, Code::kNoMemory);
  EXPECT_GE(blobs.size(), 3U);
  EXPECT_EQ(store_->health(), BlobStore::Health::kGood);
  for (const auto& [id, facts] : blobs) EXPECT_TRUE(Check(store_.get(), id, facts));
  // Freed space can be allocated again at once.
  store_->Free(blobs.back().first);
  blobs.pop_back();
  EXPECT_TRUE(Put(store_.get(), FactsOf("again", kMiB)));
  EXPECT_TRUE(store_->Sync());
  Reopen();
  EXPECT_EQ(found_.size(), blobs.size() + 1);
  for (const auto& [key, found] : found_) EXPECT_TRUE(Check(store_.get(), found.id, found.facts));
  store_.reset();
  EXPECT_EQ(::umount(mount_point.c_str()), 0);
}

TEST_F(DiskRealTest, AFileSizeLimitIsNoMemory) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4 * kMiB, 4 * kMiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    options_.background = false;
    auto store = DiskStore::Open(options_);
    if (!store) ::_exit(1);
    LoadAll(store->get());
    const BlobFacts facts = FactsOf("a", kMiB);
    const auto fits = Put(store->get(), facts);
    const auto refused = Put(store->get(), FactsOf("b", 8 * kMiB));
    const bool right = fits && !refused && refused.error().code == Code::kNoMemory &&
                       (*store)->health() == BlobStore::Health::kGood &&
                       Check(store->get(), *fits, facts);
    ::_exit(right ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(DiskRealTest, AHundredThousandEntriesLoadWithinASecond) {
  options_.quota = 2 * kGiB;
  options_.background = false;
  Reopen();
  store_.reset();
  // A realistic journal over a data file of holes.
  std::vector<std::byte> journal;
  {
    auto files = RealFiles(false);
    const std::string path = options_.directory + "/journal-1";
    const int file = files->Open(path, {}, nullptr);
    ASSERT_GE(file, 0);
    std::vector<std::byte> head(JournalHeader::kBytes);
    ASSERT_EQ(ReadFully(*files, file, 0, head.data(), head.size()), 0);
    const auto header = DecodeJournalHeader(head);
    ASSERT_TRUE(header && *header);
    journal = head;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      BlobFacts facts = FactsOf(fmt::format("agent/session/{:032}", i), 4000, i + 1);
      facts.agent = "agent";
      facts.parent_declared = true;
      facts.parent = fmt::format("agent/session/{:032}", i / 2);
      facts.meta = std::string(100, 'm');
      auto record = EncodePut(i + 1, {{i * 8192, 8192}, {}, facts});
      Finish((*header)->Seed(), &record);
      journal.insert(journal.end(), record.begin(), record.end());
    }
    ASSERT_EQ(WriteFully(*files, file, 0, journal.data(), journal.size()), 0);
    files->Close(file);
    const int data = files->Open(options_.directory + "/blobs", {}, nullptr);
    ASSERT_EQ(files->Truncate(data, 100'000 * Bytes{8192}), 0);
    files->Close(data);
  }
  const auto files = std::make_shared<testing::FaultyFiles>(RealFiles());
  options_.files = files;
  const double begin = ThreadSeconds();
  auto opened = DiskStore::Open(options_);
  ASSERT_TRUE(opened) << opened.error().message;
  std::size_t found = 0;
  bool is_done = false;
  (*opened)->StartLoading([&](std::vector<BlobStore::Found> batch, bool done) {
    EXPECT_LE(batch.size(), 1000U);
    found += batch.size();
    is_done = done;
  });
  (*opened)->RunBackground();
  const double took = ThreadSeconds() - begin;
  EXPECT_TRUE(is_done);
  EXPECT_EQ(found, 100'000U);
  RecordProperty("milliseconds", static_cast<int>(took * 1000));
  RecordProperty("file_calls", static_cast<int>(files->calls()));
  EXPECT_LT(took, kSanitized ? 60.0 : 5.0) << "a second on a machine of its own";
  // Nor does it wait for the disk once per blob.
  EXPECT_LT(files->calls(), 1000U);
}

}  // namespace
}  // namespace spillway
