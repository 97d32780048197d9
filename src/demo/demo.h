// `spillway demo`: a dozen agents with real bytes on a virtual card, and
// neighbours, processes of their own, that take memory of it and give it back.
// Pressure is what the card says; nothing here sets it.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "demo/card_watch.h"
#include "demo/event_log.h"
#include "demo/level_log.h"
#include "demo/neighbours.h"
#include "demo/recorder.h"
#include "demo/script.h"
#include "demo/snapshot.h"
#include "demo/summary.h"
#include "demo/workflow.h"
#include "device/cpu/cpu_device.h"
#include "spillway/cache.h"

namespace spillway::demo {

struct DemoOptions {
  Duration length = std::chrono::seconds(60);
  std::optional<Bytes> card_bytes;         // Empty: DefaultDemoCardBytes().
  std::string record;                      // A CSV file; empty: none.
  std::string program = "/proc/self/exe";  // What `squeeze` is a command of.
  int out = 1;                             // A terminal gets a table, all else lines.
};

inline constexpr Duration kDemoLengthMin = std::chrono::seconds(1);
inline constexpr Duration kDemoLengthMax = std::chrono::hours(24);
inline constexpr Bytes kDemoCardMin = 16 * kMiB;

// An eighth of what this machine has free, at most 512 MiB.
Result<Bytes> DefaultDemoCardBytes();
// Whether the options can be played here.
Status CheckDemoOptions(const DemoOptions& options);

// Everything on the stage. Runs from Open; Look and Finish belong to one thread.
class Demo {
 public:
  static Result<std::unique_ptr<Demo>> Open(const DemoOptions& options);
  // Nobody is left behind: agents stop, neighbours end, the card goes.
  ~Demo();
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // What has happened since the last look, as lines for a log.
  std::vector<std::string> Look();
  Snapshot TakeSnapshot();
  // Since Open, by the machine's clock.
  Duration now() const { return clock_->Now() - start_; }

  // Ends everything and says what it came to.
  Outcome Finish();

 private:
  Demo(const DemoOptions& options, std::string card, std::unique_ptr<CpuDevice> device);

  void LookAtLevel(std::vector<std::string>* lines);
  void LookAtNeighbours(std::vector<std::string>* lines);
  void SendNeighbours(std::vector<std::string>* lines);
  MemoryView ReadMemory(const Stats& stats) const;

  const DemoOptions options_;
  const std::string card_;
  const std::shared_ptr<Clock> clock_;
  const TimePoint start_;
  std::unique_ptr<CpuDevice> device_;  // Makes the card and reads it; takes nothing.
  const std::shared_ptr<CardWatch> watch_;
  EventLog events_;
  const Options cache_options_;
  const AgentSettings agent_settings_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Workflow> workflow_;
  std::jthread agents_;

  // The watching thread's.
  LevelLog levels_;
  Neighbours neighbours_;
  std::vector<Neighbour::State> told_;  // Beside neighbours_.all().
  std::vector<Visit> visits_;
  std::size_t next_visit_ = 0;
};

}  // namespace spillway::demo
