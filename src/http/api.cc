// SPDX-License-Identifier: Apache-2.0
#include "http/api.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "base/times.h"
#include "http/answers.h"
#include "http/api_json.h"
#include "http/guard.h"
#include "http/metrics.h"
#include "spillway/version.h"

namespace spillway::http {

namespace {

std::int64_t MsOf(TimePoint at) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

// For browsers, if the dashboard is not built into the program.
constexpr std::string_view kBarePage =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Spillway</title>"
    "<h1>Spillway " SPILLWAY_VERSION
    "</h1><p>The daemon runs. Its dashboard is not in this program.</p><p><a href=\"/api/v1\">"
    "/api/v1</a> lists all requests; <a href=\"/metrics\">/metrics</a> is for "
    "Prometheus.</p></html>\n";

}  // namespace

Api::Api(Settings settings)
    : settings_(std::move(settings)),
      unix_offset_ms_(UnixMs() - MsOf(settings_.cache->now())),
      opened_unix_ms_(UnixMs()) {}

std::int64_t Api::ToUnixMs(TimePoint at) const { return MsOf(at) + unix_offset_ms_; }

// A level that never changed has lasted since the begin, which is about when this object was made.
std::int64_t Api::SinceUnixMs(const TierStats& tier) const {
  return std::max(ToUnixMs(tier.level_since), opened_unix_ms_);
}

std::vector<Api::Route> Api::Routes() {
  return {
      {"GET", "/healthz", Needs::kNothing, &Api::Health, "200 while the server answers"},
      {"GET", "/readyz", Needs::kNothing, &Api::Ready, "200 if ready, else 503 and the reason"},
      {"GET", "/metrics", Needs::kRead, &Api::Metrics, "metrics for Prometheus"},
      {"GET", "/api/v1", Needs::kRead, &Api::Index, "this list"},
      {"GET", "/api/v1/stats", Needs::kRead, &Api::StatsNow, "all statistics"},
      {"GET", "/api/v1/contexts", Needs::kRead, &Api::Contexts,
       "entries: search, sort (key, agent, tokens, bytes, idle, uses, leases, tier, steps), "
       "desc=1, offset, limit"},
      {"GET", "/api/v1/explain", Needs::kRead, &Api::ExplainOne,
       "where a key is and why, and its history: key, hex"},
      {"POST", "/api/v1/explain", Needs::kRead, &Api::ExplainOne,
       "the same for keys too long for a URL: {\"hex\": \"...\"}"},
      {"GET", "/api/v1/graph", Needs::kRead, &Api::Graph,
       "live runs: steps, edges, where their contexts are, copies in flight"},
      {"GET", "/api/v1/history", Needs::kRead, &Api::HistoryOf,
       "the tiers' last hour as columns: points, after (Unix ms)"},
      {"GET", "/api/v1/order", Needs::kRead, &Api::Order, "keys in eviction order: limit"},
      {"GET", "/api/v1/events", Needs::kRead, &Api::Events,
       "evictions and other removals, with reasons: after, limit"},
      {"GET", "/api/v1/live", Needs::kRead, &Api::Live,
       "state and events as server-sent events: every, after, changes=1"},
      {"POST", "/api/v1/reclaim", Needs::kControl, &Api::Reclaim,
       "frees memory: {\"bytes\": \"4GiB\", \"within\": \"5s\"}"},
      {"POST", "/api/v1/prefetch", Needs::kControl, &Api::Prefetch,
       "prefetches contexts: {\"keys\": [...], \"hex\": [...]}"},
      {"POST", "/api/v1/drop", Needs::kControl, &Api::Drop,
       "erases a context: {\"key\": \"...\"} or {\"hex\": \"...\"}"},
  };
}

Answer Api::Handle(const Request& request) const {
  Answer answer;
  const std::optional<Target> target = Target::Parse(request.target);
  if (!IsKnownHost(request.host, settings_.hosts)) {
    answer = Wrong(421, "this server has another name; see the setting http_hosts");
  } else if (!IsOwnOrigin(request.origin, request.host)) {
    answer = Wrong(403, "pages of other sites are not allowed");
  } else if (!target) {
    answer = Wrong(400, "the request's target is malformed");
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
  answer.headers.emplace_back("Cache-Control", answer.cache_control);
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
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  // Pages contain no secrets, so they need no password; their requests for data do.
  if (const File* file = FindFile(settings_.files, target.path)) {
    if (reads) return AnswerFile(*file, request);
    allowed = "GET, HEAD";
  }
  if (!allowed.empty()) {
    Answer answer = Wrong(405, fmt::format("only {} are allowed here", allowed));
    answer.headers.emplace_back("Allow", allowed);
    return answer;
  }
  if (target.path == "/" && reads) {
    return AnswerFile({.path = "/", .type = "text/html; charset=utf-8", .bytes = kBarePage},
                      request);
  }
  return Wrong(
      404, fmt::format("there is no '{}'; GET /api/v1 lists all paths", Printable(target.path)));
}

std::optional<Answer> Api::Refused(const Request& request, Needs needs) const {
  if (needs == Needs::kNothing) return std::nullopt;
  const std::string password = PasswordNow();
  if (password.empty()) {
    if (needs == Needs::kRead) return std::nullopt;
    return Wrong(403, "changes need a password, and none is set; set one (password)");
  }
  if (IsAuthorized(request.authorization, password)) return std::nullopt;
  Answer answer = Wrong(401, "a password is required: Authorization: Bearer PASSWORD");
  answer.headers.emplace_back("WWW-Authenticate", "Basic realm=\"spillway\", charset=\"UTF-8\"");
  return answer;
}

// --- monitoring ---

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
  const Stats stats = settings_.cache->stats();
  AddCacheMetrics(stats, &page);
  AddOwnMetrics(stats, &page);
  if (settings_.metrics) settings_.metrics(&page);
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = page.text()};
}

