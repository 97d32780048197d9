// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <exception>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway {

namespace {

using Json = nlohmann::json;

// The value with that name among the first `count` values of an enumeration.
template <typename Enum>
Enum Named(const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    if (Name(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  throw std::runtime_error(fmt::format("'{}' is not known", name));
}

constexpr int kModes = static_cast<int>(Mode::kWorkflowAware) + 1;

template <typename Number>
void Take(const Json& from, const char* name, Number* to) {
  from.at(name).get_to(*to);
}

// Reads one array element per value of an enumeration, by name.
template <typename Enum, typename Array>
void TakeEach(const Json& from, Array* to) {
  for (std::size_t i = 0; i < to->size(); ++i) {
    from.at(std::string(Name(static_cast<Enum>(i)))).get_to(to->at(i));
  }
}

TierStats TierOf(const Json& from) {
  TierStats tier;
  Take(from, "name", &tier.name);
  Take(from, "capacity", &tier.capacity);
  Take(from, "entries", &tier.entries);
  Take(from, "bytes", &tier.bytes);
  Take(from, "backed", &tier.clean);
  Take(from, "clean", &tier.clean_chunks);
  Take(from, "held", &tier.held);
  Take(from, "others", &tier.others);
  Take(from, "total", &tier.total);
  Take(from, "free", &tier.free);
  Take(from, "reserve", &tier.reserve);
  Take(from, "level_changes", &tier.level_changes);
  if (!from.at("pressure").is_null()) tier.pressure = from.at("pressure").get<double>();
  tier.level = Named<Level>(from.at("level").get<std::string>(), kLevels);
  return tier;
}

TransferStats MovesOf(const Json& from) {
  TransferStats transfers;
  Take(from, "bytes_down", &transfers.bytes_down);
  Take(from, "bytes_up", &transfers.bytes_up);
  Take(from, "fetches", &transfers.fetches);
  Take(from, "fetches_failed", &transfers.fetches_failed);
  Take(from, "ahead_bytes", &transfers.ahead_bytes);
  Take(from, "ahead_useful_bytes", &transfers.ahead_useful_bytes);
  Take(from, "corrupt", &transfers.corrupt);
  Take(from, "under_way", &transfers.in_flight);
  return transfers;
}

Report ReportOf(const Json& json) {
  Report report;
  Stats& stats = report.stats;
  Take(json, "entries", &stats.entries);
  Take(json, "tokens", &stats.tokens);
  Take(json, "leases", &stats.leases);
  Take(json, "hits", &stats.hits);
  Take(json, "misses", &stats.misses);
  Take(json, "sets", &stats.sets);
  Take(json, "refused_blocked", &stats.refused_blocked);
  Take(json, "refused_budget", &stats.refused_budget);
  Take(json, "refused_other", &stats.refused_other);
  TakeEach<Reason>(json.at("left_by_reason"), &stats.removed_by_reason);
  TakeEach<Reason>(json.at("left_bytes_by_reason"), &stats.removed_bytes_by_reason);
  TakeEach<Action>(json.at("left_by_action"), &stats.removed_by_action);
  stats.device = TierOf(json.at("device"));
  if (json.contains("host")) stats.host = TierOf(json.at("host"));
  if (json.contains("disk")) stats.disk = TierOf(json.at("disk"));
  if (json.contains("moves")) stats.moves = MovesOf(json.at("moves"));
  Take(json, "blocked", &report.blocked);
  // An older daemon does not have these.
  report.machine = json.value("machine", std::string());
  report.unix_ms = json.value("unix_ms", std::int64_t{0});
  report.started_unix_ms = json.value("started_unix_ms", std::int64_t{0});
  if (json.contains("destroyed_by_reason")) {
    for (const auto& [name, count] : json["destroyed_by_reason"].items()) {
      const auto reason = static_cast<std::size_t>(Named<Reason>(name, kReasons));
      stats.destroyed_by_reason.at(reason) = count.get<std::uint64_t>();
    }
  }
  if (json.contains("reads")) {
    Take(json["reads"], "bounds_s", &report.read_bounds_s);
    Take(json["reads"], "within", &report.reads_within);
  }
  for (const Json& each : json.value("processes", Json::array())) {
    Report::Process process;
    Take(each, "pid", &process.pid);
    Take(each, "name", &process.name);
    Take(each, "bytes", &process.bytes);
    Take(each, "own", &process.own);
    report.processes.push_back(std::move(process));
  }
  report.mode = Named<Mode>(json.at("mode").get<std::string>(), kModes);
  return report;
}

News NewsOf(const Json& json) {
  News news;
  Take(json, "number", &news.number);
  Take(json, "unix_ms", &news.unix_ms);
  Take(json, "tier", &news.tier);
  news.level = Named<Level>(json.at("level").get<std::string>(), kLevels);
  news.is_level = json.contains("from");
  if (news.is_level) {
    news.from = Named<Level>(json.at("from").get<std::string>(), kLevels);
    Take(json, "pressure", &news.pressure);
    return news;
  }
  Take(json, "key", &news.key);
  Take(json, "bytes", &news.bytes);
  news.action = Named<Action>(json.at("action").get<std::string>(), kActions);
  news.reason = Named<Reason>(json.at("reason").get<std::string>(), kReasons);
  return news;
}

AllNews AllNewsOf(const Json& json) {
  AllNews all;
  Take(json, "latest", &all.latest);
  Take(json, "passed", &all.passed);
  for (const Json& each : json.at("events")) all.news.push_back(NewsOf(each));
  return all;
}

// The JSON parser throws when something is missing; this turns that into an error.
template <typename Of>
auto Understood(std::string_view what, std::string_view text, Of of)
    -> Result<decltype(of(Json()))> {
  try {
    return of(Json::parse(text));
  } catch (const std::exception& error) {
    return Error{Code::kUnavailable,
                 fmt::format("the daemon's {} are malformed: {}", what, error.what())};
  }
}

}  // namespace

Result<Report> ReadReport(std::string_view json) { return Understood("stats", json, ReportOf); }

Result<AllNews> ReadNews(std::string_view json) { return Understood("events", json, AllNewsOf); }

}  // namespace spillway
