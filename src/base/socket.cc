// SPDX-License-Identifier: Apache-2.0
#include "base/socket.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace spillway {

namespace {

constexpr std::size_t kLineMax = 64 * kKiB;

Error Failed(const std::string& where, const char* why) {
  return Error{Code::kUnavailable, fmt::format("{}: {}", where, why)};
}

// Connecting counts as a write, so the limit applies to it, too.
void Bound(int fd, Duration within) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(within).count();
  timeval bound{};
  bound.tv_sec = static_cast<time_t>(micros / 1'000'000);
  bound.tv_usec = static_cast<suseconds_t>(micros % 1'000'000);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
}

// Returns a descriptor, or -errno.
int Connect(int family, const sockaddr* to, socklen_t bytes, std::optional<Duration> within) {
  const int wait = within ? 0 : SOCK_NONBLOCK;
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | wait, 0);
  if (fd < 0) return -errno;
  if (within) Bound(fd, *within);
  if (::connect(fd, to, bytes) == 0) return fd;
  const int error = errno;
  ::close(fd);
  return -error;
}

}  // namespace

int ConnectUnix(const std::string& path, std::optional<Duration> within) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof to.sun_path) return -ENAMETOOLONG;
  std::memcpy(to.sun_path, path.c_str(), path.size() + 1);
  return Connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&to), sizeof to, within);
}

Result<Socket> Socket::ConnectUnix(const std::string& path, Duration within) {
  const int fd = spillway::ConnectUnix(path, within);
  if (fd < 0) return Failed(path, std::strerror(-fd));
  return Socket(fd);
}

Result<Socket> Socket::ConnectHost(const std::string& host, std::uint16_t port, Duration within) {
  const std::string where = fmt::format("{}:{}", host, port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), fmt::to_string(port).c_str(), &hints, &found);
  if (code != 0) return Failed(where, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  int fd = -EADDRNOTAVAIL;
  for (const addrinfo* each = found; each != nullptr && fd < 0; each = each->ai_next) {
    fd = Connect(each->ai_family, each->ai_addr, each->ai_addrlen, within);
  }
  if (fd < 0) return Failed(where, std::strerror(-fd));
  return Socket(fd);
}

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      given_(std::exchange(other.given_, 0)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  std::swap(given_, other.given_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Status Socket::SendAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Error{Code::kDeadline, "the other side did not read in time"};
    }
    if (sent < 0) return Failed("send", std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Status Socket::Fill() {
  std::array<char, 64 * kKiB> bytes;
  const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (got > 0) {
    buffer_.erase(0, std::exchange(given_, 0));
    buffer_.append(bytes.data(), static_cast<std::size_t>(got));
    return {};
  }
  if (got < 0 && errno == EINTR) return {};
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Error{Code::kDeadline, "no answer in time"};
  }
  return Failed("receive",
                got == 0 ? "the other side closed the connection" : std::strerror(errno));
}

Result<std::string> Socket::ReadLine() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n", given_)) == std::string::npos) {
    if (buffer_.size() - given_ > kLineMax) return Failed("receive", "a line is too long");
    if (Status ok = Fill(); !ok) return ok.error();
  }
  std::string line = buffer_.substr(given_, end - given_);
  given_ = end + 2;
  return line;
}

Result<std::string> Socket::ReadBytes(std::size_t bytes) {
  std::string out = buffer_.substr(given_, bytes);
  given_ += out.size();
  std::size_t have = out.size();
  Status read;
  // Not zeroed first, so that no page is touched for bytes that never arrive.
  out.resize_and_overwrite(bytes, [&](char* at, std::size_t) {
    while (have < bytes && read) {
      const ssize_t got = ::recv(fd_, at + have, bytes - have, 0);
      if (got > 0) {
        have += static_cast<std::size_t>(got);
      } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        read = Error{Code::kDeadline, "no answer in time"};
      } else if (got == 0 || errno != EINTR) {
        read = Failed("receive", "the other side closed the connection");
      }
    }
    return have;
  });
  if (!read) return read.error();
  return out;
}

}  // namespace spillway
