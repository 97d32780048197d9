#include "demo/folder.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "device/testing/scratch_run_dir.h"

namespace spillway::demo {
namespace {

namespace fs = std::filesystem;

TEST(Folder, IsOursAloneAndGoesWithUs) {
  const spillway::testing::ScratchRunDir run_dir;
  std::string path;
  {
    const auto folder = Folder::Make();
    ASSERT_TRUE(folder) << folder.error().message;
    path = (*folder)->path();
    EXPECT_EQ(path, run_dir.path() + "/" + (*folder)->name());
    struct stat about{};
    ASSERT_EQ(::stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777U, 0700U);
    std::ofstream(path + "/spillwayd.toml") << "x";
    std::ofstream(run_dir.CardPath((*folder)->name())) << "x";
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(run_dir.path()));
}

TEST(Folder, TakesAwayWhatTheDeadLeftAndNothingElse) {
  const spillway::testing::ScratchRunDir run_dir;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string left = "demo-" + std::to_string(dead);
  const std::string alive = "demo-" + std::to_string(::getppid());
  for (const std::string& name :
       {left, alive, std::string("demo-"), std::string("demo-x1"), std::string("mine")}) {
    fs::create_directory(run_dir.path() + "/" + name);
    std::ofstream(run_dir.path() + "/" + name + "/file") << "x";
  }
  std::ofstream(run_dir.CardPath(left)) << "x";
  ASSERT_TRUE(Folder::Make());
  EXPECT_FALSE(fs::exists(run_dir.path() + "/" + left));
  EXPECT_FALSE(fs::exists(run_dir.CardPath(left)));
  for (const std::string& name :
       {alive, std::string("demo-"), std::string("demo-x1"), std::string("mine")}) {
    EXPECT_TRUE(fs::exists(run_dir.path() + "/" + name + "/file")) << name;
  }
}

// In RAM there is no disk: then it is elsewhere, and goes with us all the same.
TEST(Folder, ADiskIsNotInRam) {
  const std::string shm = "/dev/shm/spillway-folder-test-" + std::to_string(::getpid());
  const spillway::testing::ScratchRunDir run_dir;
  if (::mkdir(shm.c_str(), 0700) != 0) GTEST_SKIP() << "no /dev/shm";
  ::setenv("SPILLWAY_RUN_DIR", shm.c_str(), 1);
  ::setenv("TMPDIR", run_dir.path().c_str(), 1);
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string orphan = run_dir.path() + "/spillway-demo-" + std::to_string(dead);
  fs::create_directory(orphan);
  std::string disk;
  {
    const auto folder = Folder::Make();
    ASSERT_TRUE(folder) << folder.error().message;
    disk = (*folder)->disk();
    EXPECT_TRUE(disk.starts_with(run_dir.path())) << disk;
    EXPECT_TRUE(fs::is_directory(disk));
    EXPECT_FALSE(fs::exists(orphan));
  }
  EXPECT_FALSE(fs::exists(disk));
  EXPECT_TRUE(fs::is_empty(shm));
  fs::remove_all(shm);
  ::unsetenv("TMPDIR");
}

TEST(Folder, OneWhoEndedAndWasNotReapedIsDeadToo) {
  const spillway::testing::ScratchRunDir run_dir;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(dead), &ended, WEXITED | WNOWAIT), 0);
  const std::string left = run_dir.path() + "/demo-" + std::to_string(dead);
  fs::create_directory(left);
  ASSERT_TRUE(Folder::Make());
  EXPECT_FALSE(fs::exists(left));
  ::waitpid(dead, nullptr, 0);
}

TEST(Folder, WithoutARunDirectoryThereIsNone) {
  const spillway::testing::ScratchRunDir run_dir;
  ::setenv("SPILLWAY_RUN_DIR", "/proc/nowhere", 1);
  EXPECT_FALSE(Folder::Make());
}

}  // namespace
}  // namespace spillway::demo
