// A Socket of the demo: connected within a bound, and every read and write on it
// ends by itself. Lines and counted bytes; it knows no protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

class Socket {
 public:
  static Result<Socket> ConnectUnix(const std::string& path, Duration within);
  static Result<Socket> ConnectHost(const std::string& host, std::uint16_t port, Duration within);
  // Of a descriptor that is connected; it is ours from then on.
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  Status SendAll(std::string_view bytes);
  // Up to the next CRLF, which is taken and not given; at most 64 KiB.
  Result<std::string> ReadLine();
  // Exactly so many. Memory is had as they come.
  Result<std::string> ReadBytes(std::size_t bytes);

 private:
  Status Fill();

  int fd_ = -1;
  std::string buffer_;     // Read and not given yet,
  std::size_t given_ = 0;  // but for so many.
};

}  // namespace spillway::demo
