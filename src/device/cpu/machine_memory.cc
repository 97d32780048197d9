#include "device/cpu/machine_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace spillway {
namespace {

std::string ReadSmallFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number at the front of `text`, behind blanks. "max" and the like: none.
std::optional<Bytes> Number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  Bytes value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  (void)end;
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<Bytes> LeftByControlGroup() {
  const std::optional<Bytes> limit = Number(ReadSmallFile("/sys/fs/cgroup/memory.max"));
  const std::optional<Bytes> used = Number(ReadSmallFile("/sys/fs/cgroup/memory.current"));
  if (!limit || !used) return std::nullopt;
  return *limit - std::min(*limit, *used);
}

}  // namespace

std::optional<Bytes> MemAvailable(std::string_view meminfo) {
  constexpr std::string_view kLabel = "MemAvailable:";
  const std::size_t at = meminfo.find(kLabel);
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<Bytes> kibibytes = Number(meminfo.substr(at + kLabel.size()));
  if (!kibibytes) return std::nullopt;
  return *kibibytes * kKiB;
}

Result<Bytes> AvailableMemory() {
  const std::optional<Bytes> machine = MemAvailable(ReadSmallFile("/proc/meminfo"));
  if (!machine) {
    return Error{Code::kUnavailable, "/proc/meminfo does not say how much memory is available"};
  }
  return std::min(*machine, LeftByControlGroup().value_or(*machine));
}

}  // namespace spillway
