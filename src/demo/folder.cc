#include "demo/folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/run_dir.h"
#include "demo/socket.h"

namespace spillway::demo {

namespace {

constexpr std::string_view kPrefix = "demo-";
constexpr Duration kWithin = std::chrono::seconds(1);

bool IsRam(const std::string& path) {
  constexpr auto kTmpfs = 0x01021994;
  constexpr auto kRamfs = 0x858458f6;
  struct statfs about{};
  if (::statfs(path.c_str(), &about) != 0) return true;
  return about.f_type == kTmpfs || about.f_type == static_cast<decltype(about.f_type)>(kRamfs);
}

std::string DiskOf(const std::string& run_dir, const std::string& name) {
  const std::string base = DemoDiskBase(run_dir);
  if (base == run_dir) return fmt::format("{}/{}/disk", run_dir, name);
  return fmt::format("{}/spillway-{}", base, name);
}

void Remove(const std::string& run_dir, const std::string& name) {
  std::error_code ignored;
  std::filesystem::remove_all(DiskOf(run_dir, name), ignored);
  std::filesystem::remove_all(run_dir + "/" + name, ignored);
  ::unlink(fmt::format("{}/card-{}", run_dir, name).c_str());
}

// Ended, and nobody has asked how: as the first process of some containers does.
bool IsDefunct(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_ends = line.rfind(") ");
  return name_ends != line.npos && line.substr(name_ends + 2, 1) == "Z";
}

// "demo-4711" where no process 4711 runs.
bool IsLeftBehind(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  const std::string_view digits = name.substr(kPrefix.size());
  pid_t pid = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  if (error != std::errc() || stop != digits.data() + digits.size() || pid <= 0) return false;
  return (::kill(pid, 0) != 0 && errno == ESRCH) || IsDefunct(pid);
}

// Disks of demos whose folders are gone already: RAM forgets, they do not.
void RemoveOrphans(const std::string& run_dir) {
  constexpr std::string_view kDisk = "spillway-";
  const std::string base = DemoDiskBase(run_dir);
  if (base == run_dir) return;
  std::error_code error;
  std::filesystem::directory_iterator each(base, error);
  for (; !error && each != std::filesystem::directory_iterator(); each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(kDisk)) continue;
    const std::string demo = name.substr(kDisk.size());
    if (!IsLeftBehind(demo) || std::filesystem::exists(run_dir + "/" + demo)) continue;
    std::error_code ignored;
    std::filesystem::remove_all(each->path(), ignored);
  }
}

void RemoveLeftBehind(const std::string& run_dir) {
  RemoveOrphans(run_dir);
  std::error_code error;
  std::filesystem::directory_iterator each(run_dir, error);
  for (; !error && each != std::filesystem::directory_iterator(); each.increment(error)) {
    const std::string name = each->path().filename().string();
    // A number may be unknown here and in use in another container: where somebody
    // answers, somebody is.
    if (IsLeftBehind(name) && !Socket::ConnectUnix(each->path() / "spillway.sock", kWithin)) {
      Remove(run_dir, name);
    }
  }
}

}  // namespace

std::string DemoDiskBase(const std::string& run_dir) {
  std::vector<std::string> places = {run_dir};
  if (const char* const told = std::getenv("TMPDIR"); told != nullptr && *told == '/') {
    places.emplace_back(told);
  }
  places.emplace_back("/var/tmp");
  places.emplace_back("/tmp");
  for (const std::string& place : places) {
    if (!IsRam(place) && ::access(place.c_str(), W_OK | X_OK) == 0) return place;
  }
  return run_dir;
}

Folder::Folder(std::string run_dir, std::string name)
    : run_dir_(std::move(run_dir)),
      name_(std::move(name)),
      path_(run_dir_ + "/" + name_),
      disk_(DiskOf(run_dir_, name_)) {}

Folder::~Folder() { Remove(run_dir_, name_); }

Result<std::unique_ptr<Folder>> Folder::Make() {
  const Result<std::string> run_dir = RunDir();
  if (!run_dir) return run_dir.error();
  RemoveLeftBehind(*run_dir);
  const std::string name = fmt::format("{}{}", kPrefix, ::getpid());
  Remove(*run_dir, name);  // Of one who had our number before.
  std::unique_ptr<Folder> folder(new Folder(*run_dir, name));
  if (::mkdir(folder->path().c_str(), 0700) != 0) {
    return Error{Code::kUnavailable,
                 fmt::format("cannot make {}: {}", folder->path(), std::strerror(errno))};
  }
  if (::mkdir(folder->disk().c_str(), 0700) != 0) {
    return Error{Code::kUnavailable,
                 fmt::format("cannot make {}: {}", folder->disk(), std::strerror(errno))};
  }
  return folder;
}

}  // namespace spillway::demo
