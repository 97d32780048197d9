// SPDX-License-Identifier: Apache-2.0
// StepGraph's inputs: arguments are checked, then applied.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "graph/step_graph_impl.h"

namespace spillway {
namespace {

constexpr double kEstMsMax = 31'536'000'000;  // A year.

Error Full(std::string_view what, std::size_t most) {
  return Error{Code::kBusy,
               fmt::format("the step graph is full: it holds {} {}, the maximum", most, what)};
}

Status CheckName(std::string_view what, std::string_view name, Bytes most = kAgentBytesMax) {
  if (!name.empty() && name.size() <= most) return {};
  return Bad(fmt::format("{} has {} bytes; it must have 1 to {}", what, name.size(), most));
}

Status CheckProbability(std::string_view what, double p, bool zero) {
  if (p <= 1 && (p > 0 || (zero && p == 0))) return {};
  return Bad(fmt::format("{} is {}; it must be {} 0 and at most 1", what, p,
                         zero ? "at least" : "more than"));
}

Status CheckStep(const StepSpec& step) {
  if (Status ok = CheckName("a step's id", step.id); !ok) return ok;
  const std::string name = Printable(step.id);
  if (step.agent.size() > kAgentBytesMax) {
    return Bad(fmt::format("step '{}': its agent's name has {} bytes; at most {}", name,
                           step.agent.size(), kAgentBytesMax));
  }
  if ((step.join == Join::kKOf) != (step.k > 0)) {
    return Bad(
        fmt::format("step '{}': k is {}; it must be 1 or more with join k, else 0", name, step.k));
  }
  if (step.est_ms && !(*step.est_ms >= 0 && *step.est_ms <= kEstMsMax)) {
    return Bad(fmt::format("step '{}': est_ms is {}; it must be from 0 to {}", name, *step.est_ms,
                           kEstMsMax));
  }
  if (step.max_visits && *step.max_visits == 0) {
    return Bad(fmt::format("step '{}': max_visits is 0; it must be 1 or more, or absent", name));
  }
  return {};
}

}  // namespace

// --- finding ---

Result<NamedRun*> GraphCore::LiveRun(std::string_view name) {
  const auto found = names_.find(std::string(name));
  if (found != names_.end()) return runs_[found->second].get();
  const std::optional<RunState> ended = run_state(name);
  if (ended) return Bad(fmt::format("run '{}' has ended ({})", Printable(name), Name(*ended)));
  return Bad(fmt::format("no run '{}'; BeginRun starts one", Printable(name)));
}

Result<StepIndex> GraphCore::FindStep(const NamedRun& run, std::string_view name) const {
  const auto found = run.steps.find(std::string(name));
  if (found != run.steps.end()) return found->second;
  std::string near;
  if (run.step_names.size() <= 256) {
    std::vector<std::string_view> known;
    for (const std::string* step : run.step_names) known.push_back(*step);
    near = DidYouMean(name, known);
  }
  return Bad(fmt::format("no step '{}' in run '{}'{}", Printable(name), Printable(run.name), near));
}

Result<GraphCore::Place> GraphCore::FindPlace(std::string_view run, std::string_view step,
                                              TimePoint now) {
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  const Result<StepIndex> at = FindStep(**live, step);
  if (!at) return at.error();
  Heard(*live, now);
  // Steps that are ready are near, so they are exact even then.
  SettleRun(*live, now, Far::kRoughly);
  return Place{*live, *at};
}

std::uint32_t GraphCore::ChoiceOf(NamedRun* run, const std::string& name) {
  if (name.empty()) return kNoIndex;
  const auto next = static_cast<std::uint32_t>(run->choices.size());
  return run->choices.try_emplace(name, next).first->second;
}

// --- keeping track ---

// Time does not decrease: an earlier time counts as the latest seen.
TimePoint GraphCore::Latest(TimePoint now) {
  latest_ = std::max(latest_, now);
  return latest_;
}

void GraphCore::Heard(NamedRun* run, TimePoint now) {
  run->last_said = Latest(now);
  quiet_.splice(quiet_.end(), quiet_, run->quiet);
}

void GraphCore::Changed(NamedRun* run) {
  ++version_;
  if (run->dirty) return;
  run->dirty = true;
  dirty_runs_.push_back(SlotOf(*run));
}

// --- runs ---

Status GraphCore::BeginRun(std::string_view run, const RunSpec& spec, TimePoint now) {
  if (Status ok = CheckName("a run's name", run); !ok) return ok;
  if (spec.client.size() > kAgentBytesMax || spec.workflow.size() > kAgentBytesMax) {
    return Bad(fmt::format("run '{}': client and workflow have at most {} bytes", Printable(run),
                           kAgentBytesMax));
  }
  if (!(spec.weight > 0 && std::isfinite(spec.weight))) {
    return Bad(
        fmt::format("run '{}': weight is {}; it must be more than 0", Printable(run), spec.weight));
  }
  if (spec.deadline && *spec.deadline <= Duration::zero()) {
    return Bad(fmt::format("run '{}': its deadline must lie ahead", Printable(run)));
  }
  if (names_.contains(std::string(run))) {
    return Bad(fmt::format("run '{}' is live already; EndRun ends it", Printable(run)));
  }
  if (names_.size() >= options_.runs_max) return Full("runs", options_.runs_max);
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<RunSlot>(runs_.size()));
    runs_.emplace_back();
  }
  const RunSlot slot = free_runs_.back();
  free_runs_.pop_back();
  runs_[slot] = std::make_unique<NamedRun>(run, spec, &estimates_, Latest(now));
  NamedRun& begun = *runs_[slot];
  begun.quiet = quiet_.insert(quiet_.end(), slot);
  begun.last_said = latest_;
  if (spec.deadline && *spec.deadline < TimePoint::max() - latest_) {
    begun.deadline = latest_ + *spec.deadline;
    deadlines_.emplace(*begun.deadline, slot);
  }
  names_.emplace(run, slot);
  Changed(&begun);
  return {};
}

