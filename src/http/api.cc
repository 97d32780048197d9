#include "http/api.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "base/printable.h"
#include "http/api_json.h"
#include "http/guard.h"
#include "http/metrics.h"
#include "spillway/version.h"

namespace spillway::http {

namespace {

constexpr std::size_t kRowsMax = 1000;
constexpr std::size_t kEventsMax = 1000;
constexpr std::size_t kEventsInStep = 200;
constexpr std::size_t kKeysMax = 1000;
constexpr Duration kWithinMax = std::chrono::seconds(10);

Answer Wrong(int status, std::string_view why) {
  return {.status = status, .body = Text(Json{{"error", std::string(why)}})};
}

Answer Good(const Json& json) { return {.body = Text(json)}; }

// A number of the query within bounds, or the error.
Result<std::uint64_t> Number(const Target& target, const std::string& name, std::uint64_t otherwise,
                             std::uint64_t most) {
  const std::string_view text = target.Get(name);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: '{}' is not a number from 0 to {}", name, Printable(text), most)};
  }
  return value;
}

// The body as an object, for those who send one as such: a page of others can't.
Result<Json> BodyOf(const Request& request) {
  if (!request.content_type.starts_with("application/json")) {
    return Error{Code::kInvalidArgument, "the body must be sent as application/json"};
  }
  Json json = Json::parse(request.body, nullptr, false);
  if (!json.is_object()) return Error{Code::kInvalidArgument, "the body must be a JSON object"};
  return json;
}

template <typename Parse>
auto SizeOf(const Json& json, const char* name, Parse parse)
    -> std::optional<decltype(parse(std::string_view()))> {
  const auto at = json.find(name);
  if (at == json.end()) return std::nullopt;
  return parse(at->is_string() ? at->get<std::string>() : at->dump());
}

}  // namespace

Api::Api(Settings settings) : settings_(std::move(settings)) {}

std::vector<Api::Route> Api::Routes() {
  return {
      {"GET", "/healthz", Needs::kNothing, &Api::Health, "200 as long as it answers"},
      {"GET", "/readyz", Needs::kNothing, &Api::Ready, "200 if it is ready, else 503 and why"},
      {"GET", "/metrics", Needs::kRead, &Api::Metrics, "metrics for Prometheus"},
      {"GET", "/api/v1", Needs::kRead, &Api::Index, "this list"},
      {"GET", "/api/v1/stats", Needs::kRead, &Api::StatsNow, "all figures"},
      {"GET", "/api/v1/contexts", Needs::kRead, &Api::Contexts,
       "entries: search, sort (key, agent, tokens, bytes, idle, uses, leases, tier), desc=1, "
       "offset, limit"},
      {"GET", "/api/v1/explain", Needs::kRead, &Api::ExplainOne,
       "where a key is and why: key, hex"},
      {"GET", "/api/v1/order", Needs::kRead, &Api::Order, "who would leave first: limit"},
      {"GET", "/api/v1/events", Needs::kRead, &Api::Events, "what left and why: after, limit"},
      {"GET", "/api/v1/live", Needs::kRead, &Api::Live,
       "state and events as server-sent events: every, after"},
      {"POST", "/api/v1/reclaim", Needs::kControl, &Api::Reclaim,
       "gives memory back: {\"bytes\": \"4GiB\", \"within\": \"5s\"}"},
      {"POST", "/api/v1/prefetch", Needs::kControl, &Api::Prefetch,
       "brings contexts up: {\"keys\": [...]}"},
      {"POST", "/api/v1/drop", Needs::kControl, &Api::Drop,
       "erases a context: {\"key\": \"...\"} or {\"hex\": \"...\"}"},
  };
}

Answer Api::Handle(const Request& request) const {
  Answer answer;
  const std::optional<Target> target = Target::Parse(request.target);
  if (!IsKnownHost(request.host, settings_.hosts)) {
    answer = Wrong(421, "this server is not known by that name; see the setting http_hosts");
  } else if (!IsOwnOrigin(request.origin, request.host)) {
    answer = Wrong(403, "a page from elsewhere may not ask");
  } else if (!target) {
    answer = Wrong(400, "the request's target can't be read");
  } else {
    answer = Find(request, *target);
  }
  const auto header = [&](const char* name, const char* value) {
    answer.headers.emplace_back(name, value);
  };
  header("Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
         "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'");
  header("X-Content-Type-Options", "nosniff");
  header("Referrer-Policy", "no-referrer");
  header("Cross-Origin-Resource-Policy", "same-origin");
  header("Cache-Control", "no-store");
  return answer;
}

