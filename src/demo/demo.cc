#include "demo/demo.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/parse.h"
#include "base/times.h"
#include "demo/figures_told.h"
#include "demo/replayed.h"
#include "demo/socket_contexts.h"
#include "view/words.h"

namespace spillway::demo {

using namespace view;  // NOLINT: it draws with all of it.

namespace {

using std::chrono::milliseconds;

// So many tokens fit the card, whatever its size: the story is the same on
// every machine. Twelve contexts have 70,000 when they come, 90,000 at most.
constexpr Bytes kCardTokens = 98'304;

AgentSettings AgentSettingsFor(Bytes card_bytes) {
  AgentSettings settings;
  settings.bytes_per_token = std::max<Bytes>(8, card_bytes / kCardTokens / 8 * 8);
  settings.think = milliseconds(150);  // A round takes about a second: one can follow it.
  return settings;
}

}  // namespace

Result<std::unique_ptr<Demo>> Demo::Open(const DemoOptions& asked) {
  const Result<DemoOptions> options = CheckDemoOptions(asked);
  if (!options) return options.error();
  Result<std::unique_ptr<Folder>> folder = Folder::Make();
  if (!folder) return folder.error();
  auto stage = options->device == "cpu" ? Stage::OnCard((*folder)->name(), *options->card_bytes)
                                        : Stage::OnGpu(options->device, *options->card_bytes);
  if (!stage) return stage.error();
  std::unique_ptr<Demo> demo(new Demo(*options, std::move(*folder), std::move(*stage)));
  const std::string log =
      options->trace.empty() ? demo->folder_->path() + "/turns.jsonl" : options->trace;
  auto chronicle = Chronicle::Open(log, demo->agent_settings_.bytes_per_token);
  if (!chronicle) return chronicle.error();
  demo->chronicle_ = std::move(*chronicle);
  const Status started = demo->stage_->Around([&] { return demo->StartDaemon(); });
  if (!started) return started.error();
  if (Status asked_once = demo->Ask(); !asked_once) return asked_once.error();
  demo->StartAgents();
  return demo;
}

Demo::Demo(const DemoOptions& options, std::unique_ptr<Folder> folder, std::unique_ptr<Stage> stage)
    : options_(options),
      start_(std::chrono::steady_clock::now()),
      start_unix_ms_(UnixMs()),
      folder_(std::move(folder)),
      stage_(std::move(stage)),
      cache_options_(DemoCacheOptions(*stage_, folder_->disk())),
      agent_settings_(AgentSettingsFor(stage_->bytes())),
      neighbours_(options.squeeze, stage_->Where(), stage_->lead()),
      visits_(VisitsFor(options.length, options.whole)),
      scenes_(ScenesFor(options.length, options.whole)) {}

Demo::~Demo() {
  verifier_.reset();
  StopAgents();
  neighbours_.EndAll(now());
  workflow_.reset();
  daemon_.reset();
}

Status Demo::StartDaemon() {
  DaemonOptions options;
  options.program = options_.daemon;
  options.folder = folder_->path();
  options.socket = options_.socket;
  options.port = options_.port;
  options.http_port = options_.http_port;
  if (daemon_ != nullptr) {  // Who watches finds the next one where the last was.
    options.socket = daemon_->socket();
    options.port = daemon_->port();
    options.http_port = daemon_->http_port();
  }
  options.cache = cache_options_;
  client_.reset();
  Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(options);
  if (!daemon) return daemon.error();
  daemon_ = std::move(*daemon);
  Result<Client> client = Client::Connect(daemon_->socket());
  if (!client) return client.error();
  client_ = std::move(*client);
  http_.emplace(daemon_->http_port());
  news_number_ = 0;
  return {};
}

void Demo::StartAgents() {
  if (workflow_ == nullptr) {
    graph_ = std::make_unique<GraphTeller>(daemon_->socket());
    reviews_ = std::make_unique<Reviews>(daemon_->http_port(), chronicle_.get());
    workflow_ = std::make_unique<Workflow>(
        agent_settings_,
        [this] { return std::make_unique<SocketContexts>(daemon_->socket(), stage_->on_gpu()); },
        [this](const std::vector<std::string_view>& words) { return graph_->Tell(words); },
        chronicle_.get(), [this](const Agent& reviewer) { reviews_->Look(reviewer); });
    agents_ = std::jthread([this, arrival = ArrivalFor(options_.length, options_.whole)](
                               const std::stop_token& stop) { workflow_->Run(arrival, stop); });
    return;
  }
  graph_->Renew();
  agents_ = std::jthread([this](const std::stop_token& stop) { workflow_->RunAgain(stop); });
}

void Demo::StopAgents() {
  agents_.request_stop();
  if (agents_.joinable()) agents_.join();
}

std::string Demo::SqueezeCommand() const {
  return fmt::format("spillway squeeze 64MiB {} --for 5s", fmt::join(stage_->Where(), " "));
}

std::vector<std::string> Demo::Invitation() const {
  std::vector<std::string> lines = {
      fmt::format("open http://127.0.0.1:{}/{}; spillwayd is pid {}", daemon_->http_port(),
                  options_.http_port || daemon_->http_port() == kUsualHttpPort
                      ? ""
                      : fmt::format(" (port {} is taken)", kUsualHttpPort),
                  daemon_->pid()),
      "while it runs:"};
  for (const std::string& command : Commands(daemon_->socket(), daemon_->http_port())) {
    lines.push_back("  " + command);
  }
  lines.push_back("  " + SqueezeCommand());
  lines.push_back(stage_->Note());
  if (!options_.why_not_gpu.empty()) lines.push_back(options_.why_not_gpu);
  lines.push_back(HasteNote(cache_options_));
  return lines;
}

// --- the end ---

Result<const Outcome*> Demo::Summarize() {
  if (outcome_) return &*outcome_;
  Result<Outcome> outcome = MakeOutcome();
  if (!outcome) return WhyOf(outcome.error());
  outcome_ = std::move(*outcome);
  return &*outcome_;
}

Result<Outcome> Demo::MakeOutcome() {
  verifier_.reset();
  StopAgents();
  neighbours_.EndAll(now());
  if (const std::string why = daemon_->WhyGone(); !why.empty()) {
    return Error{Code::kUnavailable, why};
  }
  if (Status ok = Ask(); !ok) return ok.error();
  LookAtStrangers();
  Outcome outcome;
  outcome.place = stage_->Place();
  outcome.below = fmt::format("{} of RAM and {} of disk", FormatBytes(report_.stats.host.capacity),
                              FormatBytes(report_.stats.disk.capacity));
  outcome.length = now();
  outcome.strangers = strangers_;
  std::erase_if(outcome.strangers, [](const Stranger& each) { return !each.had; });
  outcome.kills = kills_;
  outcome.prefill_per_token = agent_settings_.prefill_per_token;
  outcome.failures = workflow_->counts().failures;
  for (const AgentView& view : workflow_->views()) {
    if (!view.trouble.empty()) outcome.why_failed = view.trouble;
  }
  outcome.untold = workflow_->untold();
  std::vector<FigureTold> figures = FiguresTold(FactsNow());
  AddReplayTo(&outcome, &figures);
  if (Status ok = Tell("summary", "", figures); !ok) return ok.error();
  const Result<std::string> text = http_->Get("/metrics");
  if (!text) return text.error();
  Result<MetricsPage> page = MetricsPage::Read(*text);
  if (!page) return page.error();
  outcome.page = std::move(*page);
  if (Status ok = Tell("summary", SummaryText(outcome.page), {}); !ok) return ok.error();
  return outcome;
}

// What others would have made of the same turns, in the memory that was left to us
// on average.
void Demo::AddReplayTo(Outcome* outcome, std::vector<FigureTold>* figures) {
  const Chronicle::Totals totals = chronicle_->totals();
  if (Status written = chronicle_->Finish(); !written) {
    outcome->replay_trouble = written.error().message;
    return;
  }
  const auto room = static_cast<Tokens>(totals.memory / agent_settings_.bytes_per_token);
  if (totals.requests == 0 || room == 0) return;
  const Result<std::vector<Replayed>> replayed =
      ReplayLog(options_.squeeze, chronicle_->path(), {"lru", "seed", "score"}, room);
  if (!replayed) {
    outcome->replay_trouble = replayed.error().message;
    return;
  }
  outcome->replay_tokens = room;
  for (const Replayed& each : *replayed) {
    const double tokens = each.share * static_cast<double>(each.input);
    const std::chrono::duration<double> saved = agent_settings_.prefill_per_token;
    figures->push_back(
        {fmt::format("replay_{}_saved_seconds", each.policy), tokens * saved.count()});
  }
}

}  // namespace spillway::demo
