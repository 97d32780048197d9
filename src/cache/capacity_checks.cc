// SPDX-License-Identifier: Apache-2.0
#include "cache/capacity_checks.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/host_memory.h"
#include "base/parse.h"
#include "base/printable.h"

namespace spillway {

namespace {

// Prints both in bytes if they would look alike.
std::pair<std::string, std::string> Figures(Bytes asked, Bytes limit) {
  std::pair shown(FormatBytes(asked), FormatBytes(limit));
  if (shown.first == shown.second) shown = {fmt::format("{} B", asked), fmt::format("{} B", limit)};
  return shown;
}

// The machine, or the control group with the least limit.
std::optional<MemoryBound> LeastTotal(const Machine& machine) {
  const Result<std::vector<MemoryBound>> bounds = MemoryBounds(machine.proc, machine.sys);
  if (!bounds) return std::nullopt;
  return *std::ranges::min_element(*bounds, {}, &MemoryBound::total);
}

Error TooMuch(std::string_view what, Bytes asked, const MemoryBound& bound) {
  const auto [want, have] = Figures(asked, bound.total);
  const std::string whose =
      bound.cgroup.empty()
          ? fmt::format("this machine has {} of memory", have)
          : fmt::format("control group {} may use {}", Printable(bound.cgroup), have);
  return Bad(fmt::format("{} {}, and {} in all", what, want, whose));
}

}  // namespace

Status CheckAgainstMemory(const Options& options, const Machine& machine) {
  const std::optional<MemoryBound> bound = LeastTotal(machine);
  if (!bound) return {};
  const Bytes device = options.device == "cpu" ? options.capacity.value_or(0) : 0;
  const Bytes host = options.host_capacity.value_or(0);
  if (device > bound->total) return TooMuch("capacity is", device, *bound);
  if (host > bound->total) return TooMuch("host_capacity is", host, *bound);
  if (device + host > bound->total) {
    return TooMuch(fmt::format("host_capacity is {} and capacity {}, which together is",
                               FormatBytes(host), FormatBytes(device)),
                   device + host, *bound);
  }
  return {};
}

Status CheckAgainstDisk(const Options& options) {
  if (options.disk_dir.empty() || !options.disk_capacity) return {};
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(options.disk_dir, error);
  while (!at.empty() && at.has_relative_path() && !std::filesystem::exists(at, error)) {
    at = at.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(at, error);
  if (error || *options.disk_capacity <= space.capacity) return {};
  const auto [want, have] = Figures(*options.disk_capacity, space.capacity);
  return Bad(fmt::format("disk_capacity is {}, and the file system of disk_dir '{}' has {} in all",
                         want, Printable(options.disk_dir), have));
}

Status CheckCapacities(const Options& options) {
  if (Status ok = CheckAgainstMemory(options, Machine::FromEnvironment()); !ok) return ok;
  return CheckAgainstDisk(options);
}

Status CheckAgainstDevice(std::string_view setting, Bytes capacity, const Device& device) {
  if (capacity > device.total()) {
    const auto [want, have] = Figures(capacity, device.total());
    return Bad(fmt::format("{} is {}, and {} has {} in all", setting, want, device.name(), have));
  }
  if (capacity >= device.chunk_bytes()) return {};
  const auto [want, least] = Figures(capacity, device.chunk_bytes());
  return Bad(fmt::format(
      "{} is {}, which is less than one chunk: {} gives and takes memory in chunks of {}", setting,
      want, device.name(), least));
}

}  // namespace spillway
