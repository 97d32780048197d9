// Asks the daemon's HTTP side, over one connection that is made anew when it is
// gone. Only what `spillwayd` answers is understood: a status, a length, a body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "demo/socket.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::demo {

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, Duration within = std::chrono::seconds(5))
      : port_(port), within_(within) {}

  // The body of a 200; everything else is an error.
  Result<std::string> Get(const std::string& target);

 private:
  Result<std::string> Try(const std::string& target);

  const std::uint16_t port_;
  const Duration within_;
  std::optional<Socket> socket_;
};

}  // namespace spillway::demo
