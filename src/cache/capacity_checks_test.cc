// SPDX-License-Identifier: Apache-2.0
// Impossible capacities: more than the machine, a control group, a file system or a
// device has in all, or less than one chunk.
#include "cache/capacity_checks.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parse.h"
#include "cache/testing/scratch_folder.h"
#include "device/cpu/cpu_device.h"
#include "device/host/host_pool.h"
#include "device/testing/scratch_run_dir.h"
#include "spillway/cache.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A machine of 8 GiB, and a control group that may use 3 GiB of it.
class CapacityChecks : public ::testing::Test {
 protected:
  CapacityChecks() {
    machine_.proc = (root_ / "proc").string();
    machine_.sys = (root_ / "sys").string();
    Write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\n");
    Write("proc/self/cgroup", "0::/group\n");
    Write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  }
  void LimitTo(Bytes bytes) {
    Write("sys/fs/cgroup/group/memory.max", std::to_string(bytes) + "\n");
    Write("sys/fs/cgroup/group/memory.current", "0\n");
  }
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = (root_ / "").string() + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string Refusal(const Options& options) {
    const Status ok = CheckAgainstMemory(options, machine_);
    if (ok) return "(fine)";
    EXPECT_EQ(ok.error().code, Code::kInvalidArgument);
    return ok.error().message;
  }
  static Options With(std::optional<Bytes> capacity, std::optional<Bytes> host = {}) {
    Options options;
    options.capacity = capacity;
    options.host_capacity = host;
    return options;
  }

  testing::ScratchFolder root_;
  Machine machine_;
};

TEST_F(CapacityChecks, MoreThanTheMachineHasIsRefusedWithBothFigures) {
  EXPECT_EQ(Refusal(With(8 * kGiB)), "(fine)");  // The limit is the total, not what is free.
  EXPECT_EQ(Refusal(With(9 * kGiB)),
            "capacity is 9 GiB, and this machine has 8 GiB of memory in all");
  EXPECT_EQ(Refusal(With({}, 9 * kGiB)),
            "host_capacity is 9 GiB, and this machine has 8 GiB of memory in all");
  EXPECT_EQ(Refusal(With(8 * kGiB + 1)),
            "capacity is 8589934593 B, and this machine has 8589934592 B of memory in all");
  EXPECT_THAT(Refusal(With(~Bytes{0}, ~Bytes{0})), StartsWith("capacity is "));
  EXPECT_EQ(Refusal(With({})), "(fine)");
}

TEST_F(CapacityChecks, TiersThatTogetherNeedMoreThanThereIsAreRefused) {
  EXPECT_EQ(Refusal(With(3 * kGiB, 5 * kGiB)), "(fine)");
  EXPECT_EQ(Refusal(With(4 * kGiB, 5 * kGiB)),
            "host_capacity is 5 GiB and capacity 4 GiB, which together is 9 GiB, and this machine "
            "has 8 GiB of memory in all");
}

TEST_F(CapacityChecks, AControlGroupCountsAsTheMachine) {
  LimitTo(3 * kGiB);
  EXPECT_EQ(Refusal(With(3 * kGiB)), "(fine)");
  EXPECT_EQ(Refusal(With(4 * kGiB)),
            "capacity is 4 GiB, and control group /group may use 3 GiB in all");
  EXPECT_EQ(Refusal(With({}, 4 * kGiB)),
            "host_capacity is 4 GiB, and control group /group may use 3 GiB in all");
}

TEST_F(CapacityChecks, AGpusCapacityIsNoMemoryOfTheMachine) {
  Options options = With(100 * kGiB, 5 * kGiB);
  options.device = "cuda:0";
  EXPECT_EQ(Refusal(options), "(fine)");
}

TEST_F(CapacityChecks, AMachineThatDoesNotSayRefusesNothing) {
  machine_.proc = (root_ / "nowhere").string();
  EXPECT_EQ(Refusal(With(~Bytes{0})), "(fine)");
}

TEST_F(CapacityChecks, MoreThanTheFileSystemHasIsRefusedWithBothFigures) {
  Options options;
  options.disk_dir = (root_ / "not/made/yet").string();
  const Bytes size = std::filesystem::space(root_ / "").capacity;
  options.disk_capacity = size;
  EXPECT_TRUE(CheckAgainstDisk(options));
  options.disk_capacity = 2 * size;
  const Status much = CheckAgainstDisk(options);
  ASSERT_FALSE(much);
  EXPECT_THAT(much.error().message, AllOf(StartsWith("disk_capacity is " + FormatBytes(2 * size)),
                                          HasSubstr(options.disk_dir),
                                          HasSubstr("has " + FormatBytes(size) + " in all")));
}

