// SPDX-License-Identifier: Apache-2.0
// The HttpServer listens on one address and answers with an Api, on a thread of its own, so that
// monitoring does not slow down the cache. It trusts no client: headers, bodies, connections,
// streams and waits are all bounded. Clients that send half a request, send none, or do not read
// the answer cannot keep others out: when there are too many connections, theirs are closed first
// (connections.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "http/api.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::http {

struct HttpSettings {
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free port.
  std::size_t clients_max = 256;
  std::size_t streams_max = 32;  // How many of the clients may have a stream.
  std::uint32_t header_max = 16U * 1024;
  std::uint64_t body_max = 256 * kKiB;
  Bytes held_max = 64 * kMiB;                        // Bodies and answers of all clients together.
  Duration header_within = std::chrono::seconds(5);  // From its first byte to the empty line.
  Duration request_within = std::chrono::seconds(10);  // From its first byte to its last.
  Duration answer_within = std::chrono::seconds(30);   // Until the client has read it.
  Duration idle_max = std::chrono::seconds(60);        // Between requests.
  // Work done on the server's thread from time to time. Returns when it is to be called next.
  std::function<Duration()> tick = {};
};

class HttpServer {
 public:
  // Listens when it returns. Otherwise the message names the address that could not be used. `api`
  // must outlive the server.
  static Result<std::unique_ptr<HttpServer>> Open(const HttpSettings& settings, const Api* api);
  // Closes every connection. Requests in progress end first, within their limits.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  struct Counts {
    std::uint64_t clients = 0;  // Open now.
    std::uint64_t streams = 0;  // Open now.
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;            // Refused because all other connections were busy.
    std::uint64_t closed_for_others = 0;  // Closed for others while they waited for their client.
  };
  Counts counts() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::http
