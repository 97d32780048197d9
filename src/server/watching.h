// SPDX-License-Identifier: Apache-2.0
// Watching is the daemon's HTTP side: metrics of the cache and of the server, the API, and
// readiness. It has a thread of its own.
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
  std::span<const http::File> files;  // The dashboard; valid as long as the program runs.
};

class Watching {
 public:
  // With http_port 0 it exists and does nothing.
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
  std::unique_ptr<http::HttpServer> http_;  // Destroyed first: it uses the others.
};

}  // namespace spillway::server
