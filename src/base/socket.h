// SPDX-License-Identifier: Apache-2.0
// A connected stream socket. All code that connects is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// Connects to a Unix socket. Returns a descriptor (closed on exec), or -errno.
// With `within`, connecting and each later read and write fail after that time.
// Without it none of them blocks: a full queue at the other side gives -EAGAIN.
int ConnectUnix(const std::string& path, std::optional<Duration> within = {});

// A socket whose reads and writes all have a time limit. Reads lines and
// counted bytes; knows no protocol.
class Socket {
 public:
  // Errors name the address and the system's error.
  static Result<Socket> ConnectUnix(const std::string& path, Duration within);
  static Result<Socket> ConnectHost(const std::string& host, std::uint16_t port, Duration within);
  // Takes over a connected descriptor.
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  Status SendAll(std::string_view bytes);
  // Reads up to the next CRLF, which is consumed and not returned; at most 64 KiB.
  Result<std::string> ReadLine();
  // Reads exactly this many bytes. Memory is touched only as they arrive.
  Result<std::string> ReadBytes(std::size_t bytes);

 private:
  Status Fill();

  int fd_ = -1;
  std::string buffer_;     // Received bytes,
  std::size_t given_ = 0;  // of which this many have been returned.
};

}  // namespace spillway
