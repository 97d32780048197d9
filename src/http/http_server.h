// The HttpServer listens on one address and answers by an Api, on a thread of its
// own, so that whoever watches disturbs nobody who works. It trusts no client:
// headers, bodies, clients, streams and waits all have bounds.
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
  std::uint16_t port = 0;  // 0: any.
  std::size_t clients_max = 256;
  std::size_t streams_max = 32;  // Of these, who may be told live.
  std::uint32_t header_max = 16 * 1024;
  std::uint64_t body_max = 256 * 1024;
  Duration request_within = std::chrono::seconds(10);  // From its first byte to its last.
  Duration answer_within = std::chrono::seconds(30);   // Until the client has read it.
  Duration idle_max = std::chrono::seconds(60);        // Between requests.
  // Work for the server's thread, now and then: it says when next.
  std::function<Duration()> tick = {};
};

class HttpServer {
 public:
  // Listens when it returns; else the message says which address could not be had.
  // `api` must outlive it.
  static Result<std::unique_ptr<HttpServer>> Open(const HttpSettings& settings, const Api* api);
  // Every connection is closed; requests under way end first, within their bounds.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  struct Counts {
    std::uint64_t clients = 0;  // Now.
    std::uint64_t streams = 0;  // Now.
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;  // Connections.
  };
  Counts counts() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::http
