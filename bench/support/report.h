// SPDX-License-Identifier: Apache-2.0
// The output of a bench: tables for people, one JSON object for programs, and the design's lines
// and goals beside the measured values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace spillway::bench {

struct Settings {
  bool quick = false;  // A smoke test: small, a few seconds; the figures mean little.
  bool json = false;
  // CPU time instead of wall time: for a machine that is busy with other things. A thread that
  // waits for a lock looks too good by it.
  bool cpu_time = false;
  std::string only;  // One part's name; empty: all.

  bool Runs(std::string_view part) const { return only.empty() || only == part; }
};
// Prints usage and ends the program for --help and unknown arguments.
Settings ParseArguments(int argc, char** argv, std::string_view what);

// One goal of the design. `least` false: smaller is better.
struct Claim {
  std::string what;
  double measured = 0;
  double line = 0;  // The minimum required; 0: none.
  double goal = 0;
  bool larger_is_better = false;
  std::string unit;

  std::string Verdict() const;  // "goal", "line" or "MISSED".
};

class Report {
 public:
  explicit Report(const Settings& settings) : settings_(settings) {}

  // Begins a table with a title and columns; rows follow.
  void Table(const std::string& title, std::vector<std::string> columns);
  void Row(std::vector<std::string> cells);
  void Note(const std::string& line);
  void Add(Claim claim) { claims_.push_back(std::move(claim)); }
  // Raw figures, only for --json.
  nlohmann::ordered_json& data() { return data_; }

  // Prints machine and date first; at the end the claims, or everything as JSON.
  void Begin(std::string_view name);
  void End();

 private:
  void Flush();

  const Settings settings_;
  std::vector<std::vector<std::string>> rows_;  // Of the current table.
  std::vector<Claim> claims_;
  nlohmann::ordered_json data_;
};

}  // namespace spillway::bench
