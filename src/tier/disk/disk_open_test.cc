// SPDX-License-Identifier: Apache-2.0
// Directories that cannot be used are refused and stay unchanged.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tier/disk/testing/disk_world.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::FactsOf;
using testing::FileCall;
using ::testing::HasSubstr;
using ::testing::Not;

class DiskOpenTest : public testing::DiskStoreTest {
 protected:
  // Changes only the version in the journal.
  void SetVersion(std::uint32_t version) {
    Reopen();
    MustPut(FactsOf("a", 10));
    store_.reset();
    auto journal = memory_->Content(kJournal);
    std::memcpy(journal.data() + 8, &version, sizeof version);
    memory_->SetContent(kJournal, journal);
  }
  static constexpr const char* kJournal = "/disk/store/journal-1";
};

TEST_F(DiskOpenTest, ANewerFormatIsRefusedAndLeftAlone) {
  SetVersion(JournalHeader::kVersion + 1);
  const auto names = memory_->Names();
  const auto journal = memory_->Content(kJournal);
  const auto blobs = memory_->Content("/disk/store/blobs");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(kJournal), HasSubstr("version 4"), HasSubstr("newer"),
                               HasSubstr("version 3"), HasSubstr("program that wrote it")));
  EXPECT_EQ(memory_->Names(), names);
  EXPECT_EQ(memory_->Content(kJournal), journal);
  EXPECT_EQ(memory_->Content("/disk/store/blobs"), blobs);
}

TEST_F(DiskOpenTest, AnOlderFormatIsRefused) {
  SetVersion(0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("version 0"), HasSubstr("older")));
}

TEST_F(DiskOpenTest, AJournalThatIsNotOursIsRefused) {
  Reopen();
  store_.reset();
  memory_->SetContent(kJournal, std::vector<std::byte>(100, std::byte{'x'}));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(kJournal), HasSubstr("magic")));
}

TEST_F(DiskOpenTest, SomebodyElsesDirectoryIsRefused) {
  memory_->MakeDirectory("/disk/store");
  memory_->SetOwner("/disk/store", ::geteuid() + 1);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("/disk/store"), HasSubstr("belongs to user")));
  EXPECT_EQ(memory_->Names().size(), 2U) << "something was made in it";
}

TEST_F(DiskOpenTest, ADirectoryOpenToOthersIsRefused) {
  memory_->MakeDirectory("/disk/store");
  memory_->SetPermissions("/disk/store", 0755);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("0755"), HasSubstr("0700"), HasSubstr("chmod 700")));
  EXPECT_EQ(memory_->Names().size(), 2U);
}

TEST_F(DiskOpenTest, AFileOpenToOthersIsRefused) {
  Reopen();
  store_.reset();
  memory_->SetPermissions("/disk/store/blobs", 0644);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("/disk/store/blobs"), HasSubstr("0644")));
  memory_->SetPermissions("/disk/store/blobs", 0600);
  memory_->SetOwner(kJournal, ::geteuid() + 1);
  EXPECT_THAT(Refusal(), HasSubstr("belongs to user"));
}

TEST_F(DiskOpenTest, WhatIsReadOnlyIsRefusedInTheSystemsWords) {
  faulty_->FailAll(FileCall::kOpen, EROFS);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("/disk/store"), HasSubstr("Read-only")));
  faulty_->Heal();
}

TEST_F(DiskOpenTest, ADirectoryWhoseParentIsMissingIsRefused) {
  faulty_->FailAll(FileCall::kMakeDirectory, ENOENT);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("make /disk/store"), HasSubstr("No such file")));
  faulty_->Heal();
}

TEST_F(DiskOpenTest, AFileInPlaceOfTheDirectoryIsRefused) {
  memory_->Close(memory_->Open("/disk/store", {.create = true}, nullptr));
  EXPECT_THAT(Refusal(), HasSubstr("not a directory"));
}

TEST_F(DiskOpenTest, WrongOptionsAreRefused) {
  options_.quota = 1000;
  EXPECT_THAT(Refusal(), HasSubstr("quota"));
  options_.quota = kMiB;
  options_.directory = "";
  EXPECT_THAT(Refusal(), HasSubstr("directory"));
}

