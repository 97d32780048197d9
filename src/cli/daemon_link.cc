#include "cli/daemon_link.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/small_file.h"

namespace spillway {

namespace {

constexpr std::size_t kReplyMax = std::size_t{256} << 20U;

// Reads and writes end by themselves.
void Bound(int fd, Duration within) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(within).count();
  timeval bound{};
  bound.tv_sec = static_cast<time_t>(micros / 1'000'000);
  bound.tv_usec = static_cast<suseconds_t>(micros % 1'000'000);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
}

Error NotThere(const DaemonAddress& address, const std::string& why) {
  return {Code::kUnavailable,
          fmt::format("no spillwayd answers at {}: {}; start one, or say where it is (--socket, "
                      "--port)",
                      address.Text(), why)};
}

Result<int> Connect(const DaemonAddress& address) {
  if (!address.socket.empty()) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (address.socket.size() >= sizeof to.sun_path)
      return NotThere(address, "the path is too long");
    std::memcpy(to.sun_path, address.socket.c_str(), address.socket.size() + 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return NotThere(address, std::strerror(errno));
    Bound(fd, address.within);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
    const int code = errno;
    ::close(fd);
    return NotThere(address, std::strerror(code));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) return NotThere(address, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  std::string why = "it has no address";
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (fd < 0) continue;
    Bound(fd, address.within);
    if (::connect(fd, each->ai_addr, each->ai_addrlen) == 0) return fd;
    why = std::strerror(errno);
    ::close(fd);
  }
  return NotThere(address, why);
}

Result<std::string> PasswordIn(const std::string& path) {
  const Result<std::optional<std::string>> text = ReadSmallFile(path);
  if (!text) return text.error();
  if (!*text) return Error{Code::kInvalidArgument, path + ": there is no such file"};
  return (*text)->substr(0, (*text)->find_first_of("\r\n"));
}

}  // namespace

void DaemonAddress::AddOptions(CLI::App* app) {
  app->add_option("--socket", socket, "Path of the daemon's Unix socket");
  app->add_option("--host", host, "Where it listens, without a socket")->capture_default_str();
  app->add_option("--port", port, "Its TCP port, without a socket")->capture_default_str();
  app->add_option("--password-file", password_file, "File whose first line is the password");
}

std::string DaemonAddress::Text() const {
  return socket.empty() ? fmt::format("{}:{}", host, port) : socket;
}

Result<DaemonLink> DaemonLink::Open(const DaemonAddress& address) {
  std::string password;
  if (!address.password_file.empty()) {
    Result<std::string> read = PasswordIn(address.password_file);
    if (!read) return read.error();
    password = std::move(*read);
  }
  const Result<int> fd = Connect(address);
  if (!fd) return fd.error();
  DaemonLink link(*fd);
  if (password.empty()) return link;
  const Result<std::string> let_in = link.Ask({"AUTH", password});
  if (!let_in) return let_in.error();
  return link;
}

DaemonLink::DaemonLink(DaemonLink&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}

DaemonLink& DaemonLink::operator=(DaemonLink&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

DaemonLink::~DaemonLink() {
  if (fd_ >= 0) ::close(fd_);
}

Status DaemonLink::Fill() {
  char bytes[16384];
  const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
  if (got > 0) {
    buffer_.append(bytes, static_cast<std::size_t>(got));
    return {};
  }
  if (got < 0 && errno == EINTR) return {};
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Error{Code::kDeadline, "the daemon did not answer in time"};
  }
  return Error{Code::kUnavailable, "the daemon closed the connection"};
}

Result<std::string> DaemonLink::Line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (buffer_.size() > kReplyMax) return Error{Code::kUnavailable, "this is no spillwayd"};
    if (Status ok = Fill(); !ok) return ok.error();
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

Result<std::string> DaemonLink::Ask(const std::vector<std::string_view>& words) {
  std::string request = fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) {
    request += fmt::format("${}\r\n{}\r\n", word.size(), word);
  }
  for (std::size_t sent = 0; sent < request.size();) {
    const ssize_t bytes = ::send(fd_, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return Error{Code::kUnavailable, "the daemon closed the connection"};
    sent += static_cast<std::size_t>(bytes);
  }
  const Result<std::string> line = Line();
  if (!line) return line.error();
  const char kind = line->empty() ? '\0' : line->front();
  const std::string rest = line->empty() ? std::string() : line->substr(1);
  if (kind == '+' || kind == ':') return rest;
  if (kind == '-') return Error{Code::kUnavailable, "the daemon says: " + rest};
  std::size_t bytes = 0;
  const auto [stop, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
  const bool whole = wrong == std::errc() && stop == rest.data() + rest.size();
  if (kind != '$' || !whole || bytes > kReplyMax) {
    return Error{Code::kUnavailable, "what answers there is no spillwayd"};
  }
  while (buffer_.size() < bytes + 2) {
    if (Status ok = Fill(); !ok) return ok.error();
  }
  std::string text = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes + 2);
  return text;
}

}  // namespace spillway
