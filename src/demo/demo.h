// The demo: `spillwayd` in a process of its own on a virtual card or a part of a
// GPU, a dozen agents that are its clients, and neighbours, processes too, that take
// memory of it and give it back. Pressure is what the card says; nothing here sets it.
// What is shown is what the daemon says of itself, or stands on its /metrics.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "demo/caption.h"
#include "demo/chronicle.h"
#include "demo/client.h"
#include "demo/daemon.h"
#include "demo/figures_told.h"
#include "demo/folder.h"
#include "demo/graph_teller.h"
#include "demo/http_client.h"
#include "demo/level_log.h"
#include "demo/neighbours.h"
#include "demo/options.h"
#include "demo/report.h"
#include "demo/review.h"
#include "demo/script.h"
#include "demo/stage.h"
#include "demo/summary.h"
#include "demo/verifier.h"
#include "demo/workflow.h"
#include "view/event_log.h"
#include "view/snapshot.h"

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
  view::Snapshot TakeSnapshot();
  // Since Open, by the machine's clock.
  Duration now() const { return std::chrono::steady_clock::now() - start_; }
  // Where to look, and what to type.
  std::vector<std::string> Invitation() const;

  // What it came to: agents stop, neighbours end, the daemon still answers. Once
  // the scene of the summary has begun, that; else made now.
  Result<const Outcome*> Summarize();
  // Whether it has been.
  bool summarized() const { return outcome_.has_value(); }

 private:
  Demo(const DemoOptions& options, std::unique_ptr<Folder> folder, std::unique_ptr<Stage> stage);
  Status StartDaemon();
  void StartAgents();
  void StopAgents();

  view::AgentRow RowOf(const AgentView& view) const;
  std::string SqueezeCommand() const;

  Result<Outcome> MakeOutcome();

  // demo_look.cc
  Status Ask();
  Result<std::vector<std::string>> LookAtAll();
  Error WhyOf(const Error& error);
  Status AskForNews();
  void Note(const News& news, std::vector<std::string>* lines);
  Status LookAtScene(std::vector<std::string>* lines);
  void LookAtResumes(std::vector<std::string>* lines);
  void LookAtNeighbours(std::vector<std::string>* lines);
  void SendNeighbours(std::vector<std::string>* lines);
  void LookAtStrangers();
  Figures FiguresNow() const;
  std::size_t ContextsNow() const;
  Moment MomentNow() const;
  DemoFacts FactsNow() const;
  // To the daemon, for those who watch it.
  Status Tell(const std::string& phase, const std::string& text,
              const std::vector<FigureTold>& figures);
  void AddReplayTo(Outcome* outcome, std::vector<FigureTold>* figures);

  // demo_kill.cc: the agents hold still, the daemon is killed when all is on disk
  // or has had its time, another one is started, and what it has is verified.
  enum class Kill : std::uint8_t { kNotYet, kSettling, kVerifying };
  Status LookAtKill(std::vector<std::string>* lines);
  Status KillDaemon(std::vector<std::string>* lines);
  void EndKill(std::vector<std::string>* lines);

  const DemoOptions options_;
  const std::chrono::steady_clock::time_point start_;
  const std::int64_t start_unix_ms_;
  const std::unique_ptr<Folder> folder_;
  const std::unique_ptr<Stage> stage_;
  const Options cache_options_;
  const AgentSettings agent_settings_;
  std::unique_ptr<Daemon> daemon_;
  std::optional<Client> client_;
  std::optional<HttpClient> http_;
  std::unique_ptr<GraphTeller> graph_;
  std::unique_ptr<Chronicle> chronicle_;
  std::unique_ptr<Reviews> reviews_;
  std::unique_ptr<Workflow> workflow_;
  std::jthread agents_;

  Report report_;
  Totals past_;  // Of daemons that were killed.
  std::uint64_t news_number_ = 0;
  std::vector<News> news_;  // Heard and not looked at yet.
  Duration news_at_{};
  Duration told_at_{};  // When the caption was last told to the daemon.
  view::EventLog events_{TimePoint{}};
  LevelLog levels_;
  Neighbours neighbours_;
  std::vector<Neighbour::State> told_;    // Beside neighbours_.all().
  std::vector<Stranger> strangers_;       // Likewise.
  std::vector<Totals> before_strangers_;  // Likewise: when each came.
  const std::vector<Visit> visits_;
  std::size_t next_visit_ = 0;
  const std::vector<SceneAt> scenes_;
  std::optional<Scene> scene_;
  Figures scene_first_;                      // When it began.
  std::vector<std::uint64_t> resumes_told_;  // Of each agent.
  std::optional<Resume> resume_;             // The last one.
  std::optional<ReviewSum> squeezed_;        // Reviews of that scene, once it is over.

  Kill kill_ = Kill::kNotYet;
  Duration kill_by_{};
  std::vector<Killed> kills_;
  std::unique_ptr<Verifier> verifier_;
  std::uint64_t verified_wrong_ = 0;
  Bytes verified_bytes_ = 0;
  std::optional<Outcome> outcome_;
};

}  // namespace spillway::demo
