// Watching is the daemon's HTTP side: metrics of the cache and of the server, the
// API, and whether it is ready. It has a thread of its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "http/api.h"
#include "http/feed.h"
#include "http/files.h"
#include "http/history.h"
#include "http/http_server.h"
#include "server/server.h"
#include "server/state.h"
#include "spillway/result.h"

namespace spillway::server {

struct Watched {
  std::shared_ptr<const http::Feed> feed;
  Thresholds thresholds;
  std::span<const http::File> files;  // The dashboard; they live as long as the program.
};

class Watching {
 public:
  // Without a port it is there and does nothing.
  static Result<std::unique_ptr<Watching>> Open(State* state, const Server* server,
                                                const Watched& watched);

 private:
  Watching(State* state, const Server* server, const Watched& watched);
  Duration Remember();
  void AddMetrics(http::Exposition* page) const;
  std::string WhyNotReady() const;

  State* const state_;
  const Server* const server_;
  const std::shared_ptr<const http::Feed> feed_;
  http::History history_;
  std::optional<http::Api> api_;
  std::unique_ptr<http::HttpServer> http_;  // Goes first: it uses the others.
};

}  // namespace spillway::server
