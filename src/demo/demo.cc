#include "demo/demo.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/parse.h"
#include "base/printable.h"
#include "base/run_dir.h"
#include "demo/plain.h"
#include "demo/words.h"
#include "device/cpu/machine_memory.h"

namespace spillway::demo {

namespace {

// So many tokens fit the card, whatever its size: the story is the same on
// every machine. 512 MiB make 4 KiB a token.
constexpr Bytes kCardTokens = 131'072;

AgentSettings AgentSettingsFor(Bytes card_bytes) {
  AgentSettings settings;
  settings.bytes_per_token = std::max<Bytes>(8, card_bytes / kCardTokens / 8 * 8);
  return settings;
}

Options CacheOptionsFor(const std::string& card, std::shared_ptr<CardWatch> watch,
                        EventLog* events) {
  Options options = DemoCacheOptions(card);
  options.pressure = std::move(watch);
  options.on_event = [events](const Event& event) { events->Add(event); };
  return options;
}

void RemoveCardFile(const std::string& card) {
  if (const Result<std::string> dir = RunDir()) ::unlink((*dir + "/card-" + card).c_str());
}

}  // namespace

Result<Bytes> DefaultDemoCardBytes() {
  const Result<Bytes> available = AvailableMemory();
  if (!available) return available.error();
  return std::min<Bytes>(512 * kMiB, *available / 8 / kMiB * kMiB);
}

Status CheckDemoOptions(const DemoOptions& options) {
  if (options.length < kDemoLengthMin || options.length > kDemoLengthMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("a demo of {} can't be played: from {} to {} is right",
                             FormatDuration(options.length), FormatDuration(kDemoLengthMin),
                             FormatDuration(kDemoLengthMax))};
  }
  const Result<Bytes> available = AvailableMemory();
  const Bytes card = options.card_bytes.value_or(kDemoCardMin);
  if (card < kDemoCardMin) {
    return Error{Code::kInvalidArgument, fmt::format("a card of {} is too small: at least {}",
                                                     FormatBytes(card), FormatBytes(kDemoCardMin))};
  }
  // Agents and neighbours together fill the card with real memory.
  if (available && card > *available / 2) {
    return Error{Code::kInvalidArgument,
                 fmt::format("a card of {} is more than half of the {} this machine has free",
                             FormatBytes(card), FormatBytes(*available))};
  }
  return {};
}

Result<std::unique_ptr<Demo>> Demo::Open(const DemoOptions& options) {
  if (Status ok = CheckDemoOptions(options); !ok) return ok.error();
  const std::string card = fmt::format("demo-{}", ::getpid());
  // Whoever opens a card first sizes it; the cache and the neighbours then take
  // it as it is.
  auto device = CpuDevice::Open({.name = card, .total = options.card_bytes, .chunk_bytes = {}});
  if (!device) return device.error();
  std::unique_ptr<Demo> demo(new Demo(options, card, std::move(*device)));
  auto cache = Cache::Open(demo->cache_options_);
  if (!cache) return cache.error();
  demo->cache_ = std::move(*cache);
  if (Status started = demo->cache_->Start(); !started) return started.error();
  demo->workflow_ = std::make_unique<Workflow>(demo->agent_settings_, demo->cache_.get());
  demo->agents_ =
      std::jthread([workflow = demo->workflow_.get(), arrival = ArrivalFor(options.length)](
                       const std::stop_token& stop) { workflow->Run(arrival, stop); });
  return demo;
}

Demo::Demo(const DemoOptions& options, std::string card, std::unique_ptr<CpuDevice> device)
    : options_(options),
      card_(std::move(card)),
      clock_(SystemClock()),
      start_(clock_->Now()),
      device_(std::move(device)),
      watch_(std::make_shared<CardWatch>(device_.get(), card_)),
      events_(start_),
      cache_options_(CacheOptionsFor(card_, watch_, &events_)),
      agent_settings_(AgentSettingsFor(device_->total())),
      neighbours_(options.program, card_),
      visits_(VisitsFor(options.length)) {}

Demo::~Demo() {
  agents_.request_stop();
  if (agents_.joinable()) agents_.join();
  neighbours_.EndAll(now());
  workflow_.reset();
  cache_.reset();
  device_.reset();
  RemoveCardFile(card_);
}