TEST_F(CapacityChecks, LessThanOneChunkIsRefusedWithBothFigures) {
  const auto card = CpuDevice::Open({.name = {}, .total = kMiB, .chunk_bytes = 64 * kKiB});
  ASSERT_TRUE(card);
  EXPECT_TRUE(CheckAgainstDevice("capacity", 64 * kKiB, **card));
  const Status small = CheckAgainstDevice("capacity", 64 * kKiB - 1, **card);
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error().message,
              AllOf(StartsWith("capacity is 65535 B, which is less than one chunk: cpu"),
                    HasSubstr("in chunks of 65536 B")));
  const Status large = CheckAgainstDevice("capacity", 2 * kMiB, **card);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().message, "capacity is 2 MiB, and cpu has 1 MiB in all");
}

// --- Cache::Open, on the memory of this machine ---

std::string OpenRefusal(const Options& options) {
  const auto cache = Cache::Open(options);
  if (cache) return "(fine)";
  EXPECT_EQ(cache.error().code, Code::kInvalidArgument);
  return cache.error().message;
}

TEST_F(CapacityChecks, OpenRefusesWhatThisMachineDoesNotHave) {
  Options options;
  options.capacity = Bytes{1} << 60;
  EXPECT_THAT(OpenRefusal(options), AllOf(StartsWith("capacity is "), HasSubstr(" in all")));
  options.capacity = 4 * kMiB;
  options.host_capacity = Bytes{1} << 60;
  EXPECT_THAT(OpenRefusal(options), AllOf(StartsWith("host_capacity is "), HasSubstr(" in all")));
  options.host_capacity.reset();
  options.disk_dir = (root_ / "disk").string();
  options.disk_capacity = Bytes{1} << 62;
  EXPECT_THAT(OpenRefusal(options), AllOf(StartsWith("disk_capacity is "), HasSubstr(" in all")));
  EXPECT_FALSE(std::filesystem::exists(options.disk_dir)) << "nothing is left of it";
}

TEST_F(CapacityChecks, OpenHeedsTheControlGroupItIsIn) {
  LimitTo(64 * kMiB);
  ::setenv("SPILLWAY_PROC_ROOT", machine_.proc.c_str(), 1);
  ::setenv("SPILLWAY_SYS_ROOT", machine_.sys.c_str(), 1);
  Options options;
  options.capacity = 65 * kMiB;
  const std::string refusal = OpenRefusal(options);
  ::unsetenv("SPILLWAY_PROC_ROOT");
  ::unsetenv("SPILLWAY_SYS_ROOT");
  EXPECT_EQ(refusal, "capacity is 65 MiB, and control group /group may use 64 MiB in all");
}

TEST_F(CapacityChecks, OpenRefusesWhatIsLessThanAChunk) {
  Options options;
  for (const Bytes bytes : {Bytes{1}, Bytes{4095}}) {
    options.capacity = bytes;
    EXPECT_THAT(OpenRefusal(options), AllOf(StartsWith("capacity is "), HasSubstr("chunks of 4")));
  }
  options.capacity = 4096;
  EXPECT_EQ(OpenRefusal(options), "(fine)");
  options.capacity = 4 * kMiB;
  options.host_capacity = kMiB - 1;
  EXPECT_THAT(OpenRefusal(options), AllOf(StartsWith("host_capacity is "), HasSubstr("chunk")));
  options.host_capacity = kMiB;
  EXPECT_EQ(OpenRefusal(options), "(fine)");
  options.disk_dir = (root_ / "disk").string();
  options.disk_capacity = kMiB - 1;
  EXPECT_THAT(OpenRefusal(options),
              HasSubstr("disk_capacity is 1048575 bytes: it must be at least"));
}

TEST_F(CapacityChecks, OnASharedCardAChunkIsTheCards) {
  const testing::ScratchRunDir run_dir;
  const auto card = CpuDevice::Open({.name = "checks", .total = kGiB, .chunk_bytes = {}});
  ASSERT_TRUE(card);
  Options options;
  options.card = "checks";
  options.capacity = kMiB;
  EXPECT_EQ(OpenRefusal(options),
            "capacity is 1 MiB, which is less than one chunk: cpu:checks gives and takes memory in "
            "chunks of 4 MiB");
  options.capacity = 2 * kGiB;
  EXPECT_EQ(OpenRefusal(options), "capacity is 2 GiB, and cpu:checks has 1 GiB in all");
}

}  // namespace
}  // namespace spillway
