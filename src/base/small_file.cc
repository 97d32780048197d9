// SPDX-License-Identifier: Apache-2.0
#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"

namespace spillway {
namespace {

Error Failed(const std::string& path, int number) {
  return Error{Code::kUnavailable, fmt::format("{}: {}", Printable(path), std::strerror(number))};
}

std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Result<std::optional<SmallFile>> SmallFile::Open(const std::string& path) {
  // A NUL would end the name early and open another file.
  if (path.empty() || path.find('\0') != std::string::npos) return Failed(path, ENOENT);
  SmallFile file(path, -1);  // Created first, so that it closes the descriptor.
  // Without O_NONBLOCK, opening a FIFO without a writer would block.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<SmallFile>();
    return Failed(path, errno);
  }
  file.fd_ = fd;
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) return Failed(path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} is {}, not a file", Printable(path), KindOf(facts.st_mode))};
  }
  return std::optional<SmallFile>(std::move(file));
}

SmallFile::SmallFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

SmallFile::SmallFile(SmallFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

SmallFile& SmallFile::operator=(SmallFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

SmallFile::~SmallFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::string> SmallFile::Read(std::size_t most) const {
  std::string text(most + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got =
        ::pread(fd_, text.data() + size, text.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(path_, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > most) {
    return Error{Code::kUnavailable,
                 fmt::format("{} is longer than {} bytes", Printable(path_), most)};
  }
  text.resize(size);
  return text;
}

Result<std::optional<std::string>> ReadSmallFile(const std::string& path, std::size_t most) {
  const Result<std::optional<SmallFile>> file = SmallFile::Open(path);
  if (!file) return file.error();
  if (!*file) return std::optional<std::string>();
  Result<std::string> text = (*file)->Read(most);
  if (!text) return text.error();
  return std::optional<std::string>(std::move(*text));
}

}  // namespace spillway
