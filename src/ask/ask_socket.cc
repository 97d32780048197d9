// SPDX-License-Identifier: Apache-2.0
#include "ask/ask_socket.h"

#include <dirent.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ask/protocol.h"
#include "ask/unix_socket.h"
#include "base/mutex.h"
#include "base/socket.h"

namespace spillway {
namespace {

constexpr std::string_view kPrefix = "ask-";
constexpr int kBacklog = 64;
// The most caches of one process on one device.
constexpr int kDoorsMax = 256;

Error Failed(std::string_view what, const std::string& path, int error) {
  return Error{Code::kUnavailable, fmt::format("{} {}: {}", what, path, std::strerror(error))};
}

// The pid in "123" or "123.2".
std::optional<pid_t> PidOf(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::optional<pid_t> {
    pid_t value = 0;
    const char* const begin = digits.data();
    const char* const end = begin + digits.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || stop != end || value <= 0) return std::nullopt;
    return value;
  };
  const std::size_t point = text.find('.');
  if (point != std::string_view::npos && !number(text.substr(point + 1))) return std::nullopt;
  return number(text.substr(0, point));
}

std::optional<AskSocketName> ParseName(const std::string& run_dir, std::string_view file) {
  if (!file.starts_with(kPrefix)) return std::nullopt;
  const std::size_t dash = file.rfind('-');
  if (dash <= kPrefix.size()) return std::nullopt;
  const std::string_view device = file.substr(kPrefix.size(), dash - kPrefix.size());
  const std::optional<pid_t> pid = PidOf(file.substr(dash + 1));
  if (!pid || !IsAskDevice(device)) return std::nullopt;
  return AskSocketName{fmt::format("{}/{}", run_dir, file), std::string(device), *pid};
}

// Whether the socket's process has ended. A socket that is bound but does not listen yet refuses
// connections, too; therefore the pid is checked first.
bool IsStale(const AskSocketName& name, bool ours_may_be) {
  const bool may_live = ::kill(name.pid, 0) == 0 || errno != ESRCH;
  if (may_live && !(ours_may_be && name.pid == ::getpid())) return false;
  const int fd = ConnectUnix(name.path);
  if (fd >= 0) ::close(fd);
  return fd == -ECONNREFUSED;
}

void RemoveStale(const std::string& run_dir) {
  for (const AskSocketName& name : FindAskSockets({run_dir}, "")) {
    if (IsStale(name, false)) ::unlink(name.path.c_str());
  }
}

Status LetGroupIn(const std::string& run_dir, gid_t group) {
  struct stat facts{};
  if (::stat(run_dir.c_str(), &facts) != 0) return Failed("ask: stat", run_dir, errno);
  if (facts.st_uid != ::geteuid()) return {};  // Whoever made it knows why.
  if (facts.st_gid != group && ::chown(run_dir.c_str(), static_cast<uid_t>(-1), group) != 0) {
    return Failed("ask: chown", run_dir, errno);
  }
  if ((facts.st_mode & 0050U) != 0050U &&
      ::chmod(run_dir.c_str(), (facts.st_mode & 07777U) | 0050U) != 0) {
    return Failed("ask: chmod", run_dir, errno);
  }
  return {};
}

// Between bind and listen a socket of ours looks like that of a dead process, so both happen under
// this mutex.
Mutex& BindMutex() {
  static auto* mutex = new Mutex;
  return *mutex;
}

Status Listen(int fd, const std::string& path, std::optional<gid_t> group) {
  // No connection is possible before it listens; until then its mode does not matter.
  if (group && ::chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return Failed("ask: chown", path, errno);
  }
  if (::chmod(path.c_str(), group ? 0660 : 0600) != 0) return Failed("ask: chmod", path, errno);
  if (::listen(fd, kBacklog) != 0) return Failed("ask: listen", path, errno);
  return {};
}

}  // namespace

std::vector<AskSocketName> FindAskSockets(const std::vector<std::string>& run_dirs,
                                          std::string_view device) {
  std::vector<AskSocketName> found;
  for (const std::string& run_dir : run_dirs) {
    DIR* const dir = ::opendir(run_dir.c_str());
    if (dir == nullptr) continue;
    while (const dirent* const entry = ::readdir(dir)) {
      std::optional<AskSocketName> name = ParseName(run_dir, entry->d_name);
      if (name && (device.empty() || name->device == device)) found.push_back(std::move(*name));
    }
    ::closedir(dir);
  }
  std::ranges::sort(found, {}, &AskSocketName::path);
  return found;
}

Result<gid_t> FindGroup(const std::string& name) {
  gid_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error == std::errc() && stop == end && !name.empty()) return number;
  std::vector<char> buffer(1 << 16);
  group entry{};
  group* found = nullptr;
  ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found != nullptr) return found->gr_gid;
  return Error{Code::kInvalidArgument,
               fmt::format("ask_group: '{}' is no group of this machine", name)};
}

Result<AskSocket> AskSocket::Open(const std::string& run_dir, const std::string& device,
                                  std::optional<gid_t> group) {
  if (!IsAskDevice(device)) {
    return Error{Code::kInvalidArgument, fmt::format("'{}' can't name a socket", device)};
  }
  if (group) {
    if (Status ok = LetGroupIn(run_dir, *group); !ok) return ok.error();
  }
  const MutexLock lock(BindMutex());
  RemoveStale(run_dir);
  for (int n = 1; n <= kDoorsMax; ++n) {
    std::string path = fmt::format("{}/{}{}-{}", run_dir, kPrefix, device, ::getpid());
    if (n > 1) path += fmt::format(".{}", n);
    // An earlier process with our pid may have left its socket.
    if (IsStale({path, device, ::getpid()}, true)) ::unlink(path.c_str());
    const int fd = BindUnix(path);
    if (fd == -EADDRINUSE) continue;
    if (fd == -ENAMETOOLONG) {
      return Error{Code::kUnavailable,
                   fmt::format("{} is too long a path for a socket: SPILLWAY_RUN_DIR can name a "
                               "shorter run directory",
                               path)};
    }
    if (fd < 0) return Failed("ask: bind", path, -fd);
    AskSocket socket(fd, std::move(path));
    if (Status ok = Listen(socket.fd_, socket.path_, group); !ok) return ok.error();
    return socket;
  }
  return Error{Code::kUnavailable,
               fmt::format("ask: {} caches of this process on device '{}' listen already",
                           kDoorsMax, device)};
}

AskSocket::AskSocket(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
  struct stat facts{};
  if (::stat(path_.c_str(), &facts) != 0) return;
  device_ = facts.st_dev;
  inode_ = facts.st_ino;
}

AskSocket::AskSocket(AskSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      device_(other.device_),
      inode_(other.inode_) {}

AskSocket::~AskSocket() {
  if (fd_ < 0) return;
  struct stat facts{};
  if (::stat(path_.c_str(), &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  ::close(fd_);
}

void AskSocket::CloseInChild() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Status MayAsk(int connection, std::optional<gid_t> group) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Error{Code::kUnavailable, "the asking process cannot be identified"};
  }
  if (peer.uid == ::geteuid() || peer.uid == 0) return {};
  if (group) {
    if (peer.gid == *group) return {};
    std::vector<gid_t> groups(1 << 12);
    socklen_t bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) == 0) {
      groups.resize(bytes / sizeof(gid_t));
      if (std::ranges::find(groups, *group) != groups.end()) return {};
    }
  }
  return Error{Code::kInvalidArgument,
               fmt::format("user {} may not ask here; user {}, root{} may", peer.uid, ::geteuid(),
                           group ? fmt::format(" and group {}", *group) : "")};
}

}  // namespace spillway
