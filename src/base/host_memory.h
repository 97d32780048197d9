// Host memory as this process can use it: what the machine has, and what the
// control groups the process is in leave of that. Both versions of control
// groups count, side by side where a machine has both.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// One bound on what we can have.
struct MemoryBound {
  Bytes total = 0;
  Bytes free = 0;
  std::string cgroup;  // "/user.slice", seen from the mount; empty: the machine.
};

// All that hold now: the machine's first, then those of our control groups and
// of all groups above them, as far as they have a limit. Page cache nobody uses
// counts as free, since the kernel gives it up first. `proc` and `sys` are
// where these are mounted. Unavailable names the file that does not say.
Result<std::vector<MemoryBound>> MemoryBounds(const std::string& proc, const std::string& sys);

// The one that has the least share of itself left. `bounds` is not empty. (Not
// the one with the least bytes left: an empty small group is no pressure.)
MemoryBound Tightest(const std::vector<MemoryBound>& bounds);

// A hierarchy of control groups that may bound our memory.
struct CgroupHierarchy {
  int version = 2;
  std::string mount;  // "/sys/fs/cgroup", "/sys/fs/cgroup/memory"
  // Our group below it, "" for the mount itself: also when the kernel names one
  // that can't be seen from here (a container shows its own group as the root).
  std::string path;
};
Result<std::vector<CgroupHierarchy>> OwnCgroups(const std::string& proc, const std::string& sys);

// --- the texts ---

// The value of "MemAvailable:     123 kB" in /proc/meminfo.
std::optional<Bytes> MeminfoBytes(std::string_view meminfo, std::string_view name);

// The value of "inactive_file 123" in a memory.stat.
std::optional<Bytes> StatBytes(std::string_view stat, std::string_view name);

// A control group's limit; nothing for "max" and for the numbers near 2^63 by
// which version 1 says the same.
Result<std::optional<Bytes>> CgroupLimit(std::string_view text);

// What /proc/self/cgroup says: our group's path in version 2, and in version 1
// where it has the memory.
struct CgroupPaths {
  std::optional<std::string> v2;
  std::optional<std::string> v1;
};
CgroupPaths ParseCgroupPaths(std::string_view text);

}  // namespace spillway
