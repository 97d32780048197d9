#include "demo/demo.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "demo/plain.h"
#include "demo/socket_contexts.h"
#include "demo/words.h"

namespace spillway::demo {

namespace {

using std::chrono::milliseconds;

// So many tokens fit the card, whatever its size: the story is the same on
// every machine. Twelve contexts have 70,000 when they come, 90,000 at most.
constexpr Bytes kCardTokens = 98'304;
constexpr Duration kNewsPeriod = milliseconds(50);

AgentSettings AgentSettingsFor(Bytes card_bytes) {
  AgentSettings settings;
  settings.bytes_per_token = std::max<Bytes>(8, card_bytes / kCardTokens / 8 * 8);
  return settings;
}

std::int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

}  // namespace

Result<std::unique_ptr<Demo>> Demo::Open(const DemoOptions& asked) {
  const Result<DemoOptions> options = CheckDemoOptions(asked);
  if (!options) return options.error();
  Result<std::unique_ptr<Folder>> folder = Folder::Make();
  if (!folder) return folder.error();
  // Whoever opens a card first sizes it; the daemon and the neighbours then take
  // it as it is.
  auto device =
      CpuDevice::Open({.name = (*folder)->name(), .total = options->card_bytes, .chunk_bytes = {}});
  if (!device) return device.error();
  std::unique_ptr<Demo> demo(new Demo(*options, std::move(*folder), std::move(*device)));
  if (Status started = demo->StartDaemon(); !started) return started.error();
  if (Status asked_once = demo->Ask(); !asked_once) return asked_once.error();
  demo->StartAgents();
  return demo;
}

Demo::Demo(const DemoOptions& options, std::unique_ptr<Folder> folder,
           std::unique_ptr<CpuDevice> device)
    : options_(options),
      start_(std::chrono::steady_clock::now()),
      start_unix_ms_(UnixMs()),
      folder_(std::move(folder)),
      device_(std::move(device)),
      cache_options_(DemoCacheOptions(folder_->name(), device_->total())),
      agent_settings_(AgentSettingsFor(device_->total())),
      neighbours_(options.squeeze, folder_->name()),
      visits_(VisitsFor(options.length)),
      scenes_(ScenesFor(options.length)) {}

Demo::~Demo() {
  agents_.request_stop();
  if (agents_.joinable()) agents_.join();
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
  options.cache = cache_options_;
  Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(options);
  if (!daemon) return daemon.error();
  daemon_ = std::move(*daemon);
  Result<Client> client = Client::Connect(daemon_->socket());
  if (!client) return client.error();
  client_ = std::move(*client);
  http_.emplace(daemon_->http_port());
  return {};
}

void Demo::StartAgents() {
  graph_ = std::make_unique<GraphTeller>(daemon_->socket());
  workflow_ = std::make_unique<Workflow>(
      agent_settings_, [this] { return std::make_unique<SocketContexts>(daemon_->socket()); },
      [this](const std::vector<std::string_view>& words) { return graph_->Tell(words); });
  agents_ = std::jthread(
      [this](const std::stop_token& stop) { workflow_->Run(ArrivalFor(options_.length), stop); });
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
  lines.push_back(fmt::format("  spillway squeeze 64MiB --card {} --for 5s", folder_->name()));
  lines.push_back(HasteNote(cache_options_));
  return lines;
}

Status Demo::Ask() {
  const Result<Reply> reply = client_->Ask({"SPILL.STATS", "JSON"});
  if (!reply) return reply.error();
  Result<Report> report = ReadReport(reply->text);
  if (!report) return report.error();
  report_ = std::move(*report);
  return {};
}

Status Demo::AskForNews() {
  const Result<std::string> text =
      http_->Get(fmt::format("/api/v1/events?after={}&limit=1000", news_number_));
  if (!text) return text.error();
  Result<AllNews> all = ReadNews(*text);
  if (!all) return all.error();
  news_number_ = all->latest;
  std::ranges::move(all->news, std::back_inserter(news_));
  news_at_ = now();
  return {};
}

Result<std::vector<std::string>> Demo::Look() {
  if (const std::string why = daemon_->WhyGone(); !why.empty()) {
    return Error{Code::kUnavailable, why};
  }
  if (Status ok = Ask(); !ok) return ok.error();
  if (now() >= news_at_ + kNewsPeriod) {
    if (Status ok = AskForNews(); !ok) return ok.error();
  }
  std::vector<std::string> lines;
  LookAtScene(&lines);
  SendNeighbours(&lines);
  for (const News& news : std::exchange(news_, {})) Note(news, &lines);
  LookAtNeighbours(&lines);
  for (const EventGroup& group : events_.TakeComplete(now())) lines.push_back(EventLine(group));
  return lines;
}

void Demo::Note(const News& news, std::vector<std::string>* lines) {
  const Duration at =
      std::max<Duration>(Duration::zero(), milliseconds(news.unix_ms - start_unix_ms_));
  if (!news.is_level) {
    // Told is what left for pressure: not copies made below, nor what agents erased.
    if (news.action == Action::kBack || news.reason == Reason::kErased) return;
    Event event;
    event.at = TimePoint(at);
    event.key = news.key;
    event.action = news.action;
    event.reason = news.reason;
    event.level = news.level;
    event.bytes = news.bytes;
    events_.Add(event);
    return;
  }
  if (news.tier != "device") return;
  levels_.Look(news.level, at);
  lines->push_back(LevelLine(at, news.from, news.level, news.pressure));
}

Figures Demo::FiguresNow() const { return {report_.stats, workflow_->counts()}; }

std::string Demo::CaptionNow() const {
  if (!scene_) return {};
  return Caption(*scene_, scene_first_, FiguresNow(), neighbours_.all(),
                 agent_settings_.prefill_per_token);
}

void Demo::LookAtScene(std::vector<std::string>* lines) {
  const Scene scene = SceneAtTime(scenes_, now());
  if (scene_ == scene) return;
  if (scene_) lines->push_back(PlainLine(now(), CaptionNow()));
  scene_ = scene;
  scene_first_ = FiguresNow();
  lines->push_back(PlainLine(now(), fmt::format("{}: {}", Name(scene), About(scene))));
}

void Demo::SendNeighbours(std::vector<std::string>* lines) {
  while (next_visit_ < visits_.size() && visits_[next_visit_].at <= now()) {
    const Visit& visit = visits_[next_visit_++];
    constexpr Bytes kPage = 4 * kKiB;
    const auto wanted = visit.share * static_cast<double>(device_->total());
    const Bytes bytes = static_cast<Bytes>(wanted) / kPage * kPage;
    // In steps that the reserve has room for: a stranger lives off it.
    const Bytes step = std::max(kPage, report_.stats.device.reserve / 2 / kPage * kPage);
    if (Status sent = neighbours_.Send(bytes, step, visit.hold, now()); !sent) {
      lines->push_back(PlainLine(now(), sent.error().message));
    }
  }
}

void Demo::LookAtNeighbours(std::vector<std::string>* lines) {
  neighbours_.Look(now());
  const std::vector<Neighbour>& all = neighbours_.all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Neighbour& n = all[i];
    if (i == told_.size()) {
      told_.push_back(Neighbour::State::kAsking);
      lines->push_back(
          PlainLine(n.came, fmt::format("neighbour pid {} wants {} of the card for {}", n.pid,
                                        FormatBytes(n.bytes), FormatDuration(n.hold))));
    }
    if (told_[i] == n.state) continue;
    if (told_[i] == Neighbour::State::kAsking && n.waited) {
      lines->push_back(
          PlainLine(now(), fmt::format("neighbour pid {} has its {} after {}", n.pid,
                                       FormatBytes(n.bytes), FormatDuration(*n.waited))));
    }
    told_[i] = n.state;
    if (n.state != Neighbour::State::kGone) continue;
    lines->push_back(PlainLine(now(), n.waited ? fmt::format("neighbour pid {} gives back its {}",
                                                             n.pid, FormatBytes(n.bytes))
                                               : fmt::format("neighbour pid {} did not get all: {}",
                                                             n.pid, Printable(n.said, 120))));
  }
}