void Api::AddOwnMetrics(const Stats& stats, Exposition* to) const {
  constexpr int kModes = 6;
  to->Gauge("spillway_mode", "1 for the cache's mode, 0 for the other modes.");
  const Mode mode = settings_.cache->mode();
  for (int i = 0; i < kModes; ++i) {
    const auto each = static_cast<Mode>(i);
    to->Sample(mode == each ? 1 : 0, {{"mode", Name(each)}});
  }
  to->Gauge("spillway_blocked", "1 if every set would be refused for pressure.",
            settings_.cache->is_blocked() ? 1 : 0);
  to->Gauge("spillway_tier_level_start_time_seconds",
            "Unix time of the tier's last change of level.");
  for (const TierStats* tier : {&stats.device, &stats.host, &stats.disk}) {
    if (tier->name.empty()) continue;
    to->Sample(static_cast<double>(SinceUnixMs(*tier)) / 1000, {{"tier", tier->name}});
  }
  const std::shared_ptr<StepGraph> graph = settings_.cache->attached_graph();
  const StepGraphStats steps = graph != nullptr ? graph->stats() : StepGraphStats();
  to->Gauge("spillway_graph_runs", "Live runs in the step graph.", steps.runs);
  to->Gauge("spillway_graph_steps", "Steps of live runs.", steps.steps);
  to->Counter("spillway_graph_mispredictions_total", "Steps that started against the prediction.",
              steps.mispredictions);
  if (!settings_.facts) return;
  const ServerFacts facts = settings_.facts();
  to->Counter("spillway_hit_tokens_total", "Tokens of all contexts returned to clients.",
              facts.hit_tokens);
  to->Gauge("spillway_start_time_seconds", "Unix time at which the server started.",
            static_cast<double>(facts.started_unix_ms) / 1000);
}

Answer Api::Index(const Request&, const Target&) const {
  Json list = Json::array();
  for (const Route& route : Routes()) {
    list.push_back({{"method", route.method}, {"path", route.path}, {"what", route.what}});
  }
  return Good({{"spillway", SPILLWAY_VERSION}, {"paths", list}});
}

}  // namespace spillway::http
