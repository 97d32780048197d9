// A Scenario is the real engine on a virtual clock and one device tier of
// virtual memory: lines in, what was decided out. `spillway simulate` is this
// behind a file. One thread.
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

  // Does what one line says and appends the state after it to `out`, as one
  // JSON line. An error has changed nothing and appended nothing.
  Status Run(std::string_view line, std::string* out);

  Core& core() { return *core_; }

 private:
  Scenario(Bytes bytes_per_token, Bytes capacity);

  Status MoveClock(const ScenarioLine& line);
  // The result, as JSON.
  std::string Do(const ScenarioLine& line);
  bool Set(const ScenarioLine& line);
  std::string TellGraph(const GraphLine& line);
  std::string Steps(const std::string& run);
  StepGraph& graph();
  void OnEvent(const Event& event);
  // Whether `key` is listed, and how, as the store has it now.
  void List(const std::string& key);
  void Print(const ScenarioLine& line, const std::string& result, std::string* out);

  const Bytes bytes_per_token_;
  const Bytes capacity_;  // Of the card, to scale what leaves.
  const std::shared_ptr<testing::ManualClock> clock_;
  std::shared_ptr<Core> core_;

  // The keys present, with their JSON text. Kept beside the index, which is
  // not sorted, so that a line costs no more than its own length.
  std::map<std::string, std::string> keys_;
  std::set<std::string> offloaded_;
  std::string listing_;  // "keys":[...],"offloaded":[...]
  bool listing_current_ = false;

  // Of the line being run.
  struct Happened {
    std::string key;
    Action action;
    Reason reason;
  };
  std::vector<Happened> events_;
};

}  // namespace spillway