Status GraphCore::EndRun(std::string_view run, RunState how, TimePoint now) {
  if (how == RunState::kLive) return Bad("a run ends as finished, failed, cancelled or expired");
  Latest(now);
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  Drop(SlotOf(**live), how);
  return {};
}

void GraphCore::Drop(RunSlot slot, RunState how) {
  constexpr std::size_t kEndedMax = 1024;
  NamedRun& run = *runs_[slot];
  for (const BindingIndex binding : run.bindings) keys_.Release(binding, slot);
  keys_.DropSteps(run.agents, slot);
  ended_.emplace_front(run.name, how);
  if (ended_.size() > kEndedMax) ended_.pop_back();
  if (run.deadline) deadlines_.erase({*run.deadline, slot});
  if (run.dirty) std::erase(dirty_runs_, slot);
  if (run.rough) std::erase(rough_runs_, slot);
  quiet_.erase(run.quiet);
  names_.erase(run.name);
  steps_ -= run.graph.steps().size();
  edges_ -= run.graph.edges().size();
  evaluations_ += run.graph.evaluations();
  if (how == RunState::kExpired) ++expired_;
  runs_[slot].reset();
  free_runs_.push_back(slot);
  ++version_;
}

std::vector<std::string> GraphCore::Expire(TimePoint now) {
  std::vector<std::string> names;
  Latest(now);
  const auto expire = [&](RunSlot slot) {
    names.push_back(runs_[slot]->name);
    Drop(slot, RunState::kExpired);
  };
  while (!deadlines_.empty() && deadlines_.begin()->first <= latest_) {
    expire(deadlines_.begin()->second);
  }
  while (!quiet_.empty() && latest_ - runs_[quiet_.front()]->last_said > options_.run_idle_max) {
    expire(quiet_.front());
  }
  return names;
}

// --- steps and edges ---

Status GraphCore::AddStep(std::string_view run, const StepSpec& step, TimePoint now) {
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  if (Status ok = CheckStep(step); !ok) return ok;
  NamedRun& in = **live;
  if (in.steps.contains(step.id)) {
    return Bad(fmt::format("step '{}' is in run '{}' already", Printable(step.id), Printable(run)));
  }
  if (steps_ >= options_.steps_max) return Full("steps", options_.steps_max);
  const std::string& agent = step.agent.empty() ? step.id : step.agent;
  RunStep added;
  added.join = step.join;
  added.k = step.k;
  added.visits_max = step.max_visits.value_or(0);
  if (step.est_ms) added.est_ns = std::llround(*step.est_ms * 1e6);
  added.agent = keys_.AgentFor(in.spec.client, agent);
  added.mean = estimates_.MeanOf(in.spec.client, agent);
  const StepIndex at = in.graph.AddStep(added);
  in.step_names.push_back(&in.steps.emplace(step.id, at).first->first);
  const auto place = std::ranges::lower_bound(in.agents, added.agent);
  if (place == in.agents.end() || *place != added.agent) in.agents.insert(place, added.agent);
  keys_.AddStep(added.agent, {SlotOf(in), at});
  ++steps_;
  Heard(&in, now);
  Changed(&in);
  return {};
}