TEST_F(DiskOpenTest, TwiceInOneProcessIsRefused) {
  Reopen();
  auto second = DiskStore::Open(options_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message,
              AllOf(HasSubstr("/disk/store"), HasSubstr(fmt::format("process {}", ::getpid()))));
}

TEST_F(DiskOpenTest, JournalsLeftBehindAreRemoved) {
  Reopen();
  MustPut(FactsOf("a", 10));
  store_.reset();
  for (const char* name : {"/disk/store/journal-0", "/disk/store/journal-2.new"}) {
    memory_->Close(memory_->Open(name, {.create = true}, nullptr));
  }
  memory_->Close(memory_->Open("/disk/store/notes", {.create = true}, nullptr));
  Reopen();
  EXPECT_EQ(found_.size(), 1U);
  const auto names = memory_->Names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "/disk/store/journal-0"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "/disk/store/journal-2.new"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "/disk/store/notes"), 1) << "not ours";
}

// On the real file system.
class DiskDirectoryTest : public ::testing::Test {
 protected:
  DiskDirectoryTest() {
    std::string pattern = ::testing::TempDir() + "spillway-disk-XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    options_.directory = pattern + "/store";
    options_.quota = kMiB;
    options_.min_free = 0;
    options_.background = false;
  }
  ~DiskDirectoryTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  std::string Refusal() {
    auto opened = DiskStore::Open(options_);
    return opened ? "" : opened.error().message;
  }

  std::string root_;
  DiskOptions options_;
};

TEST_F(DiskDirectoryTest, IsMadeForItsOwnerAlone) {
  options_.directory += "//";
  ASSERT_EQ(Refusal(), "");
  struct stat is{};
  ASSERT_EQ(::stat(options_.directory.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 07777U, 0700U);
  for (const auto& file : fs::directory_iterator(options_.directory)) {
    ASSERT_EQ(::stat(file.path().c_str(), &is), 0);
    EXPECT_EQ(is.st_mode & 07777U, 0600U) << file.path();
  }
}

TEST_F(DiskDirectoryTest, WithWrongPermissionsOrOwnerIsRefused) {
  ASSERT_EQ(Refusal(), "");
  ASSERT_EQ(::chmod(options_.directory.c_str(), 0500), 0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("0500"), HasSubstr("0700")));
  ASSERT_EQ(::chmod(options_.directory.c_str(), 0700), 0);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(::chown(options_.directory.c_str(), 1, 1), 0);
  EXPECT_THAT(Refusal(), HasSubstr("belongs to user 1"));
}

TEST_F(DiskDirectoryTest, ALinkIsRefused) {
  ASSERT_EQ(Refusal(), "");
  fs::create_directory_symlink(options_.directory, root_ + "/link");
  options_.directory = root_ + "/link";
  EXPECT_THAT(Refusal(), HasSubstr("link"));
}

TEST_F(DiskDirectoryTest, ThatVanishesIsNoticedAndReadsGoOn) {
  auto store = DiskStore::Open(options_);
  ASSERT_TRUE(store);
  testing::LoadAll(store->get());
  const BlobFacts facts = FactsOf("a", 10'000);
  const auto id = testing::Put(store->get(), facts);
  ASSERT_TRUE(id);
  fs::remove_all(options_.directory);
  (*store)->RunBackground();
  EXPECT_EQ((*store)->health(), BlobStore::Health::kDown);
  EXPECT_TRUE(testing::Check(store->get(), *id, facts));
}

TEST_F(DiskDirectoryTest, HeldByAnotherProcessIsRefusedUntilThatHasGone) {
  int ready[2];
  int finish[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(finish), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(finish[1]);
    auto store = DiskStore::Open(options_);
    const char answer = store ? 'y' : 'n';
    (void)!::write(ready[1], &answer, 1);
    char ignored = 0;
    (void)!::read(finish[0], &ignored, 1);
    ::_exit(0);  // Like a kill: nothing is closed properly.
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr(fmt::format("process {}", child)), HasSubstr(options_.directory)));
  ::close(finish[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(Refusal(), "");
  for (const int end : {ready[0], ready[1], finish[0]}) ::close(end);
}

}  // namespace
}  // namespace spillway
