// What a bench prints: tables for people, one JSON object for programs, and
// the design's lines and goals beside what was measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace spillway::bench {

struct Settings {
  bool quick = false;  // A smoke test: small, a few seconds, figures mean little.
  bool json = false;
  // Processor time instead of the wall's: for a machine busy with other things.
  // A thread that waits for a lock looks too good by it.
  bool cpu_time = false;
  std::string only;  // One part's name; empty: all.

  bool Runs(std::string_view part) const { return only.empty() || only == part; }
};
// Prints usage and ends the program for --help or anything it does not know.
Settings ParseArguments(int argc, char** argv, std::string_view what);

// One bound we set ourselves. `least` false: smaller is better.
struct Claim {
  std::string what;
  double measured = 0;
  double line = 0;  // At least; 0: none is named.
  double goal = 0;
  bool larger_is_better = false;
  std::string unit;

  std::string Verdict() const;  // "goal", "line" or "MISSED".
};

class Report {
 public:
  explicit Report(const Settings& settings) : settings_(settings) {}

  // A table's title and columns; rows follow.
  void Table(const std::string& title, std::vector<std::string> columns);
  void Row(std::vector<std::string> cells);
  void Note(const std::string& line);
  void Add(Claim claim) { claims_.push_back(std::move(claim)); }
  // Raw figures, for --json only.
  nlohmann::ordered_json& data() { return data_; }

  // Machine and date; at the end the claims, or everything as JSON.
  void Begin(std::string_view name);
  void End();

 private:
  void Flush();

  const Settings settings_;
  std::vector<std::vector<std::string>> rows_;  // Of the table that is open.
  std::vector<Claim> claims_;
  nlohmann::ordered_json data_;
};

}  // namespace spillway::bench
