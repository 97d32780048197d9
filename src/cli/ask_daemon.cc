#include "cli/ask_daemon.h"

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/arguments.h"
#include "base/parse.h"
#include "cli/complain.h"
#include "cli/daemon_link.h"

namespace spillway {

namespace {

using Json = nlohmann::ordered_json;

std::string Size(const Json& tier, const char* name) {
  return FormatBytes(tier.value(name, Bytes{0}));
}

void PrintTier(const char* name, const Json& tier) {
  const Json pressure = tier.value("pressure", Json());
  fmt::print("{:<7} {:>9} of {:<9} {:>8} entries  backed {:<9} held {:<9} {:<9} pressure {}\n",
             name, Size(tier, "bytes"),
             tier.value("capacity", Bytes{0}) == 0 ? "any" : Size(tier, "capacity"),
             tier.value("entries", std::uint64_t{0}), Size(tier, "backed"), Size(tier, "held"),
             tier.value("level", std::string()),
             pressure.is_number() ? fmt::format("{:.3f}", pressure.get<double>()) : "unknown");
}

void PrintStats(const Json& stats) {
  const auto number = [&](const char* name) { return stats.value(name, std::uint64_t{0}); };
  const std::uint64_t gets = number("hits") + number("misses");
  fmt::print("mode {}{}, {} entries, {} tokens, {} leases, {} clients\n",
             stats.value("mode", std::string()),
             stats.value("blocked", false) ? " (sets are refused)" : "", number("entries"),
             number("tokens"), number("leases"), number("clients"));
  fmt::print(
      "{} gets, {:.1f} % hits; {} sets, {} refused, {} dropped\n", gets,
      gets == 0 ? 0.0 : 100.0 * static_cast<double>(number("hits")) / static_cast<double>(gets),
      number("sets"),
      number("refused_blocked") + number("refused_budget") + number("refused_other"),
      number("dropped_writes"));
  for (const char* tier : {"device", "host", "disk"}) {
    if (stats.contains(tier)) PrintTier(tier, stats[tier]);
  }
  if (stats.contains("moves")) {
    const Json& moves = stats["moves"];
    fmt::print("moved {} down, {} up; {} fetches, {} failed; {} copies were damaged\n",
               Size(moves, "bytes_down"), Size(moves, "bytes_up"),
               moves.value("fetches", std::uint64_t{0}),
               moves.value("fetches_failed", std::uint64_t{0}),
               moves.value("corrupt", std::uint64_t{0}));
  }
  std::string left;
  const Json reasons = stats.value("left_by_reason", Json::object());
  for (const auto& [reason, count] : reasons.items()) {
    if (count != 0) left += fmt::format("{}{} {}", left.empty() ? "" : ", ", reason, count.dump());
  }
  fmt::print("left: {}\n", left.empty() ? "nobody" : left);
}

}  // namespace

int RunStats(int argc, char** argv) {
  CLI::App app("What a running spillwayd holds and did.", "spillway stats");
  DaemonAddress address;
  address.AddOptions(&app);
  bool as_json = false;
  app.add_flag("--json", as_json, "One JSON object instead");
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  Result<DaemonLink> link = DaemonLink::Open(address);
  if (!link) return Complain("stats", link.error());
  const Result<std::string> text = link->Ask({"SPILL.STATS", "JSON"});
  if (!text) return Complain("stats", text.error());
  const Json stats = Json::parse(*text, nullptr, false);
  if (!stats.is_object())
    return Complain("stats", Error{Code::kUnavailable, "that was no JSON object"});
  if (as_json) {
    fmt::print("{}\n", stats.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    PrintStats(stats);
  }
  return 0;
}

int RunExplain(int argc, char** argv) {
  CLI::App app("Where a key of a running spillwayd is, or why it left.", "spillway explain");
  DaemonAddress address;
  address.AddOptions(&app);
  std::string key;
  std::uint64_t database = 0;
  app.add_option("KEY", key, "The key")->required();
  app.add_option("--db", database, "Its database, 0 to 15")->capture_default_str();
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  Result<DaemonLink> link = DaemonLink::Open(address);
  if (!link) return Complain("explain", link.error());
  if (database != 0) {
    const Result<std::string> chosen = link->Ask({"SELECT", std::to_string(database)});
    if (!chosen) return Complain("explain", chosen.error());
  }
  const Result<std::string> text = link->Ask({"SPILL.EXPLAIN", key});
  if (!text) return Complain("explain", text.error());
  fmt::print("{}\n", *text);
  return 0;
}

}  // namespace spillway
