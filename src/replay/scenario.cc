// SPDX-License-Identifier: Apache-2.0
#include "replay/scenario.h"

#include <cassert>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/times.h"
#include "cache/settings.h"
#include "tier/virtual_tier.h"

namespace spillway {
namespace {

// Keys come from a JSON parser, so they are UTF-8.
std::string Quoted(std::string_view text) { return nlohmann::json(text).dump(); }

std::string Flag(bool value) { return value ? "true" : "false"; }

}  // namespace

Scenario::Scenario(Bytes bytes_per_token, Bytes capacity)
    : bytes_per_token_(bytes_per_token),
      capacity_(capacity),
      clock_(std::make_shared<testing::ManualClock>()) {}

Scenario::~Scenario() {
  if (core_ != nullptr) (void)core_->Close();
}

Result<std::unique_ptr<Scenario>> Scenario::Open(const Settings& settings) {
  if (Status ok = CheckSettings(settings.options); !ok) return ok.error();
  if (settings.options.host_capacity || !settings.options.disk_dir.empty()) {
    return Error{Code::kInvalidArgument,
                 "host_capacity, disk_dir: a scenario has the device tier alone; leave them out"};
  }
  const Bytes capacity = settings.options.capacity.value_or(kDefaultCapacity);
  std::unique_ptr<Scenario> scenario(new Scenario(settings.bytes_per_token, capacity));

  Options options = settings.options;
  options.clock = scenario->clock_;
  options.pressure = nullptr;  // Samples are lines of the scenario.
  options.on_event = [self = scenario.get()](const Event& event) { self->OnEvent(event); };
  Core::Parts parts;
  parts.tiers.device =
      std::make_unique<VirtualTier>(options.unlimited ? Tier::kUnlimited : capacity);
  parts.total = capacity;
  Result<std::shared_ptr<Core>> core = Core::Open(options, std::move(parts));
  if (!core) return core.error();
  scenario->core_ = std::move(*core);
  return scenario;
}

Status Scenario::Run(std::string_view text, std::string* out) {
  const Result<ScenarioLine> line = ParseScenarioLine(text);
  if (!line) return line.error();
  events_.clear();
  if (Status ok = MoveClock(*line); !ok) return ok;
  const std::string result = Do(*line);

  if (!events_.empty()) listing_current_ = false;
  for (const Happened& event : events_) List(event.key);
  if (line->op == ScenarioLine::Op::kSet) List(line->key);
  assert(keys_.size() == core_->engine().store().entries());
  Print(*line, result, out);
  return {};
}

Status Scenario::MoveClock(const ScenarioLine& line) {
  if (line.at) {
    const Duration now = clock_->Now().time_since_epoch();
    if (*line.at < now) {
      return Error{Code::kInvalidArgument, fmt::format("at is {}, after {}: time never falls",
                                                       InSeconds(*line.at), InSeconds(now))};
    }
    clock_->Set(TimePoint(*line.at));
  }
  core_->Tick();
  return {};
}

std::string Scenario::Do(const ScenarioLine& line) {
  switch (line.op) {
    case ScenarioLine::Op::kSet:
      return Flag(Set(line));
    case ScenarioLine::Op::kGet: {
      Lease lease;
      return Flag(core_->Get(line.key, &lease));
    }
    case ScenarioLine::Op::kDelete:
      return Flag(core_->Erase(line.key));
    case ScenarioLine::Op::kClear:
      core_->Clear();
      return "null";
    case ScenarioLine::Op::kPressure:
      core_->Pass(Core::SampleValue{line.pressure, capacity_});
      return "null";
    case ScenarioLine::Op::kTick:
      core_->Pass(std::nullopt);
      return "null";
    case ScenarioLine::Op::kOrder:
      return nlohmann::json(core_->engine().EvictionOrder()).dump();
    case ScenarioLine::Op::kGraph:
      return TellGraph(line.graph);
    case ScenarioLine::Op::kSteps:
      return Steps(line.run);
  }
  return "null";
}

StepGraph& Scenario::graph() { return *core_->step_graph(); }

std::string Scenario::TellGraph(const GraphLine& line) {
  const Status status = Tell(&graph(), line, clock_->Now());
  core_->Tick();  // The consequences are part of this line's answer.
  if (status) return "true";
  return fmt::format(R"(false,"why":{})", Quoted(status.error().message));
}

std::string Scenario::Steps(const std::string& run) {
  const auto steps = graph().Steps(run, clock_->Now());
  if (!steps) return fmt::format(R"(false,"why":{})", Quoted(steps.error().message));
  std::string result = "{";
  for (const StepFacts& step : *steps) {
    const std::string count = step.steps ? fmt::to_string(*step.steps) : "null";
    result += fmt::format("{}{}:{}", result.size() > 1 ? "," : "", Quoted(step.id), count);
  }
  return result + "}";
}

bool Scenario::Set(const ScenarioLine& line) {
  SetOptions options;
  options.tokens = line.tokens;
  options.agent = line.agent;
  options.parent = line.parent;
  const Bytes bytes = line.bytes.value_or(static_cast<Bytes>(line.tokens) * bytes_per_token_);
  // The tier never reads the bytes, so one is enough.
  static constexpr char kNoBytes = 0;
  const Status status = core_->Set(line.key, Source(&kNoBytes, bytes), options);
  // The parser has checked the line.
  assert(status || status.error().code != Code::kInvalidArgument);
  return status.has_value();
}

void Scenario::OnEvent(const Event& event) {
  events_.push_back({std::string(event.key), event.action, event.reason});
}

void Scenario::List(const std::string& key) {
  const Store& store = core_->engine().store();
  const std::uint32_t slot = store.index().Lookup(store.index().HashOf(key), key);
  const bool present = slot != kNoSlot;
  const bool marked = present && store.slots().record(slot).offloaded;
  if (present != keys_.contains(key)) {
    if (present) {
      keys_.emplace(key, Quoted(key));
    } else {
      keys_.erase(key);
    }
    listing_current_ = false;
  }
  if (marked) {
    offloaded_.insert(key);
  } else {
    offloaded_.erase(key);
  }
}

void Scenario::Print(const ScenarioLine& line, const std::string& result, std::string* out) {
  if (!listing_current_) {
    listing_ = R"("keys":[)";
    for (const auto& [key, quoted] : keys_) (listing_ += quoted) += ',';
    if (!keys_.empty()) listing_.pop_back();
    listing_ += R"(],"offloaded":[)";
    for (const std::string& key : offloaded_) (listing_ += keys_.at(key)) += ',';
    if (!offloaded_.empty()) listing_.pop_back();
    listing_ += ']';
    listing_current_ = true;
  }
  const Engine& engine = core_->engine();
  fmt::format_to(std::back_inserter(*out),
                 R"({{"op":"{}","result":{},"mode":"{}","level":"{}","blocked":{},"size":{},)"
                 R"("tokens":{},)",
                 line.name, result, Name(engine.mode()), Name(engine.level()), engine.is_blocked(),
                 engine.store().entries(), engine.store().tokens());
  *out += listing_;
  *out += R"(,"events":[)";
  for (const Happened& event : events_) {
    fmt::format_to(std::back_inserter(*out), R"({{"key":{},"action":"{}","reason":"{}"}},)",
                   Quoted(event.key), Name(event.action), Name(event.reason));
  }
  if (!events_.empty()) out->pop_back();
  *out += "]}\n";
}

}  // namespace spillway