std::vector<std::string> Demo::Look() {
  std::vector<std::string> lines;
  SendNeighbours(&lines);
  LookAtLevel(&lines);
  LookAtNeighbours(&lines);
  for (const EventGroup& group : events_.TakeComplete(now())) lines.push_back(EventLine(group));
  return lines;
}

void Demo::SendNeighbours(std::vector<std::string>* lines) {
  while (next_visit_ < visits_.size() && visits_[next_visit_].at <= now()) {
    const Visit& visit = visits_[next_visit_++];
    const Result<Reading> reading = device_->ReadMemory();
    if (!reading) continue;
    const Bytes bytes = BytesToReach(visit.to, reading->total, reading->free);
    // What is almost all that is free at once; the rest as it comes free.
    const Bytes step = BytesToReach(std::min(visit.to, 0.99), reading->total, reading->free);
    if (Status sent = neighbours_.Send(bytes, step, visit.hold, now()); !sent) {
      lines->push_back(PlainLine(now(), sent.error().message));
    }
  }
}

void Demo::LookAtLevel(std::vector<std::string>* lines) {
  const Level level = cache_->level();
  const Duration at = now();
  const std::optional<Level> before = levels_.Look(level, at);
  if (!before) return;
  // A peak that is not read on the way up would be told on the way down.
  const double peak = watch_->TakePeak();
  lines->push_back(
      LevelLine(at, *before, level, level > *before ? std::optional(peak) : cache_->pressure()));
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

MemoryView Demo::ReadMemory(const Stats& stats) const {
  MemoryView view;
  view.ours_unbacked = stats.device.held;
  // Two readings that belong together: ours must not move in between.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Result<Reading> reading = device_->ReadMemory();
    if (!reading) return {};
    view.total = reading->total;
    view.free = reading->free;
    const Bytes held = cache_->stats().device.held;
    if (std::exchange(view.ours_unbacked, held) == held) break;
  }
  const Bytes taken = view.total - std::min(view.total, view.free);
  view.others = taken - std::min(taken, view.ours());
  return view;
}

Snapshot Demo::TakeSnapshot() {
  Snapshot s;
  s.title = "spillway demo";
  s.card = card_;
  s.at = now();
  s.length = options_.length;
  s.mode = cache_->mode();
  s.level = cache_->level();
  s.level_for = s.at - levels_.since();
  s.blocked = cache_->is_blocked();
  s.pressure = cache_->pressure();
  s.thresholds = cache_options_.thresholds;
  s.stats = cache_->stats();
  s.memory = ReadMemory(s.stats);
  s.events = events_.Latest(EventLog::kGroupsMax);
  s.agents_title = fmt::format("agents: plan, 3 x act, review; round {}; tokens, % found cached",
                               workflow_->rounds() + 1);
  for (const AgentView& view : workflow_->views()) {
    const double cached = static_cast<double>(view.blocks_found) / static_cast<double>(view.blocks);
    s.agents.push_back({view.name, std::string(Name(view.state)), view.tokens, cached});
  }
  for (const Neighbour& n : neighbours_.all()) {
    if (n.state == Neighbour::State::kGone) continue;
    s.neighbours.push_back(
        {n.pid, n.waited ? fmt::format("{} in {}", FormatBytes(n.bytes), FormatDuration(*n.waited))
                         : fmt::format("wants {}", FormatBytes(n.bytes))});
  }
  s.notes = {HasteNote(cache_options_),
             fmt::format("Ctrl-C ends. Join in: spillway squeeze 64MiB --card {} --for 5s", card_)};
  return s;
}

Outcome Demo::Finish() {
  agents_.request_stop();
  agents_.join();
  const Duration at = now();
  levels_.Look(cache_->level(), at);
  neighbours_.EndAll(at);
  Outcome outcome;
  outcome.card = card_;
  outcome.card_bytes = device_->total();
  outcome.length = at;
  outcome.rounds = workflow_->rounds();
  outcome.agents = workflow_->views().size();
  outcome.counts = workflow_->counts();
  outcome.prefill_per_token = agent_settings_.prefill_per_token;
  outcome.stats = cache_->stats();
  outcome.levels = levels_;
  outcome.left = events_.Tallies();
  outcome.neighbours = neighbours_.all();
  return outcome;
}

}  // namespace spillway::demo
