// Asks the daemon's HTTP side, over one connection that is made anew when it is
// gone. Only what `spillwayd` answers is understood: a status, a length, a body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "demo/socket.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

struct HttpAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7380;
  std::string password = {};  // Empty: none is said.
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, Duration within = std::chrono::seconds(5))
      : HttpClient(HttpAddress{.port = port}, within) {}
  explicit HttpClient(HttpAddress address, Duration within = std::chrono::seconds(5))
      : address_(std::move(address)), within_(within) {}

  // The body of a 200; everything else is an error.
  Result<std::string> Get(const std::string& target);

 private:
  Result<std::string> Try(const std::string& target);

  const HttpAddress address_;
  const Duration within_;
  std::optional<Socket> socket_;
};

}  // namespace spillway::demo
