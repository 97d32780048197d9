// SPDX-License-Identifier: Apache-2.0
#include "cli/probe.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "base/times.h"
#include "monitor/bounded_read.h"
#include "monitor/governor.h"
#include "monitor/machine.h"
#include "monitor/probe.h"
#include "spillway/mode.h"

namespace spillway {
namespace {

volatile std::sig_atomic_t interrupted = 0;

std::string DeviceName(const ProbeRow& row) {
  if (!row.found) return "-";
  if (!row.found->device.empty()) return row.found->device;
  return row.found->uuid.empty() ? "-" : row.found->uuid;
}

// --- the table ---

void PrintRow(const ProbeRow& row) {
  fmt::print("{:<10} {:<14} ", row.kind, DeviceName(row));
  if (!row.reading) {
    const char* state = row.found ? "no value" : row.named_by_user ? "on call" : "absent";
    fmt::print("{:<8} {}\n", state, row.why_not);
    return;
  }
  const Reading& reading = *row.reading;
  fmt::print("{:<8} {} free of {}{}, pressure {:.3f}, {:.1f} us a call{}\n", Name(reading.scope),
             FormatBytes(reading.free), FormatBytes(reading.total),
             reading.reserved ? fmt::format(" ({} reserved)", FormatBytes(*reading.reserved)) : "",
             reading.pressure(), InMicroseconds(row.cost),
             row.found->label.empty() ? "" : fmt::format("  {}", row.found->label));
}

void PrintChoice(const std::vector<ProbeRow>& rows) {
  const std::vector<const ProbeRow*> chosen = ChosenRows(rows);
  fmt::print("\n");
  for (const Agreement& agreement : Compare(rows)) {
    fmt::print("{} and {} of {} differ by {:.2f} % of its memory\n", agreement.a->kind,
               agreement.b->kind, DeviceName(*agreement.a), agreement.difference * 100);
  }
  if (chosen.empty()) {
    fmt::print("no GPU can be sensed here\n");
  }
  for (const ProbeRow* row : chosen) {
    fmt::print("GPU {}: pressure_source = \"{}:{}\"\n", DeviceName(*row), row->kind,
               DeviceName(*row));
  }
  fmt::print(
      "a cache opened without settings uses device \"cpu\", a virtual card in RAM, and that card's "
      "own ledger\nas its pressure source; pressure_source = \"host\" makes it follow the "
      "machine's "
      "memory instead\n");
}

// --- JSON ---

nlohmann::json ToJson(const ProbeRow& row) {
  nlohmann::json json = {{"kind", row.kind}, {"what", row.what}};
  json["present"] = row.found.has_value();
  json["named_by_user"] = row.named_by_user;
  if (row.found) {
    json["device"] = row.found->device;
    json["scope"] = Name(row.found->scope);
    if (!row.found->uuid.empty()) json["uuid"] = row.found->uuid;
    if (!row.found->label.empty()) json["label"] = row.found->label;
  }
  if (row.reading) {
    json["total"] = row.reading->total;
    json["free"] = row.reading->free;
    json["reserved"] = nullptr;
    if (row.reading->reserved) json["reserved"] = *row.reading->reserved;
    json["pressure"] = row.reading->pressure();
    json["scope"] = Name(row.reading->scope);
    json["microseconds"] = InMicroseconds(row.cost);
  }
  if (!row.why_not.empty()) json["why_not"] = row.why_not;
  return json;
}

void PrintJson(const std::vector<ProbeRow>& rows) {
  nlohmann::json json;
  json["sources"] = nlohmann::json::array();
  for (const ProbeRow& row : rows) json["sources"].push_back(ToJson(row));
  json["chosen"] = nlohmann::json::array();
  for (const ProbeRow* row : ChosenRows(rows)) {
    json["chosen"].push_back(row->kind + ":" + DeviceName(*row));
  }
  json["differences"] = nlohmann::json::array();
  for (const Agreement& agreement : Compare(rows)) {
    json["differences"].push_back({{"a", agreement.a->kind},
                                   {"b", agreement.b->kind},
                                   {"device", DeviceName(*agreement.a)},
                                   {"share", agreement.difference}});
  }
  json["default"] = {{"device", "cpu"}, {"pressure_source", "auto"}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// --- watching ---

struct Watched {
  std::string name;
  BoundedReader reader;
};

// The chosen sources of the GPUs, and host memory.
std::vector<Watched> OpenWatched(const std::vector<ProbeRow>& rows, const Machine& machine) {
  std::vector<Watched> watched;
  std::vector<std::string> specs;
  for (const ProbeRow* row : ChosenRows(rows)) specs.push_back(row->kind + ":" + DeviceName(*row));
  specs.emplace_back("host");
  for (const std::string& spec : specs) {
    if (auto source = OpenSource(spec, machine)) watched.push_back({spec, BoundedReader(*source)});
  }
  return watched;
}

std::string EvictionQueue(Watched& watched, Governor* governor) {
  const Result<Reading> reading = watched.reader.Read(std::chrono::seconds(1));
  const TimePoint now(std::chrono::steady_clock::now().time_since_epoch());
  const Level level =
      governor->Sample(reading ? std::optional(reading->pressure()) : std::nullopt, now);
  if (!reading) {
    return fmt::format("{:<24} UNKNOWN  {}", watched.name, reading.error().message);
  }
  constexpr int kBar = 30;
  const double pressure = reading->pressure();
  const auto full = static_cast<std::size_t>(pressure * kBar);
  return fmt::format("{:<24} {:5.1f} % [{:<30}] {:<9} {} free of {}", watched.name, pressure * 100,
                     std::string(std::min<std::size_t>(full, kBar), '#'), Name(level),
                     FormatBytes(reading->free), FormatBytes(reading->total));
}

int Watch(const std::vector<ProbeRow>& rows, const Machine& machine, Duration every,
          std::optional<Duration> how_long) {
  std::vector<Watched> watched = OpenWatched(rows, machine);
  std::vector<Governor> governors(watched.size(), Governor(Governor::Settings{}));
  const bool screen = ::isatty(STDOUT_FILENO) == 1;
  const auto until = std::chrono::steady_clock::now() + how_long.value_or(Duration::zero());
  interrupted = 0;
  std::signal(SIGINT, [](int) { interrupted = 1; });
  for (bool first = true; interrupted == 0; first = false) {
    // On a terminal each device keeps its line; in a file all lines stay.
    if (screen && !first) fmt::print("\033[{}A", watched.size());
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (!screen) {
        fmt::print("{:%H:%M:%S} ", fmt::localtime(std::time(nullptr)));
      }
      fmt::print("{}{}\n", EvictionQueue(watched[i], &governors[i]), screen ? "\033[K" : "");
    }
    std::fflush(stdout);
    if (how_long && std::chrono::steady_clock::now() + every > until) break;
    std::this_thread::sleep_for(every);  // real world: a line for people, now and then
  }
  return 0;
}

}  // namespace

int RunProbe(int argc, char** argv) {
  CLI::App app("The pressure sources of this machine.", "spillway probe");
  bool json = false;
  bool watch = false;
  std::string every = "1s";
  std::string how_long;
  CLI::Option* live = app.add_flag("--watch", watch, "a live line per device, until interrupted");
  app.add_flag("--json", json, "everything, for programs")->excludes(live);
  app.add_option("--every", every, "with --watch: time between two lines")
      ->capture_default_str()
      ->needs(live);
  app.add_option("--for", how_long, "with --watch: end after this time")->needs(live);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto bad = [](const std::string& message) {
    fmt::print(stderr, "spillway probe: {}\n", message);
    return 2;
  };
  const Result<Duration> period = ParseDuration(every);
  if (!period) return bad("--every: " + period.error().message);
  if (*period < std::chrono::milliseconds(10)) return bad("--every: at least 10ms");
  std::optional<Duration> duration;
  if (!how_long.empty()) {
    const Result<Duration> parsed = ParseDuration(how_long);
    if (!parsed) return bad("--for: " + parsed.error().message);
    duration = *parsed;
  }

  const Machine machine = Machine::FromEnvironment();
  const std::vector<ProbeRow> rows = ProbeSources(machine, {});
  if (json) {
    PrintJson(rows);
    return 0;
  }
  if (watch) return Watch(rows, machine, *period, duration);
  for (const ProbeRow& row : rows) PrintRow(row);
  PrintChoice(rows);
  return 0;
}

}  // namespace spillway
