// SPDX-License-Identifier: Apache-2.0
// The Api answers HTTP requests: statistics, entries and why they are where they are, metrics, and
// a few commands. It knows no sockets. Thread-safe. Calls do not block, except Answer::later.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "http/exposition.h"
#include "http/feed.h"
#include "http/files.h"
#include "http/target.h"
#include "spillway/cache.h"

namespace spillway::http {

class History;
struct Stream;

// The parts of an HTTP request that the Api uses. The views belong to the caller.
struct Request {
  std::string_view method;
  std::string_view target;
  std::string_view host = {};
  std::string_view origin = {};
  std::string_view authorization = {};
  std::string_view content_type = {};
  std::string_view accept_encoding = {};
  std::string_view if_none_match = {};
  std::string_view body = {};
};

// An HTTP response, or how to get it.
struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Not empty: makes the answer. It may take a while, so it is called on another thread.
  std::function<Answer()> later = {};
  std::string cache_control = "no-store";
  // Not null: the response is a stream of events that begins here (Api::Step).
  std::shared_ptr<Stream> live = {};
};

// Facts about the server that are part of the state.
struct ServerFacts {
  std::int64_t started_unix_ms = 0;
  std::uint64_t hit_tokens = 0;  // Tokens of all contexts returned to clients.
  // How long reads took: upper bounds in seconds, and one count more, each its own bucket only.
  std::vector<double> read_bounds_s = {};
  std::vector<std::uint64_t> reads_within = {};
};

// One for a server. All methods are const and may be called from any thread.
class Api {
 public:
  struct Settings {
    Cache* cache = nullptr;
    const Feed* feed = nullptr;
    // Host names the server may be addressed by, besides those of the loopback.
    std::vector<std::string> hosts = {};
    std::span<const File> files = {};  // "/" is the start page.
    const History* history = nullptr;  // Null: no history is kept.
    Thresholds thresholds = {};        // Of the levels, for display.
    std::function<ServerFacts()> facts = {};
    std::function<std::string()> password = {};     // Empty text: no password is required.
    std::function<std::string()> not_ready = {};    // The reason; empty: it is ready.
    std::function<void(Exposition*)> metrics = {};  // Adds the server's own metrics.
  };
  explicit Api(Settings settings);

  // Answers one request, including errors.
  Answer Handle(const Request& request) const;

  // Advances a stream by one step: returns the events since the last step, and the state or the
  // changes in it, as server-sent events. Empty: nothing new.
  std::string Step(Stream* stream) const;

 private:
  enum class Needs : std::uint8_t { kNothing, kRead, kControl };
  // One path: its method, the access it needs, its handler, and a line for the list of paths.
  struct Route {
    std::string_view method;
    std::string_view path;
    Needs needs;
    Answer (Api::*handle)(const Request&, const Target&) const;
    std::string_view what;
  };
  static std::vector<Route> Routes();

  // Finds the route and runs its handler.
  Answer Find(const Request& request, const Target& target) const;
  // The answer if access is denied. Empty: it is allowed.
  std::optional<Answer> Refused(const Request& request, Needs needs) const;

  // Handlers, one for each route.
  Answer Health(const Request& request, const Target& target) const;
  Answer Ready(const Request& request, const Target& target) const;
  Answer Metrics(const Request& request, const Target& target) const;
  Answer Index(const Request& request, const Target& target) const;
  Answer StatsNow(const Request& request, const Target& target) const;
  Answer HistoryOf(const Request& request, const Target& target) const;
  Answer Graph(const Request& request, const Target& target) const;
  Answer Contexts(const Request& request, const Target& target) const;
  Answer ExplainOne(const Request& request, const Target& target) const;
  Answer Order(const Request& request, const Target& target) const;
  Answer Events(const Request& request, const Target& target) const;
  Answer Live(const Request& request, const Target& target) const;
  Answer Reclaim(const Request& request, const Target& target) const;
  Answer Prefetch(const Request& request, const Target& target) const;
  Answer Drop(const Request& request, const Target& target) const;

  // Metrics that are not in Stats: the mode, the step graph, the server.
  void AddOwnMetrics(const Stats& stats, Exposition* to) const;
  // The state as in /api/v1/stats and in streams.
  nlohmann::ordered_json State() const;
  Answer ExplainKey(const std::string& key) const;
  nlohmann::ordered_json HistoryOf(std::string_view key) const;
  std::string PasswordNow() const { return settings_.password ? settings_.password() : ""; }
  // Converts a time of the cache's clock.
  std::int64_t ToUnixMs(TimePoint at) const;
  std::int64_t SinceUnixMs(const TierStats& tier) const;

  const Settings settings_;
  const std::int64_t unix_offset_ms_;  // Unix time minus the cache's clock.
  const std::int64_t opened_unix_ms_;
};

}  // namespace spillway::http
