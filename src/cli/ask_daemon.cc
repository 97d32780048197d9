// SPDX-License-Identifier: Apache-2.0
#include "cli/ask_daemon.h"

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/arguments.h"
#include "base/parse.h"
#include "cache/explain_words.h"
#include "cli/complain.h"
#include "cli/daemon_link.h"
#include "server/db_key.h"

namespace spillway {

namespace {

using Json = nlohmann::ordered_json;

std::string Size(const Json& tier, const char* name) {
  return FormatBytes(tier.value(name, Bytes{0}));
}

void PrintTier(const char* name, const Json& tier) {
  const Json pressure = tier.value("pressure", Json());
  fmt::print("{:<7} {:>9} of {:<9} {:>8} entries  clean {:<9} held {:<9} {:<9} pressure {}\n", name,
             Size(tier, "bytes"),
             tier.value("capacity", Bytes{0}) == 0 ? "any" : Size(tier, "capacity"),
             tier.value("entries", std::uint64_t{0}), Size(tier, "backed"), Size(tier, "held"),
             tier.value("level", std::string()),
             pressure.is_number() ? fmt::format("{:.3f}", pressure.get<double>()) : "unknown");
}

// Prints entries whose last copy was destroyed, by cause. Older daemons do not report this.
void PrintDestroyed(const Json& stats) {
  if (!stats.contains("destroyed_by_reason")) return;
  const Json bytes = stats.value("destroyed_bytes_by_reason", Json::object());
  std::string text;
  for (const auto& [reason, count] : stats["destroyed_by_reason"].items()) {
    if (count == 0) continue;
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", reason, count.dump(),
                        FormatBytes(bytes.value(reason, Bytes{0})));
  }
  fmt::print("destroyed without another copy: {}\n", text.empty() ? "none" : text);
}

void PrintStats(const Json& stats) {
  const auto number = [&](const char* name) { return stats.value(name, std::uint64_t{0}); };
  const std::uint64_t gets = number("hits") + number("misses");
  fmt::print("mode {}{}, {} entries, {} tokens, {} leases{}\n", stats.value("mode", std::string()),
             stats.value("blocked", false) ? " (sets are refused)" : "", number("entries"),
             number("tokens"), number("leases"),
             stats.contains("clients") ? fmt::format(", {} clients", number("clients")) : "");
  fmt::print(
      "{} gets, {:.1f} % hits; {} sets, {} refused{}\n", gets,
      gets == 0 ? 0.0 : 100.0 * static_cast<double>(number("hits")) / static_cast<double>(gets),
      number("sets"),
      number("refused_blocked") + number("refused_budget") + number("refused_other"),
      stats.contains("dropped_writes") ? fmt::format(", {} dropped", number("dropped_writes"))
                                       : "");
  for (const char* tier : {"device", "host", "disk"}) {
    if (stats.contains(tier)) PrintTier(tier, stats[tier]);
  }
  if (stats.contains("moves")) {
    const Json& transfers = stats["moves"];
    fmt::print("transferred {} down, {} up; {} fetches, {} failed; {} copies were damaged\n",
               Size(transfers, "bytes_down"), Size(transfers, "bytes_up"),
               transfers.value("fetches", std::uint64_t{0}),
               transfers.value("fetches_failed", std::uint64_t{0}),
               transfers.value("corrupt", std::uint64_t{0}));
  }
  std::string left;
  const Json reasons = stats.value("left_by_reason", Json::object());
  for (const auto& [reason, count] : reasons.items()) {
    if (count != 0) left += fmt::format("{}{} {}", left.empty() ? "" : ", ", reason, count.dump());
  }
  fmt::print("removed: {}\n", left.empty() ? "none" : left);
  PrintDestroyed(stats);
}

Result<std::string> AskStats(const DaemonAddress& address) {
  if (address.way == DaemonAddress::Way::kHttp) return GetByHttp(address, "/api/v1/stats");
  Result<DaemonLink> link = DaemonLink::Open(address);
  if (!link) return link.error();
  return link->Ask({"SPILL.STATS", "JSON"});
}

// `key` is the key as stored in the cache.
Result<std::string> ExplainByHttp(const DaemonAddress& address, std::string_view key) {
  std::string hex;
  for (const char c : key) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  Result<std::string> text = GetByHttp(address, "/api/v1/explain?hex=" + hex);
  if (!text) return text;
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return Error{Code::kUnavailable, "the answer is not a JSON object"};
  return json.value("explain", std::string());
}

Result<std::string> AskExplain(const DaemonAddress& address, int database, const std::string& key) {
  std::string buffer;
  if (address.way == DaemonAddress::Way::kHttp) {
    return ExplainByHttp(address, server::CacheKey(database, key, &buffer));
  }
  Result<DaemonLink> link = DaemonLink::Open(address);
  if (!link) return link.error();
  if (database != 0) {
    const Result<std::string> chosen = link->Ask({"SELECT", std::to_string(database)});
    if (!chosen) return chosen;
  }
  return link->Ask({"SPILL.EXPLAIN", key});
}

}  // namespace

int RunStats(int argc, char** argv) {
  CLI::App app("What a running spillwayd holds and did.", "spillway stats");
  DaemonOptions options;
  options.AddTo(&app, DaemonAddress::Way::kRedis);
  options.AddOldNames(&app);
  bool as_json = false;
  app.add_flag("--json", as_json, "One JSON object instead");
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  const Result<DaemonAddress> address = options.Read();
  if (!address) return Complain("stats", address.error());
  const Result<std::string> text = AskStats(*address);
  if (!text) return Complain("stats", text.error());
  const Json stats = Json::parse(*text, nullptr, false);
  if (!stats.is_object())
    return Complain("stats", Error{Code::kUnavailable, "the answer is not a JSON object"});
  if (as_json) {
    fmt::print("{}\n", stats.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    PrintStats(stats);
  }
  return 0;
}

int RunExplain(int argc, char** argv) {
  CLI::App app("Where a key of a running spillwayd is, or why it was evicted.", "spillway explain");
  DaemonOptions options;
  options.AddTo(&app, DaemonAddress::Way::kRedis);
  options.AddOldNames(&app);
  std::string key;
  std::int64_t database = 0;
  app.add_option("KEY", key, "The key")->required();
  CLI::Option* const chosen =
      app.add_option("--db", database, "Its database, 0 to 15 [the URL's, 0]");
  app.footer(
      "Exit status: 0; 1 if nothing is known of the key, or no daemon answers; 2 after bad use.");
  if (const auto done = ReadArguments(&app, argc, argv)) return *done;
  const Result<DaemonAddress> address = options.Read();
  if (!address) return Complain("explain", address.error());
  if (database < 0 || database >= server::kDatabases) {
    return Complain("explain", fmt::format("--db: {} is no database; they are 0 to {}", database,
                                           server::kDatabases - 1));
  }
  if (chosen->count() == 0) database = address->database.value_or(0);
  const Result<std::string> text = AskExplain(*address, static_cast<int>(database), key);
  if (!text) return Complain("explain", text.error());
  fmt::print("{}\n", *text);
  std::string buffer;
  const std::string_view known_as = server::CacheKey(static_cast<int>(database), key, &buffer);
  return text->starts_with(NeverHeardOf(known_as)) ? 1 : 0;
}

}  // namespace spillway
