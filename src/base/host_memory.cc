// SPDX-License-Identifier: Apache-2.0
#include "base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <charconv>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/small_file.h"

namespace spillway {
namespace {

// Deeper than any real tree of groups, so that a walk always ends.
constexpr int kLevelsMax = 64;
// Version 1 has no word for "no limit", only the largest multiple of a page.
constexpr Bytes kNoLimit = Bytes{1} << 60;

// The names of the same files in the two versions.
struct Names {
  std::vector<std::string_view> limits;
  std::string_view used;
  std::string_view idle_page_cache;
};
const Names& NamesOf(int version) {
  static const Names kFirst{
      {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};
  static const Names kSecond{{"memory.max", "memory.high"}, "memory.current", "inactive_file"};
  return version == 1 ? kFirst : kSecond;
}

std::string_view TakeLine(std::string_view* text) {
  const std::size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

// Parses the number at the front of `text`, after blanks.
std::optional<Bytes> Number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  Bytes value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  (void)end;
  if (error != std::errc()) return std::nullopt;
  return value;
}

Error Garbage(const std::string& file, std::string_view text) {
  return Error{Code::kUnavailable,
               fmt::format("{}: no number of bytes: '{}'", Printable(file), Printable(text))};
}

// Returns the lowest of the group's limits; empty: it has none.
Result<std::optional<Bytes>> LimitOf(const std::string& group, const Names& names) {
  std::optional<Bytes> least;
  for (const std::string_view name : names.limits) {
    const std::string file = fmt::format("{}/{}", group, name);
    const Result<std::optional<std::string>> text = ReadSmallFile(file);
    if (!text) return text.error();
    if (!*text) continue;  // The root of version 2 has none.
    const Result<std::optional<Bytes>> limit = CgroupLimit(**text);
    if (!limit) return Garbage(file, **text);
    if (*limit) least = std::min(least.value_or(**limit), **limit);
  }
  return least;
}

Result<std::optional<MemoryBound>> BoundOf(const std::string& group, const Names& names) {
  const Result<std::optional<Bytes>> limit = LimitOf(group, names);
  if (!limit) return limit.error();
  if (!*limit) return std::optional<MemoryBound>();

  const std::string used_file = fmt::format("{}/{}", group, names.used);
  const Result<std::optional<std::string>> used_text = ReadSmallFile(used_file);
  if (!used_text) return used_text.error();
  const std::optional<Bytes> used = Number(used_text->value_or(""));
  if (!used) return Garbage(used_file, used_text->value_or(""));

  // If the file says nothing about page cache, all memory counts as used.
  const Result<std::optional<std::string>> stat = ReadSmallFile(group + "/memory.stat");
  if (!stat) return stat.error();
  const Bytes idle = StatBytes(stat->value_or(""), names.idle_page_cache).value_or(0);

  MemoryBound bound;
  bound.total = **limit;
  bound.free = bound.total - std::min(bound.total, *used - std::min(*used, idle));
  return std::optional<MemoryBound>(std::move(bound));
}

// Adds the bounds of our group and of all groups above it, up to the mount.
Status AddBounds(const CgroupHierarchy& hierarchy, std::vector<MemoryBound>* bounds) {
  std::string path = hierarchy.path;
  for (int level = 0; level < kLevelsMax; ++level) {
    Result<std::optional<MemoryBound>> bound =
        BoundOf(hierarchy.mount + path, NamesOf(hierarchy.version));
    if (!bound) return bound.error();
    if (*bound) {
      (*bound)->cgroup = path.empty() ? "/" : path;
      bounds->push_back(std::move(**bound));
    }
    if (path.empty()) break;
    path.erase(path.rfind('/'));
  }
  return {};
}

Result<MemoryBound> MachineBound(const std::string& proc) {
  const std::string file = proc + "/meminfo";
  const Result<std::optional<std::string>> text = ReadSmallFile(file);
  if (!text) return text.error();
  const std::optional<Bytes> total = MeminfoBytes(text->value_or(""), "MemTotal");
  const std::optional<Bytes> free = MeminfoBytes(text->value_or(""), "MemAvailable");
  if (!total || !free) {
    return Error{Code::kUnavailable,
                 fmt::format("{} does not say how much memory is available", Printable(file))};
  }
  return MemoryBound{*total, *free, {}};
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Returns `path` as it appears below `mount`; empty for the mount itself. A
// namespace may show a group above its root as "/..", and a container's mount
// may contain only its own group.
std::string SeenBelow(const std::string& mount, std::string path) {
  while (path.ends_with('/')) path.pop_back();
  const bool leads_up = path.find("/..") != std::string::npos;
  const bool seen = path.starts_with('/') && !leads_up && Exists(mount + path);
  return seen ? path : std::string();
}

}  // namespace

std::optional<Bytes> MeminfoBytes(std::string_view meminfo, std::string_view name) {
  while (!meminfo.empty()) {
    const std::string_view line = TakeLine(&meminfo);
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with(':')) continue;
    const std::optional<Bytes> kibibytes = Number(line.substr(name.size() + 1));
    if (!kibibytes || *kibibytes > kNoLimit / kKiB) return std::nullopt;
    return *kibibytes * kKiB;
  }
  return std::nullopt;
}

std::optional<Bytes> StatBytes(std::string_view stat, std::string_view name) {
  while (!stat.empty()) {
    const std::string_view line = TakeLine(&stat);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(' ')) {
      return Number(line.substr(name.size()));
    }
  }
  return std::nullopt;
}

Result<std::optional<Bytes>> CgroupLimit(std::string_view text) {
  const std::string_view line = TakeLine(&text);
  if (line == "max") return std::optional<Bytes>();
  const std::optional<Bytes> value = Number(line);
  if (!value) {
    return Error{Code::kUnavailable, fmt::format("no limit: '{}'", Printable(line))};
  }
  return *value >= kNoLimit ? std::optional<Bytes>() : value;
}

CgroupPaths ParseCgroupPaths(std::string_view text) {
  CgroupPaths paths;
  while (!text.empty()) {
    // "4:memory,hugetlb:/some/group"; version 2 is "0::/some/group".
    const std::string_view line = TakeLine(&text);
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string path(line.substr(second + 1));
    if (line.starts_with("0::")) paths.v2 = path;
    if (controllers.find(",memory,") != std::string::npos) paths.v1 = path;
  }
  return paths;
}

Result<std::vector<CgroupHierarchy>> OwnCgroups(const std::string& proc, const std::string& sys) {
  const Result<std::optional<std::string>> text = ReadSmallFile(proc + "/self/cgroup");
  if (!text) return text.error();
  const CgroupPaths paths = ParseCgroupPaths(text->value_or(""));
  const std::string mount = sys + "/fs/cgroup";
  std::vector<CgroupHierarchy> own;
  if (paths.v2) {
    // If version 1 is mounted, too, version 2 has a folder of its own.
    const std::string beside = mount + "/unified";
    const bool hybrid = !Exists(mount + "/cgroup.controllers") && Exists(beside);
    const std::string& where = hybrid ? beside : mount;
    own.push_back({2, where, SeenBelow(where, *paths.v2)});
  }
  if (paths.v1) own.push_back({1, mount + "/memory", SeenBelow(mount + "/memory", *paths.v1)});
  return own;
}

Result<std::vector<MemoryBound>> MemoryBounds(const std::string& proc, const std::string& sys) {
  Result<MemoryBound> machine = MachineBound(proc);
  if (!machine) return machine.error();
  std::vector<MemoryBound> bounds{std::move(*machine)};
  const Result<std::vector<CgroupHierarchy>> own = OwnCgroups(proc, sys);
  if (!own) return own.error();
  for (const CgroupHierarchy& hierarchy : *own) {
    if (const Status added = AddBounds(hierarchy, &bounds); !added) return added.error();
  }
  return bounds;
}

MemoryBound Tightest(const std::vector<MemoryBound>& bounds) {
  assert(!bounds.empty());
  const auto share = [](const MemoryBound& bound) {
    return bound.total == 0 ? 0
                            : static_cast<double>(bound.free) / static_cast<double>(bound.total);
  };
  return *std::ranges::min_element(bounds, {}, share);
}

}  // namespace spillway
