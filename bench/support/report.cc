// SPDX-License-Identifier: Apache-2.0
#include "bench/support/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "bench/support/measure.h"

namespace spillway::bench {

Settings ParseArguments(int argc, char** argv, std::string_view what) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      settings.quick = true;
    } else if (argument == "--json") {
      settings.json = true;
    } else if (argument == "--cpu-time") {
      settings.cpu_time = true;
    } else if (argument == "--only" && i + 1 < argc) {
      settings.only = argv[++i];
    } else {
      const bool asked = argument == "--help";
      fmt::print(asked ? stdout : stderr,
                 "{}\nusage: {} [--quick] [--json] [--cpu-time] [--only PART]\n", what, argv[0]);
      std::exit(asked ? 0 : 2);
    }
  }
  return settings;
}

std::string Claim::Verdict() const {
  const auto reached = [&](double bound) {
    return larger_is_better ? measured >= bound : measured <= bound;
  };
  if (reached(goal)) return "goal";
  if (line == 0) return "MISSED the goal";
  return reached(line) ? "line" : "MISSED";
}

void Report::Begin(std::string_view name) {
  data_["bench"] = name;
  data_["machine"] = MachineName();
  data_["cores"] = std::thread::hardware_concurrency();
  data_["date"] = Today();
  data_["quick"] = settings_.quick;
  data_["cpu_time"] = settings_.cpu_time;
  if (settings_.json) return;
  fmt::print("{}: {}, {} cores, {}{}{}\n", name, MachineName(), std::thread::hardware_concurrency(),
             Today(), settings_.quick ? ", --quick: a smoke test, not a measurement" : "",
             settings_.cpu_time ? ", processor time of the threads" : "");
}

void Report::Table(const std::string& title, std::vector<std::string> columns) {
  Flush();
  if (!settings_.json) fmt::print("\n{}\n", title);
  rows_.push_back(std::move(columns));
}

void Report::Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

void Report::Note(const std::string& line) {
  Flush();
  if (!settings_.json) fmt::print("  {}\n", line);
}

void Report::Flush() {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line = fmt::format("  {:<{}}", row.empty() ? "" : row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) line += fmt::format("  {:>{}}", row[i], widths[i]);
    if (!settings_.json) fmt::print("{}\n", line);
  }
  rows_.clear();
  std::fflush(stdout);
}

void Report::End() {
  const auto bound = [](const Claim& claim, double value) {
    if (value == 0) return std::string("-");
    return fmt::format("{} {:.4g}", claim.larger_is_better ? ">=" : "<=", value);
  };
  if (!claims_.empty())
    Table("against the design", {"what", "measured", "at least", "goal", "reached"});
  for (const Claim& claim : claims_) {
    Row({claim.what, fmt::format("{:.3g} {}", claim.measured, claim.unit), bound(claim, claim.line),
         bound(claim, claim.goal), claim.Verdict()});
    data_["claims"].push_back({{"what", claim.what},
                               {"measured", claim.measured},
                               {"unit", claim.unit},
                               {"line", claim.line},
                               {"goal", claim.goal},
                               {"reached", claim.Verdict()}});
  }
  Flush();
  if (settings_.json) fmt::print("{}\n", data_.dump(2));
}

}  // namespace spillway::bench