Status GraphCore::AddEdge(std::string_view run, const EdgeSpec& edge, TimePoint now) {
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  NamedRun& in = **live;
  const Result<StepIndex> from = FindStep(in, edge.from);
  if (!from) return from.error();
  const Result<StepIndex> to = FindStep(in, edge.to);
  if (!to) return to.error();
  const std::string what =
      fmt::format("edge '{}' to '{}'", Printable(edge.from), Printable(edge.to));
  if (edge.prob) {
    if (Status ok = CheckProbability(what + ": prob", *edge.prob, false); !ok) return ok;
  }
  if (edge.choice.size() > kAgentBytesMax) {
    return Bad(fmt::format("{}: choice has at most {} bytes", what, kAgentBytesMax));
  }
  if (in.graph.FindEdge(*from, *to, edge.kind)) {
    return Bad(
        fmt::format("{} ({}) is in run '{}' already", what, Name(edge.kind), Printable(run)));
  }
  if (edges_ >= options_.edges_max) return Full("edges", options_.edges_max);
  RunEdge added;
  added.from = *from;
  added.to = *to;
  added.kind = edge.kind;
  added.choice = ChoiceOf(&in, edge.choice);
  added.prob_given = edge.prob.has_value();
  added.prob = edge.prob.value_or(1);
  if (!edge.prob) {
    added.count = estimates_.CountOf(in.spec.workflow, edge.from, edge.choice, edge.to,
                                     edge.kind == EdgeKind::kBack);
  }
  in.graph.AddEdge(added);
  ++edges_;
  Heard(&in, now);
  Changed(&in);
  return {};
}

// --- keys ---

Status GraphCore::Bind(std::string_view run, std::string_view agent, std::string_view key,
                       KeyKind kind, TimePoint now) {
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  if (Status ok = CheckName("an agent's name", agent); !ok) return ok;
  if (Status ok = CheckName("a key", key, kKeyBytesMax); !ok) return ok;
  NamedRun& in = **live;
  const AgentIndex at = keys_.AgentFor(in.spec.client, agent);
  const std::optional<KeyTable::Bound> bound = keys_.Bind(at, key, kind, SlotOf(in));
  if (!bound) return Full("keys", options_.keys_max);
  if (bound->is_new) in.bindings.push_back(bound->binding);
  Heard(&in, now);
  ++version_;
  return {};
}

Status GraphCore::Link(std::string_view key, std::string_view parent) {
  if (Status ok = CheckName("a key", key, kKeyBytesMax); !ok) return ok;
  if (Status ok = CheckName("a key's parent", parent, kKeyBytesMax); !ok) return ok;
  switch (keys_.Link(key, parent)) {
    case KeyTable::LinkResult::kFull:
      return Full("keys", options_.keys_max);
    case KeyTable::LinkResult::kCircle:
      return Bad(fmt::format("key '{}' can't continue '{}', which continues it", Printable(key),
                             Printable(parent)));
    case KeyTable::LinkResult::kLinked:
      break;
  }
  ++version_;
  return {};
}

Status GraphCore::Advise(std::string_view key, Duration eta, double p, TimePoint now) {
  if (Status ok = CheckName("a key", key, kKeyBytesMax); !ok) return ok;
  if (Status ok = CheckProbability("advice: p", p, true); !ok) return ok;
  if (eta < Duration::zero() || eta.count() > kFarNs) {
    return Bad("advice: eta must be from 0 to three years");
  }
  if (!keys_.Advise(key, {Latest(now), eta, p})) return Full("keys", options_.keys_max);
  ++version_;
  return {};
}

void GraphCore::Forget(std::string_view key) {
  keys_.Forget(key);
  ++version_;
}

Status GraphCore::Own(std::string_view agent, std::string_view key) {
  if (Status ok = CheckName("an agent's name", agent); !ok) return ok;
  if (Status ok = CheckName("a key", key, kKeyBytesMax); !ok) return ok;
  if (!keys_.Own({}, agent, key)) return Full("keys", options_.keys_max);
  ++version_;
  return {};
}

void GraphCore::Disown(std::string_view agent, std::string_view key) {
  keys_.Disown({}, agent, key);
  ++version_;
}

// --- what happens to steps ---

Status GraphCore::Start(std::string_view run, std::string_view step, TimePoint now) {
  const Result<Place> place = FindPlace(run, step, now);
  if (!place) return place.error();
  ++starts_;
  if (!place->run->graph.Start(place->step, latest_)) ++mispredictions_;
  Changed(place->run);
  return {};
}

