// The Api answers requests: what runs, what is kept and why, metrics, and the few
// things that can be asked for. It knows no sockets. Any thread; nothing in it
// waits, but for `later`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "http/exposition.h"
#include "http/feed.h"
#include "http/target.h"
#include "spillway/cache.h"

namespace spillway::http {

struct Request {
  std::string_view method;
  std::string_view target;
  std::string_view host = {};
  std::string_view origin = {};
  std::string_view authorization = {};
  std::string_view content_type = {};
  std::string_view body = {};
};

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Work that may take a while: it makes the answer, on another thread.
  std::function<Answer()> later = {};
  // Not an answer but a stream of events (Api::Step), so often, from that one on.
  bool live = false;
  Duration every{};
  std::uint64_t after = 0;
};

// A file of the dashboard.
struct File {
  std::string_view path;  // "/", "/assets/app.js"
  std::string_view type;
  std::string_view bytes;
};

class Api {
 public:
  struct Settings {
    Cache* cache = nullptr;
    const Feed* feed = nullptr;
    std::vector<std::string> hosts = {};  // Names it may be called by, besides the loopback's.
    std::vector<File> files = {};
    std::function<std::string()> password = {};     // Empty text: none is asked for.
    std::function<std::string()> not_ready = {};    // Why; empty: it is ready.
    std::function<void(Exposition*)> metrics = {};  // Of whoever runs the server.
  };
  explicit Api(Settings settings);

  Answer Handle(const Request& request) const;

  // One step of a stream: the state, and what was told after `*after`, which moves
  // on. As server-sent events.
  std::string Step(std::uint64_t* after) const;

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
  Answer Contexts(const Request& request, const Target& target) const;
  Answer ExplainOne(const Request& request, const Target& target) const;
  Answer Order(const Request& request, const Target& target) const;
  Answer Events(const Request& request, const Target& target) const;
  Answer Live(const Request& request, const Target& target) const;
  Answer Reclaim(const Request& request, const Target& target) const;
  Answer Prefetch(const Request& request, const Target& target) const;
  Answer Drop(const Request& request, const Target& target) const;

  const Settings settings_;
};

}  // namespace spillway::http
