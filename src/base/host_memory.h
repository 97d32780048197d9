// SPDX-License-Identifier: Apache-2.0
// Host memory as far as this process can use it: the memory of the machine, and
// the limits of the control groups that the process is in. Both versions of
// control groups count, also when a machine has both.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// One bound on the memory that this process can get.
struct MemoryBound {
  Bytes total = 0;
  Bytes free = 0;
  std::string cgroup;  // Path below the mount, "/user.slice"; empty: the whole machine.
};

// Returns all bounds: first the machine's, then those of our control groups and
// of all groups above them, if they have limits. Unused page cache counts as
// free, since the kernel reclaims it first. `proc` and `sys` are the
// directories where these are mounted. Unavailable names the file that could
// not be read.
Result<std::vector<MemoryBound>> MemoryBounds(const std::string& proc, const std::string& sys);

// Returns the bound with the smallest share of its total left. `bounds` must not be
// empty. (Not the one with the fewest bytes left: a small empty group is no pressure.)
MemoryBound Tightest(const std::vector<MemoryBound>& bounds);

// A hierarchy of control groups that may limit our memory.
struct CgroupHierarchy {
  int version = 2;
  std::string mount;  // "/sys/fs/cgroup", "/sys/fs/cgroup/memory"
  // Our group below the mount; "" for the mount itself, also when the kernel names
  // a group that is not visible here (a container shows its own group as the root).
  std::string path;
};
Result<std::vector<CgroupHierarchy>> OwnCgroups(const std::string& proc, const std::string& sys);

// --- file formats ---

// Parses the value of a line such as "MemAvailable:     123 kB" of /proc/meminfo.
std::optional<Bytes> MeminfoBytes(std::string_view meminfo, std::string_view name);

// Parses the value of a line such as "inactive_file 123" of a memory.stat.
std::optional<Bytes> StatBytes(std::string_view stat, std::string_view name);

// Parses a control group's limit; empty for "max", and for the numbers near
// 2^63 that mean the same in version 1.
Result<std::optional<Bytes>> CgroupLimit(std::string_view text);

// The content of /proc/self/cgroup: our group's path in version 2, and in
// version 1 the path of the memory controller.
struct CgroupPaths {
  std::optional<std::string> v2;
  std::optional<std::string> v1;
};
CgroupPaths ParseCgroupPaths(std::string_view text);

}  // namespace spillway
