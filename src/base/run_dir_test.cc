// SPDX-License-Identifier: Apache-2.0
#include "base/run_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace spillway {
namespace {

class RunDirTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/spillway-run-dir-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    scratch_ = pattern;
    const char* before = std::getenv("SPILLWAY_RUN_DIR");
    if (before != nullptr) before_ = before;
  }
  void TearDown() override {
    if (before_.empty()) {
      ::unsetenv("SPILLWAY_RUN_DIR");
    } else {
      ::setenv("SPILLWAY_RUN_DIR", before_.c_str(), 1);
    }
    std::filesystem::remove_all(scratch_);
  }
  std::string scratch_;
  std::string before_;
};

TEST_F(RunDirTest, TheNamedOneIsMadeForItsOwnerOnly) {
  const std::string wanted = scratch_ + "/run";
  ::setenv("SPILLWAY_RUN_DIR", wanted.c_str(), 1);
  EXPECT_EQ(RunDir().value(), wanted);
  struct stat facts{};
  ASSERT_EQ(::stat(wanted.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0700U);
  EXPECT_EQ(RunDir().value(), wanted);  // The same now that it exists.
}

TEST_F(RunDirTest, TheNamedOneUnusableIsAnErrorThatNamesIt) {
  const std::string file = scratch_ + "/file";
  std::ofstream(file) << "x";
  for (const std::string& bad : {file, scratch_ + "/no/such/parent"}) {
    ::setenv("SPILLWAY_RUN_DIR", bad.c_str(), 1);
    const Result<std::string> result = RunDir();
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find(bad), std::string::npos);
  }
}

TEST_F(RunDirTest, WithoutANamedOneThereIsStillAPlace) {
  ::unsetenv("SPILLWAY_RUN_DIR");
  const Result<std::string> result = RunDir();
  ASSERT_TRUE(result);
  EXPECT_EQ(::access(result->c_str(), W_OK), 0);
}

TEST_F(RunDirTest, WhoOnlyLooksForOthersMakesNothing) {
  const std::string wanted = scratch_ + "/run";
  ::setenv("SPILLWAY_RUN_DIR", wanted.c_str(), 1);
  EXPECT_EQ(RunDirsToSearch(), std::vector<std::string>{wanted});
  EXPECT_FALSE(std::filesystem::exists(wanted));
  // The directory that a cache uses is among them.
  ::unsetenv("SPILLWAY_RUN_DIR");
  const std::string mine = RunDir().value();
  const std::vector<std::string> places = RunDirsToSearch();
  EXPECT_NE(std::find(places.begin(), places.end(), mine), places.end());
}

}  // namespace
}  // namespace spillway