Answer Api::Find(const Request& request, const Target& target) const {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  std::string allowed;
  for (const Route& route : Routes()) {
    if (route.path != target.path) continue;
    if (route.method == request.method || (reads && route.method == "GET")) {
      if (std::optional<Answer> refused = Refused(request, route.needs)) return *refused;
      return (this->*route.handle)(request, target);
    }
    allowed = route.method == "GET" ? "GET, HEAD" : route.method;
  }
  for (const File& file : settings_.files) {
    if (file.path != target.path) continue;
    if (reads) return {.type = std::string(file.type), .body = std::string(file.bytes)};
    allowed = "GET, HEAD";
  }
  if (!allowed.empty()) {
    Answer answer = Wrong(405, fmt::format("only {} can be asked of it", allowed));
    answer.headers.emplace_back("Allow", allowed);
    return answer;
  }
  if (target.path == "/" && reads) {
    if (std::optional<Answer> refused = Refused(request, Needs::kRead)) return *refused;
    return Index(request, target);
  }
  return Wrong(404, fmt::format("there is no '{}'; GET /api/v1 lists what there is",
                                Printable(target.path)));
}

std::optional<Answer> Api::Refused(const Request& request, Needs needs) const {
  if (needs == Needs::kNothing) return std::nullopt;
  const std::string password = settings_.password ? settings_.password() : std::string();
  if (password.empty()) {
    if (needs == Needs::kRead) return std::nullopt;
    return Wrong(403, "without a password nothing can be changed here; set one (password)");
  }
  if (IsAuthorized(request.authorization, password)) return std::nullopt;
  Answer answer = Wrong(401, "the password is needed: Authorization: Bearer PASSWORD");
  answer.headers.emplace_back("WWW-Authenticate", "Basic realm=\"spillway\", charset=\"UTF-8\"");
  return answer;
}

// --- for those who watch over it ---

Answer Api::Health(const Request&, const Target&) const {
  return {.type = "text/plain; charset=utf-8", .body = "ok\n"};
}

Answer Api::Ready(const Request&, const Target&) const {
  const std::string why = settings_.not_ready ? settings_.not_ready() : std::string();
  if (why.empty()) return {.type = "text/plain; charset=utf-8", .body = "ready\n"};
  return {.status = 503, .type = "text/plain; charset=utf-8", .body = why + "\n"};
}

Answer Api::Metrics(const Request&, const Target&) const {
  Exposition page;
  AddCacheMetrics(settings_.cache->stats(), &page);
  if (settings_.metrics) settings_.metrics(&page);
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = page.text()};
}

Answer Api::Index(const Request&, const Target&) const {
  Json list = Json::array();
  for (const Route& route : Routes()) {
    list.push_back({{"method", route.method}, {"path", route.path}, {"what", route.what}});
  }
  return Good({{"spillway", SPILLWAY_VERSION}, {"paths", list}});
}

// --- what there is ---

Answer Api::StatsNow(const Request&, const Target&) const {
  return Good(StateJson(*settings_.cache));
}

Answer Api::Contexts(const Request&, const Target& target) const {
  const Result<std::uint64_t> offset = Number(target, "offset", 0, UINT32_MAX);
  if (!offset) return Wrong(400, offset.error().message);
  const Result<std::uint64_t> limit = Number(target, "limit", 100, kRowsMax);
  if (!limit) return Wrong(400, limit.error().message);
  const std::string_view desc = target.Get("desc", "0");
  if (desc != "0" && desc != "1") return Wrong(400, "desc: it must be 0 or 1");
  Result<Json> rows = ContextsJson(*settings_.cache, target.Get("search"),
                                   target.Get("sort", "idle"), desc == "1", *offset, *limit);
  return rows ? Good(*rows) : Wrong(400, rows.error().message);
}

Answer Api::ExplainOne(const Request&, const Target& target) const {
  const Result<std::string> key = KeyOf(target.Get("key"), target.Get("hex"));
  if (!key) return Wrong(400, key.error().message);
  Json json = KeyJson(*key);
  json["found"] = settings_.cache->Contains(*key);
  json["explain"] = settings_.cache->Explain(*key);
  return Good(json);
}

Answer Api::Order(const Request&, const Target& target) const {
  const Result<std::uint64_t> limit = Number(target, "limit", 100, kRowsMax);
  if (!limit) return Wrong(400, limit.error().message);
  Json keys = Json::array();
  const std::vector<std::string> order = settings_.cache->LeavingOrder();
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), *limit); ++i) {
    keys.push_back(KeyJson(order[i]));
  }
  return Good({{"total", order.size()}, {"first", keys}});
}

