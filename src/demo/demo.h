// The demo: `spillwayd` in a process of its own on a virtual card, a dozen agents
// that are its clients, and neighbours, processes too, that take memory of the
// card and give it back. Pressure is what the card says; nothing here sets it.
// What is shown is what the daemon says of itself.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "demo/caption.h"
#include "demo/client.h"
#include "demo/daemon.h"
#include "demo/event_log.h"
#include "demo/folder.h"
#include "demo/graph_teller.h"
#include "demo/http_client.h"
#include "demo/level_log.h"
#include "demo/neighbours.h"
#include "demo/options.h"
#include "demo/report.h"
#include "demo/script.h"
#include "demo/snapshot.h"
#include "demo/summary.h"
#include "demo/workflow.h"
#include "device/cpu/cpu_device.h"

namespace spillway::demo {

// Everything on the stage. Runs from Open; all calls belong to the thread that
// opened it.
class Demo {
 public:
  static Result<std::unique_ptr<Demo>> Open(const DemoOptions& options);
  // Nobody is left behind: agents stop, neighbours and the daemon end, the card
  // goes.
  ~Demo();
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // What has happened since the last look, as lines for a log. An error: the
  // daemon is gone, or does not answer.
  Result<std::vector<std::string>> Look();
  Snapshot TakeSnapshot();
  // Since Open, by the machine's clock.
  Duration now() const { return std::chrono::steady_clock::now() - start_; }
  // Where to look, and what to type.
  std::vector<std::string> Invitation() const;

  // Ends everything and says what it came to.
  Result<Outcome> Finish();

 private:
  Demo(const DemoOptions& options, std::unique_ptr<Folder> folder,
       std::unique_ptr<CpuDevice> device);
  Status StartDaemon();
  void StartAgents();

  Status Ask();
  Status AskForNews();
  void Note(const News& news, std::vector<std::string>* lines);
  void LookAtScene(std::vector<std::string>* lines);
  void LookAtNeighbours(std::vector<std::string>* lines);
  void SendNeighbours(std::vector<std::string>* lines);
  Figures FiguresNow() const;
  std::string CaptionNow() const;

  const DemoOptions options_;
  const std::chrono::steady_clock::time_point start_;
  const std::int64_t start_unix_ms_;
  const std::unique_ptr<Folder> folder_;
  const std::unique_ptr<CpuDevice> device_;  // Makes the card; takes nothing of it.
  const Options cache_options_;
  const AgentSettings agent_settings_;
  std::unique_ptr<Daemon> daemon_;
  std::optional<Client> client_;
  std::optional<HttpClient> http_;
  std::unique_ptr<GraphTeller> graph_;
  std::unique_ptr<Workflow> workflow_;
  std::jthread agents_;

  Report report_;
  std::uint64_t news_number_ = 0;
  std::vector<News> news_;  // Heard and not looked at yet.
  Duration news_at_{};
  EventLog events_{TimePoint{}};
  LevelLog levels_;
  Neighbours neighbours_;
  std::vector<Neighbour::State> told_;  // Beside neighbours_.all().
  const std::vector<Visit> visits_;
  std::size_t next_visit_ = 0;
  const std::vector<SceneAt> scenes_;
  std::optional<Scene> scene_;
  Figures scene_first_;  // When it began.
};

}  // namespace spillway::demo
