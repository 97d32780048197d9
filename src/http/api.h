// The Api answers requests: what runs, what is kept and why, metrics, and the few
// things that can be asked for. It knows no sockets. Any thread; nothing in it
// waits, but for `later`.
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

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Work that may take a while: it makes the answer, on another thread.
  std::function<Answer()> later = {};
  std::string cache_control = "no-store";
  // Not an answer but a stream of events (Api::Step), from there on.
  std::shared_ptr<Stream> live = {};
};

// What whoever runs the server adds to the state.
struct ServerFacts {
  std::int64_t started_unix_ms = 0;
  std::uint64_t hit_tokens = 0;  // Tokens of all contexts that were handed out.
};

class Api {
 public:
  struct Settings {
    Cache* cache = nullptr;
    const Feed* feed = nullptr;
    std::vector<std::string> hosts = {};  // Names it may be called by, besides the loopback's.
    std::span<const File> files = {};     // "/" is the page to begin with.
    const History* history = nullptr;     // Null: none is kept.
    Thresholds thresholds = {};           // Of the levels, to be shown.
    std::function<ServerFacts()> facts = {};
    std::function<std::string()> password = {};     // Empty text: none is asked for.
    std::function<std::string()> not_ready = {};    // Why; empty: it is ready.
    std::function<void(Exposition*)> metrics = {};  // Of whoever runs the server.
    // Phase and sentence of a demo that is played on it; nothing: there is none.
    std::function<std::optional<std::pair<std::string, std::string>>()> caption = {};
  };
  explicit Api(Settings settings);

  Answer Handle(const Request& request) const;

  // One step of a stream, which moves on: what happened since, and the state or what
  // changed in it, as server-sent events. Empty: nothing did.
  std::string Step(Stream* stream) const;

 private:
  enum class Needs : std::uint8_t { kNothing, kRead, kControl };
  struct Route {
    std::string_view method;
    std::string_view path;
    Needs needs;
    Answer (Api::*handle)(const Request&, const Target&) const;
    std::string_view what;
  };
  static std::vector<Route> Routes();

  Answer Find(const Request& request, const Target& target) const;
  std::optional<Answer> Refused(const Request& request, Needs needs) const;

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
  Answer CaptionNow(const Request& request, const Target& target) const;
  Answer Reclaim(const Request& request, const Target& target) const;
  Answer Prefetch(const Request& request, const Target& target) const;
  Answer Drop(const Request& request, const Target& target) const;

  void AddOwnMetrics(const Stats& stats, Exposition* to) const;
  nlohmann::ordered_json State() const;
  Answer ExplainKey(const std::string& key) const;
  nlohmann::ordered_json JourneyOf(std::string_view key) const;
  std::string PasswordNow() const { return settings_.password ? settings_.password() : ""; }
  std::int64_t ToUnixMs(TimePoint at) const;
  std::int64_t SinceUnixMs(const TierStats& tier) const;

  const Settings settings_;
  const std::int64_t unix_offset_ms_;  // Unix time less the cache's clock.
  const std::int64_t opened_unix_ms_;
};

}  // namespace spillway::http
