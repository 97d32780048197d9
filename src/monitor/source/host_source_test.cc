// SPDX-License-Identifier: Apache-2.0
// The kind "host": the memory that the machine and all control groups of this
// process leave.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/host_memory.h"
#include "monitor/source/kind.h"
#include "monitor/testing/file_sources.h"

namespace spillway {
namespace {

using testing::FileSources;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Host : public FileSources {
 protected:
  Host() { Machine(1000, 800); }

  // In MiB, like all sizes here.
  void Machine(Bytes total, Bytes available) const {
    tree_.Write("proc/meminfo",
                fmt::format("MemTotal:       {} kB\nMemFree:  1 kB\nMemAvailable:   {} kB\n",
                            total * 1024, available * 1024));
  }
  void InGroups(std::string_view text) const { tree_.Write("proc/self/cgroup", text); }
  void Second(const std::string& group, std::string_view max, std::string_view high, Bytes current,
              Bytes inactive_file = 0) const {
    const std::string at = "sys/fs/cgroup" + group;
    tree_.Write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    tree_.Write(at + "/memory.max", max);
    tree_.Write(at + "/memory.high", high);
    tree_.Write(at + "/memory.current", fmt::format("{}\n", current * kMiB));
    tree_.Write(at + "/memory.stat", fmt::format("anon 5\nfile 1\nworkingset_inactive_file 9\n"
                                                 "inactive_file {}\nactive_file 3\n",
                                                 inactive_file * kMiB));
  }
  void First(const std::string& group, Bytes limit, Bytes usage, Bytes inactive_file = 0) const {
    const std::string at = "sys/fs/cgroup/memory" + group;
    tree_.Write(at + "/memory.limit_in_bytes", fmt::format("{}\n", limit));
    tree_.Write(at + "/memory.usage_in_bytes", fmt::format("{}\n", usage * kMiB));
    tree_.Write(at + "/memory.stat", fmt::format("cache 1\ninactive_file 4096\n"
                                                 "total_inactive_file {}\n",
                                                 inactive_file * kMiB));
  }
  static std::string MiB(Bytes mebibytes) { return fmt::format("{}\n", mebibytes * kMiB); }

  // "scope total free", in MiB.
  std::string Read() const {
    const auto source = HostKind().Open(tree_.Machine(), "");
    if (!source) return source.error().message;
    const Reading reading = (*source)->Read().value();
    return fmt::format("{} {} {}", reading.scope == Scope::kCgroup ? "cgroup" : "machine",
                       reading.total / kMiB, reading.free / kMiB);
  }

  static constexpr Bytes kNone = 9223372036854771712U;  // The value for "no limit" in version 1.
};

TEST_F(Host, WithoutControlGroupsTheMachineDecides) {
  EXPECT_EQ(Read(), "machine 1000 800");
  EXPECT_EQ(Open(HostKind())->name(), "host");
  const Sighting sighting = HostKind().Look(tree_.Machine());
  ASSERT_THAT(sighting.found, SizeIs(1));
  EXPECT_EQ(sighting.found[0].device, "");
  EXPECT_EQ(sighting.found[0].label, "host memory");
}

TEST_F(Host, ThereIsOnlyOne) { EXPECT_EQ(WhyNot(HostKind(), "0").code, Code::kInvalidArgument); }

TEST_F(Host, AMachineThatDoesNotSayIsAnError) {
  for (const char* text :
       {"", "MemTotal: 1 kB\n", "MemAvailable: 1 kB\n", "MemTotal: 1 kB\nMemAvailable: many\n",
        "MemTotal: 1 kB\nMemAvailable: 18446744073709551615 kB\n"}) {
    tree_.Write("proc/meminfo", text);
    EXPECT_THAT(Read(), HasSubstr("does not say how much memory is available")) << text;
  }
  tree_.Remove("proc");
  EXPECT_EQ(WhyNot(HostKind()).code, Code::kUnavailable);
  EXPECT_THAT(HostKind().Look(tree_.Machine()).found, IsEmpty());
  EXPECT_THAT(HostKind().Look(tree_.Machine()).why_not, HasSubstr("meminfo"));
}

TEST_F(Host, AbsurdFiguresOfTheMachineAreErrors) {
  Machine(0, 0);
  EXPECT_THAT(Read(), HasSubstr("a total of 0"));
  Machine(10, 11);
  EXPECT_THAT(Read(), HasSubstr("more free than there is"));
}

TEST_F(Host, ALimitOfVersion2Decides) {
  InGroups("0::/job\n");
  Second("/job", MiB(100), "max\n", 60);
  EXPECT_EQ(Read(), "cgroup 100 40");
  EXPECT_EQ(HostKind().Look(tree_.Machine()).found.at(0).label, "cgroup /job");
  Second("/job", "max\n", MiB(80), 60);  // The soft limit counts, too.
  EXPECT_EQ(Read(), "cgroup 80 20");
  Second("/job", MiB(70), MiB(80), 60);
  EXPECT_EQ(Read(), "cgroup 70 10");
  Second("/job", "max\n", "max\n", 60);
  EXPECT_EQ(Read(), "machine 1000 800");
}

TEST_F(Host, IdlePageCacheIsNotInUse) {
  InGroups("0::/job\n");
  Second("/job", MiB(100), "max\n", 95, 50);
  EXPECT_EQ(Read(), "cgroup 100 55");
  Second("/job", MiB(100), "max\n", 40, 50);  // The two are not read at the same time.
  EXPECT_EQ(Read(), "machine 1000 800");
  tree_.Remove("sys/fs/cgroup/job/memory.stat");
  EXPECT_EQ(Read(), "cgroup 100 60");
}

TEST_F(Host, MoreInUseThanTheLimitLeavesNothing) {
  InGroups("0::/job\n");
  Second("/job", MiB(100), "max\n", 120);
  EXPECT_EQ(Read(), "cgroup 100 0");
}

TEST_F(Host, TheTightestOfAllAncestorsDecides) {
  InGroups("0::/a/b/c\n");
  Second("/a", MiB(200), "max\n", 190);
  Second("/a/b", "max\n", "max\n", 150);
  Second("/a/b/c", MiB(100), "max\n", 50);
  EXPECT_EQ(Read(), "cgroup 200 10");
  EXPECT_EQ(HostKind().Look(tree_.Machine()).found.at(0).label, "cgroup /a");
  Second("/a/b/c", MiB(100), "max\n", 97);
  EXPECT_EQ(Read(), "cgroup 100 3");
  Machine(1000, 2);  // And above them all the machine.
  EXPECT_EQ(Read(), "machine 1000 2");
}

TEST_F(Host, InANamespaceOfItsOwnTheMountIsTheGroup) {
  Second("", MiB(100), "max\n", 60);
  for (const char* path :
       {"0::/\n", "0::/docker/abc\n", "0::/../other\n", "0::/gone (deleted)\n"}) {
    InGroups(path);
    EXPECT_EQ(Read(), "cgroup 100 40") << path;
  }
}

TEST_F(Host, ALimitOfVersion1Decides) {
  InGroups("5:cpu,cpuacct:/x\n4:memory:/outer/inner\n");
  First("", kNone, 900);
  First("/outer", 200 * kMiB, 190);
  First("/outer/inner", kNone, 50);
  EXPECT_EQ(Read(), "cgroup 200 10");
  First("/outer", 200 * kMiB, 190, 90);
  EXPECT_EQ(Read(), "cgroup 200 100");
  First("/outer", Bytes{1} << 60, 190);
  EXPECT_EQ(Read(), "machine 1000 800");
  InGroups("4:hugetlb,memory:/somewhere/else\n");  // Version 1 as seen in a container.
  First("", 64 * kMiB, 60);
  EXPECT_EQ(Read(), "cgroup 64 4");
}

TEST_F(Host, BesideVersion1Version2CountsWhereItHasTheMemory) {
  InGroups("4:memory:/job\n1:name=systemd:/x\n0::/job\n");
  First("/job", 100 * kMiB, 60);
  tree_.Write("sys/fs/cgroup/unified/cgroup.controllers", "\n");
  EXPECT_EQ(Read(), "cgroup 100 40");
  tree_.Write("sys/fs/cgroup/unified/job/memory.max", MiB(50));
  tree_.Write("sys/fs/cgroup/unified/job/memory.current", MiB(45));
  EXPECT_EQ(Read(), "cgroup 50 5");
}

TEST_F(Host, AGroupThatDoesNotSayIsAnErrorUntilItDoes) {
  InGroups("0::/job\n");
  Second("/job", MiB(100), "max\n", 60);
  const auto source = Open(HostKind());
  ASSERT_TRUE(source->Read());
  for (const char* garbage : {"", "lots\n", "-1\n"}) {
    tree_.Write("sys/fs/cgroup/job/memory.max", garbage);
    EXPECT_THAT(source->Read().error().message, HasSubstr("job/memory.max: no number")) << garbage;
  }
  tree_.Write("sys/fs/cgroup/job/memory.max", MiB(100));
  tree_.Remove("sys/fs/cgroup/job/memory.current");
  EXPECT_THAT(source->Read().error().message, HasSubstr("job/memory.current"));
  Second("/job", "0\n", "max\n", 60);
  EXPECT_THAT(source->Read().error().message, HasSubstr("a total of 0"));
  Second("/job", MiB(100), "max\n", 60);
  EXPECT_TRUE(source->Read());
}

TEST_F(Host, FollowsAProcessThatIsMoved) {
  Second("/a", MiB(100), "max\n", 60);
  Second("/b", MiB(100), "max\n", 90);
  InGroups("0::/a\n");
  const auto source = Open(HostKind());
  EXPECT_EQ(source->Read().value().free, 40 * kMiB);
  InGroups("0::/b\n");
  EXPECT_EQ(source->Read().value().free, 10 * kMiB);
}

TEST(HostText, PathsOfGroups) {
  const CgroupPaths both = ParseCgroupPaths("12:memory,hugetlb:/a:b\n0::/c\n1:name=memory:/d\n");
  EXPECT_EQ(both.v1, "/a:b");
  EXPECT_EQ(both.v2, "/c");
  const CgroupPaths none = ParseCgroupPaths("\nnothing\n1:x\n3:memoryless:/x");
  EXPECT_EQ(none.v1, std::nullopt);
  EXPECT_EQ(none.v2, std::nullopt);
}

TEST(HostText, TheLeastShareDecidesNotTheLeastBytes) {
  EXPECT_EQ(Tightest({{1000, 800, ""}, {100, 100, "/job"}}).free, 800U);
  EXPECT_EQ(Tightest({{1000, 800, ""}, {100, 79, "/job"}}).free, 79U);
  EXPECT_EQ(Tightest({{1000, 0, ""}, {0, 0, "/job"}}).cgroup, "");
}

TEST(HostOfThisMachine, ReadsSomethingSane) {
  const auto source = HostKind().Open(Machine{}, "");
  ASSERT_TRUE(source) << source.error().message;
  const Reading reading = (*source)->Read().value();
  EXPECT_GT(reading.total, 16 * kMiB);
  EXPECT_LT(reading.total, Bytes{1} << 50);
  EXPECT_GT(reading.free, 0U);
  EXPECT_LE(reading.free, reading.total);
  EXPECT_TRUE(reading.scope == Scope::kMachine || reading.scope == Scope::kCgroup);
}

}  // namespace
}  // namespace spillway
