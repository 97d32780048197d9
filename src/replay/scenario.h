// SPDX-License-Identifier: Apache-2.0
// A Scenario is the real engine with a virtual clock and one device tier of virtual memory. It
// reads lines and answers each with the cache's decisions. `spillway simulate` runs one on a file.
// Single-threaded.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/core.h"
#include "replay/scenario_line.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/testing.h"

namespace spillway {

class Scenario {
 public:
  static constexpr Bytes kDefaultCapacity = 128 * kGiB;
  static constexpr Bytes kDefaultBytesPerToken = 131'072;

  struct Settings {
    Options options;  // Its clock, pressure source and listener are replaced.
    Bytes bytes_per_token = kDefaultBytesPerToken;
  };
  static Result<std::unique_ptr<Scenario>> Open(const Settings& settings);
  ~Scenario();
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  // Executes one line and appends the state after it to `out`, as one JSON line. An error changes
  // and appends nothing.
  Status Run(std::string_view line, std::string* out);

  Core& core() { return *core_; }

 private:
  Scenario(Bytes bytes_per_token, Bytes capacity);

  Status MoveClock(const ScenarioLine& line);
  // Executes the line's operation and returns the result as JSON.
  std::string Do(const ScenarioLine& line);
  bool Set(const ScenarioLine& line);
  std::string TellGraph(const GraphLine& line);
  std::string Steps(const std::string& run);
  StepGraph& graph();
  void OnEvent(const Event& event);
  // Updates the listing of `key` from the store.
  void List(const std::string& key);
  void Print(const ScenarioLine& line, const std::string& result, std::string* out);

  const Bytes bytes_per_token_;
  const Bytes capacity_;  // Of the card; converts evicted bytes to pressure.
  const std::shared_ptr<testing::ManualClock> clock_;
  std::shared_ptr<Core> core_;

  // The present keys with their JSON text. Kept beside the index, which is unsorted, so that a line
  // costs only its own length.
  std::map<std::string, std::string> keys_;
  std::set<std::string> offloaded_;
  std::string listing_;  // "keys":[...],"offloaded":[...]
  bool listing_current_ = false;

  // Events of the current line.
  struct Happened {
    std::string key;
    Action action;
    Reason reason;
  };
  std::vector<Happened> events_;
};

}  // namespace spillway
