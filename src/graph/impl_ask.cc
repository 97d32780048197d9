// SPDX-License-Identifier: Apache-2.0
// StepGraph's queries.
#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <unordered_set>

#include <fmt/format.h>

#include "base/printable.h"
#include "graph/step_graph_impl.h"
#include "graph/validate.h"

namespace spillway {
namespace {

double Milliseconds(std::int64_t ns) {
  return ns == kNeverNs ? std::numeric_limits<double>::infinity() : static_cast<double>(ns) / 1e6;
}

std::optional<std::uint32_t> Steps(std::int32_t steps) {
  if (steps == kNeverSteps) return std::nullopt;
  return static_cast<std::uint32_t>(std::max(steps, 0));
}

// Eviction order of keys: keys that no live run needs first, then by most steps, least probability,
// latest start. A parent is always needed at least as soon as its children, so depth only breaks
// ties.
struct Leaving {
  // Negative number of steps; the lowest value for keys that no live run needs.
  std::int64_t far = 0;
  double p = 0;
  std::int64_t late = 0;
  std::int64_t deep = 0;
  KeyIndex key = 0;
};

}  // namespace

// --- settling ---

void GraphCore::SettleRun(NamedRun* run, TimePoint now, Far far) {
  changed_.clear();
  run->graph.Settle(Latest(now), &changed_, far);
  for (const StepIndex step : changed_) keys_.Dirty(run->graph.steps()[step].agent);
  if (run->rough || !run->graph.rough()) return;
  run->rough = true;
  rough_runs_.push_back(SlotOf(*run));
}

void GraphCore::Settle(TimePoint now, Far far) {
  Expire(now);
  const bool refresh =
      latest_ - refreshed_ >= options_.eta_tick || estimates_seen_ != estimates_.version();
  if (refresh) {
    for (const RunSlot slot : quiet_) {
      NamedRun& run = *runs_[slot];
      if (run.graph.dirty() || !run.graph.running().empty()) SettleRun(&run, now, far);
      run.dirty = false;
    }
    refreshed_ = latest_;
    estimates_seen_ = estimates_.version();
    keys_.DirtyAdvice();
  }
  for (const RunSlot slot : dirty_runs_) {
    if (!runs_[slot]->dirty) continue;
    runs_[slot]->dirty = false;
    SettleRun(runs_[slot].get(), now, far);
  }
  dirty_runs_.clear();
  if (far == Far::kExact) {
    for (const RunSlot slot : rough_runs_) {
      runs_[slot]->rough = false;
      SettleRun(runs_[slot].get(), now, far);
    }
    rough_runs_.clear();
  }
  keys_.Settle(*this, latest_, &version_);
}

Want GraphCore::Read(StepRef ref) const {
  const NamedRun& run = *runs_[ref.run];
  const Value& value = run.graph.value(ref.step);
  const RunStep& step = run.graph.steps()[ref.step];
  Want want;
  if (!value.comes()) return want;
  want.steps = want.rank = value.steps;
  want.start = value.start;
  want.p = value.p;
  want.conf = value.conf;
  want.running = step.state == StepState::kRunning;
  if (want.running) want.running_since = step.started_at;
  want.weight = run.spec.weight;
  return want;
}

// --- steps ---

StepFacts GraphCore::FactsOf(const NamedRun& run, StepIndex at) const {
  const RunStep& step = run.graph.steps()[at];
  const Value& value = run.graph.value(at);
  return {.id = *run.step_names[at],
          .agent = keys_.agent(step.agent).name,
          .state = run.graph.state(at),
          .visits = step.visits,
          .steps = spillway::Steps(value.steps),
          .eta_ms = Milliseconds(value.start),
          .p = value.p,
          .conf = value.conf};
}

Result<StepFacts> GraphCore::Step(std::string_view run, std::string_view step, TimePoint now) {
  Expire(now);
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  const Result<StepIndex> at = FindStep(**live, step);
  if (!at) return at.error();
  SettleRun(*live, now, Far::kExact);
  return FactsOf(**live, *at);
}

Result<std::string> GraphCore::AgentOf(std::string_view run, std::string_view step) {
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  const Result<StepIndex> at = FindStep(**live, step);
  if (!at) return at.error();
  return keys_.agent((*live)->graph.steps()[*at].agent).name;
}

Result<std::vector<StepFacts>> GraphCore::Steps(std::string_view run, TimePoint now) {
  Expire(now);
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  SettleRun(*live, now, Far::kExact);
  std::vector<StepFacts> all;
  for (StepIndex at = 0; at < (*live)->step_names.size(); ++at) {
    all.push_back(FactsOf(**live, at));
  }
  return all;
}

RunView GraphCore::ViewOf(const NamedRun& run, ViewQuery* left) const {
  RunView view{.run = run.name, .client = run.spec.client, .workflow = run.spec.workflow};
  const std::span<const RunStep> steps = run.graph.steps();
  const std::size_t told = std::min(steps.size(), left->steps);
  left->steps -= told;
  view.steps_more = steps.size() - told;
  std::vector<AgentIndex> agents;  // In the order of their steps.
  std::unordered_set<AgentIndex> seen;
  for (StepIndex at = 0; at < told; ++at) {
    view.steps.push_back(FactsOf(run, at));
    view.joins.push_back(steps[at].join);
    if (seen.insert(steps[at].agent).second) agents.push_back(steps[at].agent);
  }
  for (const RunEdge& edge : run.graph.edges()) {
    if (edge.from >= told || edge.to >= told) continue;
    view.edges.push_back({edge.from, edge.to, edge.kind, edge.prob, edge.not_taken});
  }
  for (const AgentIndex at : agents) {
    RunView::Agent agent{.name = keys_.agent(at).name};
    agent.keys = keys_.KeysOf(at, left->keys, &agent.keys_more);
    left->keys -= agent.keys.size();
    view.agents.push_back(std::move(agent));
  }
  return view;
}

std::vector<RunView> GraphCore::View(ViewQuery left, TimePoint now) {
  Settle(now);
  std::vector<RunView> views;
  for (auto slot = quiet_.rbegin(); slot != quiet_.rend() && views.size() < left.runs; ++slot) {
    SettleRun(runs_[*slot].get(), now, Far::kExact);
    views.push_back(ViewOf(*runs_[*slot], &left));
  }
  keys_.Settle(*this, latest_, &version_);
  return views;
}

Result<std::vector<Finding>> GraphCore::Validate(std::string_view run) {
  const Result<NamedRun*> live = LiveRun(run);
  if (!live) return live.error();
  SettleRun(*live, latest_, Far::kExact);
  return ValidateRun((*live)->graph, (*live)->step_names);
}

std::optional<RunState> GraphCore::run_state(std::string_view run) const {
  if (names_.contains(std::string(run))) return RunState::kLive;
  const auto ended = std::ranges::find(ended_, run, &std::pair<std::string, RunState>::first);
  if (ended == ended_.end()) return std::nullopt;
  return ended->second;
}

// --- keys ---

KeyFacts GraphCore::FactsOf(const KeyRecord& key) const {
  return {.known = key.known,
          .steps = spillway::Steps(key.want.steps),
          .eta_ms = Milliseconds(key.want.start),
          .p = key.want.p,
          .conf = key.want.conf,
          .retired = key.retired,
          .running = key.want.running,
          .running_since = key.want.running_since,
          .weight = key.want.wanted() ? key.want.weight : 1,
          .version = key.changed_at};
}

KeyFacts GraphCore::Facts(std::string_view name, TimePoint now, Far far) {
  Settle(now, far);
  const KeyRecord* key = keys_.Find(name);
  return FactsOf(key == nullptr ? KeyRecord() : *key);
}

Changes GraphCore::ChangedSince(std::uint64_t version, TimePoint now) {
  Settle(now);
  Changes changes;
  for (const KeyIndex at : keys_.ChangedSince(version)) {
    changes.keys.push_back(keys_.key(at).name);
  }
  changes.version = version_;
  return changes;
}

Pulse GraphCore::VisitChanges(std::uint64_t version, TimePoint now, const KeyVisitor& visit) {
  Settle(now, Far::kRoughly);
  for (const KeyIndex at : keys_.ChangedSince(version)) {
    visit(keys_.key(at).name, FactsOf(keys_.key(at)));
  }
  return {version_, attached(), starts_, mispredictions_};
}

std::vector<std::string> GraphCore::eviction_order(std::size_t most, TimePoint now) {
  Settle(now);
  std::vector<Leaving> all;
  all.reserve(keys_.size());
  for (KeyIndex at = 0; at < keys_.places(); ++at) {
    const KeyRecord& key = keys_.key(at);
    if (!key.known) continue;
    all.push_back({-std::int64_t{key.want.rank} - (key.want.wanted() ? 0 : 1), key.want.p,
                   -key.want.start, -std::int64_t{keys_.Depth(at)}, at});
  }
  const auto before = [this](const Leaving& a, const Leaving& b) {
    if (a.far != b.far) return a.far < b.far;
    if (a.p != b.p) return a.p < b.p;
    if (a.late != b.late) return a.late < b.late;
    if (a.deep != b.deep) return a.deep < b.deep;
    return keys_.key(a.key).name < keys_.key(b.key).name;
  };
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::ranges::nth_element(all, end, before);
  std::sort(all.begin(), end, before);
  std::vector<std::string> names;
  for (auto each = all.begin(); each != end; ++each) names.push_back(keys_.key(each->key).name);
  return names;
}

std::vector<PrefetchCandidate> GraphCore::prefetch_candidates(const PrefetchQuery& query,
                                                              TimePoint now) {
  Settle(now);
  std::vector<KeyIndex> found;
  for (KeyIndex at = 0; at < keys_.places(); ++at) {
    const Want& want = keys_.key(at).want;
    if (!keys_.key(at).known || !want.wanted() || want.p < query.p_min) continue;
    const bool next = want.steps >= 1 && std::cmp_less_equal(want.steps, query.lookahead);
    if (!next && want.start >= query.within.count()) continue;
    keys_.Depth(at);
    found.push_back(at);
  }
  const auto soonest = [this](KeyIndex at) {
    const KeyRecord& key = keys_.key(at);
    return std::tuple(key.want.rank, key.want.start, -key.want.p, key.depth,
                      std::string_view(key.name));
  };
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(std::min(query.most, found.size()));
  std::ranges::partial_sort(found, end, {}, soonest);
  std::vector<PrefetchCandidate> candidates;
  for (auto at = found.begin(); at != end; ++at) {
    const KeyFacts facts = FactsOf(keys_.key(*at));
    candidates.push_back({keys_.key(*at).name, facts.steps, facts.eta_ms, facts.p, facts.conf});
  }
  return candidates;
}

// --- agents ---

std::vector<std::string> GraphCore::AgentOrder(std::string_view client, TimePoint now) {
  Settle(now);
  std::vector<AgentIndex> agents = keys_.AgentsOf(client);
  std::ranges::sort(agents, {}, [this](AgentIndex at) {
    const AgentRecord& agent = keys_.agent(at);
    return std::tuple(agent.want.wanted(), -std::int64_t{agent.want.rank}, agent.want.running,
                      agent.want.p, -agent.want.start, std::string_view(agent.name));
  });
  std::vector<std::string> names;
  names.reserve(agents.size());
  for (const AgentIndex at : agents) names.push_back(keys_.agent(at).name);
  return names;
}

std::optional<std::uint32_t> GraphCore::AgentSteps(std::string_view client, std::string_view agent,
                                                   TimePoint now) {
  Settle(now);
  const std::optional<AgentIndex> at = keys_.FindAgent(client, agent);
  if (!at) return std::nullopt;
  return spillway::Steps(keys_.agent(*at).want.steps);
}

// --- explaining ---

namespace {

std::string InWords(const KeyExplanation& why) {
  const KeyFacts& facts = why.facts;
  if (facts.retired) return "retired: no live run needs it any more";
  if (why.wants.empty()) {
    return fmt::format("advised: in {:.0f} ms, p {:.2f}, conf {:.2f}", facts.eta_ms, facts.p,
                       facts.conf);
  }
  const KeyWant& first = why.wants.front();
  return fmt::format(
      "{} step(s) of live runs use it; soonest: step '{}' of agent '{}' in run '{}' ({}), in {} "
      "step(s), {:.0f} ms, p {:.2f}, conf {:.2f}",
      why.wants.size() + why.wants_more, Printable(first.step.id), Printable(first.step.agent),
      Printable(first.run), Name(first.step.state), first.step.steps.value_or(0), facts.eta_ms,
      facts.p, facts.conf);
}

}  // namespace

std::optional<KeyExplanation> GraphCore::Explain(std::string_view name, TimePoint now) {
  constexpr std::size_t kWantsMax = 16;
  Settle(now);
  const KeyRecord* key = keys_.Find(name);
  if (key == nullptr || !key->known) return std::nullopt;
  KeyExplanation why;
  why.facts = FactsOf(*key);
  std::vector<std::pair<Want, StepRef>> wants;
  for (const auto& [agent, count] : key->wanters) {
    if (keys_.agent(agent).advice) why.advised = true;
    for (const StepRef& step : keys_.agent(agent).steps) {
      const Want want = Read(step);
      if (want.wanted()) wants.emplace_back(want, step);
    }
  }
  const std::size_t told = std::min(kWantsMax, wants.size());
  std::ranges::partial_sort(
      wants, wants.begin() + static_cast<std::ptrdiff_t>(told), {}, [](const auto& want) {
        return std::tuple(want.first.rank, want.first.start, want.second.run, want.second.step);
      });
  for (std::size_t i = 0; i < told; ++i) {
    const NamedRun& run = *runs_[wants[i].second.run];
    why.wants.push_back({run.name, run.spec.client, FactsOf(run, wants[i].second.step)});
  }
  why.wants_more = wants.size() - told;
  why.text = InWords(why);
  return why;
}

StepGraphStats GraphCore::stats() const {
  StepGraphStats stats = {.runs = names_.size(),
                          .steps = steps_,
                          .edges = edges_,
                          .agents = keys_.agents(),
                          .keys = keys_.size(),
                          .mispredictions = mispredictions_,
                          .runs_expired = expired_,
                          .evaluations = evaluations_,
                          .version = version_};
  for (const RunSlot slot : quiet_) stats.evaluations += runs_[slot]->graph.evaluations();
  return stats;
}

}  // namespace spillway