Snapshot Demo::TakeSnapshot() {
  const TierStats& card = report_.stats.device;
  Snapshot s;
  s.title = options_.title;
  s.caption = CaptionNow();
  s.card = folder_->name();
  s.at = now();
  s.length = options_.length;
  s.mode = report_.mode;
  s.level = card.level;
  s.level_for = s.at - levels_.since();
  s.blocked = report_.blocked;
  s.pressure = card.pressure;
  s.thresholds = cache_options_.thresholds;
  s.stats = report_.stats;
  s.memory.total = card.total;
  s.memory.free = card.free;
  s.memory.others = card.others;
  const Bytes ours = card.total - std::min(card.total, card.free + card.others);
  s.memory.ours_backed = std::min(card.clean, ours);
  s.memory.ours_unbacked = ours - s.memory.ours_backed;
  s.events = events_.Latest(EventLog::kGroupsMax);
  s.agents_title = fmt::format("agents: plan, 3 x act, review; round {}; tokens, % found cached",
                               workflow_->rounds() + 1);
  for (const AgentView& view : workflow_->views()) {
    const double cached = static_cast<double>(view.blocks_found) /
                          static_cast<double>(std::max<std::size_t>(1, view.blocks_asked));
    s.agents.push_back({view.name, std::string(Name(view.state)), view.tokens, cached});
  }
  for (const Neighbour& n : neighbours_.all()) {
    if (n.state == Neighbour::State::kGone) continue;
    s.neighbours.push_back(
        {n.pid, n.waited ? fmt::format("{} in {}", FormatBytes(n.bytes), FormatDuration(*n.waited))
                         : fmt::format("wants {}", FormatBytes(n.bytes))});
  }
  s.notes = {fmt::format("http://127.0.0.1:{}/   spillway stats --socket {}", daemon_->http_port(),
                         daemon_->socket()),
             fmt::format("Ctrl-C ends. Join in: spillway squeeze 64MiB --card {} --for 5s",
                         folder_->name())};
  return s;
}

Result<Outcome> Demo::Finish() {
  agents_.request_stop();
  agents_.join();
  neighbours_.EndAll(now());
  if (const std::string why = daemon_->WhyGone(); !why.empty()) {
    return Error{Code::kUnavailable, why};
  }
  if (Status ok = Ask(); !ok) return ok.error();
  if (Status ok = AskForNews(); !ok) return ok.error();
  std::vector<std::string> unsaid;
  for (const News& news : std::exchange(news_, {})) Note(news, &unsaid);
  const Duration at = now();
  levels_.Look(levels_.level(), at);
  Outcome outcome;
  outcome.card = folder_->name();
  outcome.card_bytes = device_->total();
  outcome.below_bytes = report_.stats.host.capacity;
  outcome.length = at;
  outcome.rounds = workflow_->rounds();
  outcome.agents = workflow_->views().size();
  outcome.counts = workflow_->counts();
  outcome.prefill_per_token = agent_settings_.prefill_per_token;
  outcome.stats = report_.stats;
  outcome.levels = levels_;
  outcome.neighbours = neighbours_.all();
  outcome.graph_untold = workflow_->untold();
  return outcome;
}

}  // namespace spillway::demo
