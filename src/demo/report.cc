#include "demo/report.h"

#include <exception>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace spillway::demo {

namespace {

using Json = nlohmann::json;

// The one of the first `count` values of an enumeration that has that name.
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

// By the name of each value of an enumeration.
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
  Take(from, "backed", &tier.backed);
  Take(from, "clean", &tier.clean);
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

MoveStats MovesOf(const Json& from) {
  MoveStats moves;
  Take(from, "bytes_down", &moves.bytes_down);
  Take(from, "bytes_up", &moves.bytes_up);
  Take(from, "fetches", &moves.fetches);
  Take(from, "fetches_failed", &moves.fetches_failed);
  Take(from, "ahead_bytes", &moves.ahead_bytes);
  Take(from, "ahead_useful_bytes", &moves.ahead_useful_bytes);
  Take(from, "corrupt", &moves.corrupt);
  Take(from, "under_way", &moves.under_way);
  return moves;
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
  TakeEach<Reason>(json.at("left_by_reason"), &stats.left_by_reason);
  TakeEach<Reason>(json.at("left_bytes_by_reason"), &stats.left_bytes_by_reason);
  TakeEach<Action>(json.at("left_by_action"), &stats.left_by_action);
  stats.device = TierOf(json.at("device"));
  Take(json.at("device"), "others_rose_unix_us", &report.others_rose_unix_us);
  if (json.contains("host")) stats.host = TierOf(json.at("host"));
  if (json.contains("disk")) stats.disk = TierOf(json.at("disk"));
  if (json.contains("moves")) stats.moves = MovesOf(json.at("moves"));
  Take(json, "blocked", &report.blocked);
  report.clients = json.value("clients", std::uint64_t{0});  // HTTP does not tell.
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

// The parser's way to say that something is missing is to throw; it ends here.
template <typename Of>
auto Understood(std::string_view what, std::string_view text, Of of)
    -> Result<decltype(of(Json()))> {
  try {
    return of(Json::parse(text));
  } catch (const std::exception& error) {
    return Error{Code::kUnavailable,
                 fmt::format("{} of the daemon can't be understood: {}", what, error.what())};
  }
}

}  // namespace

Result<Report> ReadReport(std::string_view json) { return Understood("stats", json, ReportOf); }

Result<AllNews> ReadNews(std::string_view json) { return Understood("events", json, AllNewsOf); }

}  // namespace spillway::demo
