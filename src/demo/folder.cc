#include "demo/folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/run_dir.h"
#include "demo/socket.h"

namespace spillway::demo {

namespace {

constexpr std::string_view kPrefix = "demo-";
constexpr Duration kWithin = std::chrono::seconds(1);

void Remove(const std::string& run_dir, const std::string& name) {
  std::error_code ignored;
  std::filesystem::remove_all(run_dir + "/" + name, ignored);
  ::unlink(fmt::format("{}/card-{}", run_dir, name).c_str());
}

// "demo-4711" where there is no process 4711.
bool IsLeftBehind(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  const std::string_view digits = name.substr(kPrefix.size());
  pid_t pid = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  if (error != std::errc() || stop != digits.data() + digits.size() || pid <= 0) return false;
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

void RemoveLeftBehind(const std::string& run_dir) {
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

Folder::Folder(std::string run_dir, std::string name)
    : run_dir_(std::move(run_dir)), name_(std::move(name)), path_(run_dir_ + "/" + name_) {}

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
  return folder;
}

}  // namespace spillway::demo
