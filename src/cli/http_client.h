// SPDX-License-Identifier: Apache-2.0
// A client for the daemon's HTTP API, over one connection that is reopened when it was closed.
// Understands only what `spillwayd` sends: a status, a length, a body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/socket.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

struct HttpAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7380;
  std::string password = {};  // Empty: none is sent.
};

// Not thread-safe.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, Duration within = std::chrono::seconds(5))
      : HttpClient(HttpAddress{.port = port}, within) {}
  explicit HttpClient(HttpAddress address, Duration within = std::chrono::seconds(5))
      : address_(std::move(address)), within_(within) {}

  // The body of a 200 answer; everything else is an error.
  Result<std::string> Get(const std::string& target);
  // The last answer was that a password is required, or that ours is wrong.
  bool asks_for_password() const { return asks_for_password_; }

 private:
  Result<std::string> Try(const std::string& target);

  const HttpAddress address_;
  const Duration within_;
  std::optional<Socket> socket_;
  bool asks_for_password_ = false;
};

}  // namespace spillway