Result<std::optional<std::vector<StepIndex>>> GraphCore::FindTaken(
    const Place& place, const std::optional<std::vector<std::string>>& taken) const {
  if (!taken) return std::optional<std::vector<StepIndex>>();
  const NamedRun& run = *place.run;
  std::vector<StepIndex> found;
  for (const std::string& name : *taken) {
    const Result<StepIndex> to = FindStep(run, name);
    if (!to) return to.error();
    if (!run.graph.FindEdge(place.step, *to, EdgeKind::kForward) &&
        !run.graph.FindEdge(place.step, *to, EdgeKind::kBack)) {
      return Bad(fmt::format("taken: no edge leads from '{}' to '{}'",
                             Printable(*run.step_names[place.step]), Printable(name)));
    }
    found.push_back(*to);
  }
  return std::optional(std::move(found));
}

Status GraphCore::Finish(std::string_view run, std::string_view step,
                         const std::optional<std::vector<std::string>>& taken, TimePoint now) {
  const Result<Place> place = FindPlace(run, step, now);
  if (!place) return place.error();
  const auto edges = FindTaken(*place, taken);
  if (!edges) return edges.error();
  RunGraph& graph = place->run->graph;
  if (graph.state(place->step) == StepState::kDone) {
    return Bad(fmt::format("step '{}' is done already; Loop or Start begins its next visit",
                           Printable(step)));
  }
  const RunGraph::Finished finished = graph.Finish(place->step, *edges, latest_);
  if (!finished.expected) ++mispredictions_;
  if (finished.mean_moved) MeanMoved(graph.steps()[place->step].agent);
  StepOver(place->run, place->step);
  return {};
}

Status GraphCore::Skip(std::string_view run, std::string_view step, TimePoint now) {
  const Result<Place> place = FindPlace(run, step, now);
  if (!place) return place.error();
  if (place->run->graph.state(place->step) == StepState::kDone) {
    return Bad(fmt::format("step '{}' is done and can't be skipped", Printable(step)));
  }
  place->run->graph.Skip(place->step);
  StepOver(place->run, place->step);
  return {};
}

Status GraphCore::Fail(std::string_view run, std::string_view step, OnFail on_fail, TimePoint now) {
  const Result<Place> place = FindPlace(run, step, now);
  if (!place) return place.error();
  if (place->run->graph.state(place->step) == StepState::kDone) {
    return Bad(fmt::format("step '{}' is done and can't fail", Printable(step)));
  }
  place->run->graph.Fail(place->step, on_fail);
  StepOver(place->run, place->step);
  return {};
}

// All steps of the agent now have another expected duration.
void GraphCore::MeanMoved(AgentIndex agent) {
  for (const StepRef& ref : keys_.agent(agent).steps) {
    runs_[ref.run]->graph.EstimateMoved(ref.step);
    Changed(runs_[ref.run].get());
  }
}

// A kVolatile key is not needed after its step has ended, unless another step of the agent runs.
void GraphCore::StepOver(NamedRun* run, StepIndex step) {
  Changed(run);
  const AgentRecord& agent = keys_.agent(run->graph.steps()[step].agent);
  if (agent.volatile_keys == 0) return;
  const bool runs = std::ranges::any_of(agent.steps, [this](const StepRef& ref) {
    return runs_[ref.run]->graph.steps()[ref.step].state == StepState::kRunning;
  });
  if (!runs) keys_.SpendVolatile(run->graph.steps()[step].agent);
}

Status GraphCore::Loop(std::string_view run, std::string_view from, std::string_view to,
                       TimePoint now) {
  const Result<Place> place = FindPlace(run, from, now);
  if (!place) return place.error();
  RunGraph& graph = place->run->graph;
  const Result<StepIndex> head = FindStep(*place->run, to);
  if (!head) return head.error();
  const std::optional<EdgeIndex> back = graph.FindEdge(place->step, *head, EdgeKind::kBack);
  if (!back) {
    return Bad(fmt::format("no back edge leads from '{}' to '{}' in run '{}'", Printable(from),
                           Printable(to), Printable(run)));
  }
  const std::vector<StepIndex> body = graph.BodyOf(*back);
  if (body.empty()) {
    return Bad(fmt::format("the back edge from '{}' closes no loop: '{}' does not lead to it",
                           Printable(from), Printable(to)));
  }
  if (!graph.Loop(*back, body)) ++mispredictions_;
  Changed(place->run);
  return {};
}

}  // namespace spillway
