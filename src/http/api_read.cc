// SPDX-License-Identifier: Apache-2.0
// Queries: statistics, entries, why they are where they are, events.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "base/printable.h"
#include "base/small_file.h"
#include "base/times.h"
#include "cache/stats_json.h"
#include "http/answers.h"
#include "http/contexts_json.h"
#include "http/graph_json.h"
#include "http/history.h"
#include "http/stream.h"
#include "spillway/version.h"

namespace spillway::http {

namespace {

constexpr std::size_t kRowsMax = 1000;
constexpr std::size_t kEventsMax = 1000;
constexpr std::size_t kEventsInStep = 200;
constexpr std::size_t kPointsMax = History::kKept;
constexpr std::size_t kHistoryMax = 100;

// The name that this machine gives itself.
const std::string& MachineName() {
  static const std::string name = [] {
    std::array<char, 256> text{};
    return std::string(gethostname(text.data(), text.size() - 1) == 0 ? text.data() : "");
  }();
  return name;
}

// A process's own name for itself, as `ps` shows it. Empty: it has ended, or is in another
// container.
std::string ProcessName(std::uint64_t pid) {
  const Result<std::optional<std::string>> text =
      ReadSmallFile(fmt::format("/proc/{}/comm", pid), 64);
  if (!text || !*text) return {};
  return Printable(std::string_view(**text).substr(0, (*text)->find('\n')));
}

// The processes on the card, the largest first.
Json ProcessesJson(const Cache& cache) {
  std::vector<DeviceProcess> processes = cache.processes();
  std::ranges::stable_sort(processes, std::ranges::greater{}, &DeviceProcess::bytes);
  const auto own = static_cast<std::uint64_t>(getpid());
  Json rows = Json::array();
  for (const DeviceProcess& process : processes) {
    rows.push_back({{"pid", process.pid},
                    {"name", ProcessName(process.pid)},
                    {"bytes", process.bytes},
                    {"own", process.pid == own}});
  }
  return rows;
}

}  // namespace

Answer Api::StatsNow(const Request&, const Target&) const { return Good(State()); }

nlohmann::ordered_json Api::State() const {
  const Stats stats = settings_.cache->stats();
  Json json = Json::parse(StatsJson(stats));
  json["version"] = SPILLWAY_VERSION;
  json["unix_ms"] = UnixMs();
  json["mode"] = std::string(Name(settings_.cache->mode()));
  json["blocked"] = settings_.cache->is_blocked();
  json["controls"] = !PasswordNow().empty();
  for (const TierStats* tier : {&stats.device, &stats.host, &stats.disk}) {
    if (!tier->name.empty()) json[tier->name]["level_since_unix_ms"] = SinceUnixMs(*tier);
  }
  const Thresholds& levels = settings_.thresholds;
  json["thresholds"] = {{"normal", levels.normal},
                        {"pressure", levels.pressure},
                        {"critical", levels.critical},
                        {"emergency", levels.emergency}};
  json["machine"] = MachineName();
  json["processes"] = ProcessesJson(*settings_.cache);
  if (!settings_.facts) return json;
  const ServerFacts facts = settings_.facts();
  json["started_unix_ms"] = facts.started_unix_ms;
  json["hit_tokens"] = facts.hit_tokens;
  json["reads"] = {{"bounds_s", facts.read_bounds_s}, {"within", facts.reads_within}};
  return json;
}

Answer Api::HistoryOf(const Request&, const Target& target) const {
  const Result<std::uint64_t> points = Number(target, "points", 600, kPointsMax);
  if (!points) return Wrong(400, points.error().message);
  const Result<std::uint64_t> after = Number(target, "after", 0, INT64_MAX);
  if (!after) return Wrong(400, after.error().message);
  if (settings_.history == nullptr) return Good(History().Columns(0, 0));
  return Good(settings_.history->Columns(*points, static_cast<std::int64_t>(*after)));
}

Answer Api::Graph(const Request&, const Target&) const {
  return {.later = [cache = settings_.cache] { return Good(GraphJson(*cache)); }};
}

Answer Api::Contexts(const Request&, const Target& target) const {
  const Result<std::uint64_t> offset = Number(target, "offset", 0, UINT32_MAX);
  if (!offset) return Wrong(400, offset.error().message);
  const Result<std::uint64_t> limit = Number(target, "limit", 100, kRowsMax);
  if (!limit) return Wrong(400, limit.error().message);
  const std::string_view desc = target.Get("desc", "0");
  if (desc != "0" && desc != "1") return Wrong(400, "desc: it must be 0 or 1");
  const PageQuery page{.search = std::string(target.Get("search")),
                       .sort = std::string(target.Get("sort", "idle")),
                       .desc = desc == "1",
                       .offset = *offset,
                       .limit = *limit};
  // It reads every entry, so it runs on another thread.
  return {.later = [cache = settings_.cache, page] {
    const Result<Json> rows = ContextsJson(*cache, page);
    return rows ? Good(*rows) : Wrong(400, rows.error().message);
  }};
}

nlohmann::ordered_json Api::HistoryOf(std::string_view key) const {
  Json journey = Json::array();
  for (const Cache::Transition& each : settings_.cache->History(key, kHistoryMax)) {
    Json json = {{"unix_ms", ToUnixMs(each.at)}, {"generation", each.generation}};
    if (each.came) {
      json["action"] = "came";
      json["tier"] = each.to;
      json["from"] = each.from;
    } else {
      json["action"] = std::string(Name(each.action));
      json["reason"] = std::string(Name(each.reason));
      json["tier"] = each.from;
      json["level"] = std::string(Name(each.level));
      json["pressure"] = each.pressure;
    }
    json["bytes"] = each.bytes;
    journey.push_back(std::move(json));
  }
  return journey;
}

// Long keys do not fit into a URL; they can be sent in a body.
Answer Api::ExplainOne(const Request& request, const Target& target) const {
  if (request.method != "POST") {
    const Result<std::string> key = KeyOf(target.Get("key"), target.Get("hex"));
    return key ? ExplainKey(*key) : Wrong(400, key.error().message);
  }
  const Result<Json> body = BodyOf(request);
  if (!body) return Wrong(400, body.error().message);
  const Result<std::string> key = KeyIn(*body);
  return key ? ExplainKey(*key) : Wrong(400, key.error().message);
}

Answer Api::ExplainKey(const std::string& key) const {
  Json json = KeyJson(key);
  Json entry = Json::object();
  const bool found = settings_.cache->Visit(
      key, [&](const Cache::EntryInfo& info) { AddEntryJson(info, &entry); });
  json["found"] = found;
  json["key_bytes"] = key.size();
  if (found) json["entry"] = std::move(entry);
  json["explain"] = settings_.cache->Explain(key);
  json["journey"] = HistoryOf(key);
  const std::shared_ptr<StepGraph> graph = settings_.cache->attached_graph();
  if (graph == nullptr) return Good(json);
  if (const auto why = graph->Explain(key, settings_.cache->now())) {
    json["graph"] = why->text;
    if (why->facts.steps) json["steps"] = *why->facts.steps;
  }
  return Good(json);
}

Answer Api::Order(const Request&, const Target& target) const {
  const Result<std::uint64_t> limit = Number(target, "limit", 100, kRowsMax);
  if (!limit) return Wrong(400, limit.error().message);
  Json keys = Json::array();
  const std::vector<std::string> order = settings_.cache->EvictionOrder();
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
  const std::string_view changes = target.Get("changes", "0");
  if (changes != "0" && changes != "1") return Wrong(400, "changes: it must be 0 or 1");
  Answer answer{.type = "text/event-stream"};
  answer.live = std::make_shared<Stream>();
  answer.live->every = *every;
  answer.live->after = *after;
  answer.live->changes = changes == "1";
  return answer;
}

std::string Api::Step(Stream* stream) const {
  std::uint64_t passed = 0;
  const std::vector<Feed::Item> items =
      settings_.feed->After(stream->after, kEventsInStep, &passed);
  std::string text;
  const auto add = [&](std::string_view event, const Json& json) {
    fmt::format_to(std::back_inserter(text), "event: {}\ndata: {}\n\n", event, Text(json));
  };
  if (passed > 0) add("passed", {{"count", passed}});
  for (const Feed::Item& item : items) {
    fmt::format_to(std::back_inserter(text), "id: {}\n", item.number);
    add(item.is_level ? "level" : "left", ItemJson(item));
    stream->after = item.number;
  }
  Json state = State();
  if (!stream->changes || !stream->told) {
    add("state", state);
  } else {
    // Values that change with time alone are not sent as changes.
    for (const char* name : {"unix_ms", "samples"}) state[name] = (*stream->told)[name];
    if (const auto patch = PatchOf(*stream->told, state)) add("change", *patch);
  }
  if (stream->changes) stream->told = std::move(state);
  stream->quiet = text.empty() ? stream->quiet + stream->every : Duration::zero();
  if (stream->quiet >= Stream::kQuietMax) {
    stream->quiet = {};
    text = ": still here\n\n";
  }
  return text;
}

}  // namespace spillway::http
