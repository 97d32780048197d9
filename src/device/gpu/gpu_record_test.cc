// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_record.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/gpu/gpu_list.h"
#include "device/testing/scratch_run_dir.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

class GpuRecordTest : public ::testing::Test {
 protected:
  GpuRecordTest() : root_(scratch_.path() + "/state") {
    ::setenv("SPILLWAY_STATE_DIR", root_.c_str(), 1);
  }
  ~GpuRecordTest() override { ::unsetenv("SPILLWAY_STATE_DIR"); }

  static GpuRecord Found(bool exit, bool release) {
    GpuRecord record{.uuid = "GPU-1", .kind = "cuda", .version = "13000-580.65.06"};
    record.stale_after_exit = exit;
    record.stale_after_release = release;
    record.searched = 2 * kGiB;
    record.when = "2026-11-15T21:40:02Z";
    return record;
  }
  static std::optional<GpuRecord> Read() {
    return ReadGpuRecord("GPU-1", "cuda", "13000-580.65.06");
  }

  testing::ScratchRunDir scratch_;
  const std::string root_;
};

TEST_F(GpuRecordTest, IsReadAsItWasWritten) {
  EXPECT_FALSE(Read());
  const Result<std::string> path = WriteGpuRecord(Found(false, true));
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(*path, root_ + "/gpu/GPU-1-cuda-13000-580.65.06.json");
  const std::optional<GpuRecord> record = Read();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->stale_after_exit, false);
  EXPECT_EQ(record->stale_after_release, true);
  EXPECT_TRUE(record->stale());
  EXPECT_EQ(record->searched, 2 * kGiB);
  EXPECT_EQ(record->when, "2026-11-15T21:40:02Z");
  ASSERT_TRUE(WriteGpuRecord(Found(false, false)));
  EXPECT_FALSE(Read()->stale());
}

TEST_F(GpuRecordTest, OfCopiesIsAFileOfItsOwn) {
  ASSERT_TRUE(WriteGpuRecord(Found(true, true)));
  EXPECT_FALSE(ReadCopyRecord("GPU-1", "cuda", "13000-580.65.06"));
  const auto path = WriteCopyRecord({"GPU-1", "cuda", "13000-580.65.06", 128 * kKiB, "today"});
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(*path, root_ + "/gpu/GPU-1-cuda-13000-580.65.06-copies.json");
  const auto record = ReadCopyRecord("GPU-1", "cuda", "13000-580.65.06");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->gather_below, 128 * kKiB);
  EXPECT_EQ(record->when, "today");
  EXPECT_FALSE(ReadCopyRecord("GPU-1", "cuda", "13000-580.65.07"));
  EXPECT_TRUE(Read()->stale());
  std::ofstream(*path)
      << R"({"uuid":"GPU-1","kind":"cuda","driver":"13000-580.65.06","gather_below":-1})";
  EXPECT_FALSE(ReadCopyRecord("GPU-1", "cuda", "13000-580.65.06"));
}

TEST_F(GpuRecordTest, CountsForItsGpuAndDriverAlone) {
  ASSERT_TRUE(WriteGpuRecord(Found(true, true)));
  EXPECT_FALSE(ReadGpuRecord("GPU-2", "cuda", "13000-580.65.06"));
  EXPECT_FALSE(ReadGpuRecord("GPU-1", "hip", "13000-580.65.06"));
  EXPECT_FALSE(ReadGpuRecord("GPU-1", "cuda", "13000-580.65.07"));
}

TEST_F(GpuRecordTest, NonsenseIsNotKnown) {
  const std::string path = WriteGpuRecord(Found(true, true)).value();
  for (const char* text : {"", "[]", "{", "{}", "{\"uuid\":7}", "null"}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_FALSE(Read()) << text;
  }
  std::ofstream(path, std::ios::trunc)
      << R"({"uuid":"GPU-1","kind":"cuda","driver":"13000-580.65.06","stale_after_exit":"yes"})";
  ASSERT_TRUE(Read());
  EXPECT_FALSE(Read()->stale());
  // Text from a driver never leads out of the folder.
  GpuRecord odd = Found(true, false);
  odd.version = "../../x/\n";
  EXPECT_THAT(WriteGpuRecord(odd).value(), HasSubstr("/gpu/GPU-1-cuda-.._.._x__.json"));
}

TEST_F(GpuRecordTest, AStateDirectoryThatCanNotBeUsedIsAnError) {
  std::ofstream(scratch_.path() + "/file") << "x";
  ::setenv("SPILLWAY_STATE_DIR", (scratch_.path() + "/file").c_str(), 1);
  const Result<std::string> path = WriteGpuRecord(Found(true, true));
  ASSERT_FALSE(path);
  EXPECT_THAT(path.error().message, HasSubstr("SPILLWAY_STATE_DIR"));
  EXPECT_FALSE(Read());
}

TEST_F(GpuRecordTest, TheVersionIsThatOfLibraryAndModule) {
  const std::string proc = scratch_.path() + "/proc";
  const std::string sys = scratch_.path() + "/sys";
  GpuDriver driver;
  driver.version = 13000;
  EXPECT_EQ(VersionText(driver, proc, sys), "13000");
  std::filesystem::create_directories(proc + "/driver/nvidia");
  std::filesystem::create_directories(proc + "/sys/kernel");
  const auto nvidia = [&](const char* line) {
    std::ofstream(proc + "/driver/nvidia/version", std::ios::trunc) << line;
    return VersionText(driver, proc, sys);
  };
  EXPECT_EQ(nvidia("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\n"),
            "13000-580.65.06");
  EXPECT_EQ(nvidia("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release\n"),
            "13000-575.57.08");
  EXPECT_EQ(nvidia("something else\n"), "13000");
  driver.kind = GpuKind::kHip;
  std::ofstream(proc + "/sys/kernel/osrelease") << "6.12.1-amd64\n";
  EXPECT_EQ(VersionText(driver, proc, sys), "13000-6.12.1-amd64");
  std::filesystem::create_directories(sys + "/module/amdgpu");
  std::ofstream(sys + "/module/amdgpu/version") << "6.10.5\n";
  EXPECT_EQ(VersionText(driver, proc, sys), "13000-6.10.5");
}

TEST(GpuName, IsAVendorAndPerhapsWhich) {
  EXPECT_EQ(ParseGpuName("cuda")->kind, GpuKind::kCuda);
  EXPECT_EQ(ParseGpuName("hip:GPU-1")->kind, GpuKind::kHip);
  EXPECT_EQ(ParseGpuName("hip:GPU-1")->which, "GPU-1");
  for (const char* wrong : {"", "cpu", "cuda:", "cudax", "cuda0", "GPU-1"}) {
    EXPECT_FALSE(ParseGpuName(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace spillway