Answer Api::Events(const Request&, const Target& target) const {
  const Result<std::uint64_t> after = Number(target, "after", 0, UINT64_MAX);
  if (!after) return Wrong(400, after.error().message);
  const Result<std::uint64_t> limit = Number(target, "limit", 100, kEventsMax);
  if (!limit) return Wrong(400, limit.error().message);
  std::uint64_t passed = 0;
  Json events = Json::array();
  for (const Feed::Item& item : settings_.feed->After(*after, *limit, &passed)) {
    events.push_back(ItemJson(item));
  }
  return Good({{"latest", settings_.feed->latest()}, {"passed", passed}, {"events", events}});
}

Answer Api::Live(const Request& request, const Target& target) const {
  if (request.method == "HEAD") return {.type = "text/event-stream"};
  const Result<Duration> every = ParseDuration(target.Get("every", "1s"));
  const bool bad =
      !every || *every < std::chrono::milliseconds(100) || *every > std::chrono::minutes(1);
  if (bad) return Wrong(400, "every: it must be from 100ms to 1m");
  const Result<std::uint64_t> after = Number(target, "after", settings_.feed->latest(), UINT64_MAX);
  if (!after) return Wrong(400, after.error().message);
  return {.type = "text/event-stream", .live = true, .every = *every, .after = *after};
}

std::string Api::Step(std::uint64_t* after) const {
  std::uint64_t passed = 0;
  const std::vector<Feed::Item> items = settings_.feed->After(*after, kEventsInStep, &passed);
  std::string text;
  const auto add = [&](std::string_view event, const Json& json) {
    fmt::format_to(std::back_inserter(text), "event: {}\ndata: {}\n\n", event, Text(json));
  };
  if (passed > 0) add("passed", {{"count", passed}});
  for (const Feed::Item& item : items) {
    fmt::format_to(std::back_inserter(text), "id: {}\n", item.number);
    add(item.is_level ? "level" : "left", ItemJson(item));
    *after = item.number;
  }
  add("state", StateJson(*settings_.cache));
  return text;
}

// --- what can be asked for ---

Answer Api::Reclaim(const Request& request, const Target&) const {
  const Result<Json> body = BodyOf(request);
  if (!body) return Wrong(400, body.error().message);
  const auto bytes = SizeOf(*body, "bytes", [](std::string_view text) { return ParseBytes(text); });
  if (!bytes) return Wrong(400, "bytes: it is missing; \"4GiB\" would be right");
  if (!*bytes) return Wrong(400, "bytes: " + bytes->error().message);
  const auto within =
      SizeOf(*body, "within", [](std::string_view text) { return ParseDuration(text); });
  if (within && !*within) return Wrong(400, "within: " + within->error().message);
  const Duration wait = within ? **within : std::chrono::seconds(5);
  if (wait <= Duration::zero() || wait > kWithinMax) {
    return Wrong(400, "within: it must be more than 0 and at most 10s");
  }
  return {.later = [cache = settings_.cache, bytes = **bytes, wait] {
    const Reclaimed got = cache->Reclaim(bytes, wait);
    return Good({{"freed", got.freed}, {"why_not_more", got.why_not_more}});
  }};
}

Answer Api::Prefetch(const Request& request, const Target&) const {
  const Result<Json> body = BodyOf(request);
  if (!body) return Wrong(400, body.error().message);
  const auto list = body->find("keys");
  if (list == body->end() || !list->is_array() || list->size() > kKeysMax) {
    return Wrong(400, fmt::format("keys: a list of at most {} keys is needed", kKeysMax));
  }
  std::vector<std::string> keys;
  for (const Json& each : *list) {
    if (!each.is_string()) return Wrong(400, "keys: each must be a string");
    keys.push_back(each.get<std::string>());
  }
  return {.later = [cache = settings_.cache, keys = std::move(keys)] {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    return Good({{"coming", cache->Prefetch(views.data(), views.size())}});
  }};
}

Answer Api::Drop(const Request& request, const Target&) const {
  const Result<Json> body = BodyOf(request);
  if (!body) return Wrong(400, body.error().message);
  const auto word = [&](const char* name) {
    const auto at = body->find(name);
    return at != body->end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  Result<std::string> key = KeyOf(word("key"), word("hex"));
  if (!key) return Wrong(400, key.error().message);
  return {.later = [cache = settings_.cache, key = std::move(*key)] {
    return Good({{"dropped", cache->Erase(key)}});
  }};
}

}  // namespace spillway::http
