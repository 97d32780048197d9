// SPDX-License-Identifier: Apache-2.0
// The implementation of StepGraph: GraphCore has the names, the life of runs, and the path from
// their steps to the keys, and knows no threads; StepGraph's methods hold the mutex around every
// call of it.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/name_hash.h"
#include "graph/document.h"
#include "graph/estimates.h"
#include "graph/key_table.h"
#include "graph/run_graph.h"
#include "spillway/step_graph.h"

namespace spillway {

// A live run: its graph, and the names of its steps, choices, agents and bindings.
struct NamedRun {
  NamedRun(std::string_view run_name, const RunSpec& run_spec, Estimates* estimates, TimePoint now)
      : name(run_name), spec(run_spec), graph(estimates, now) {}

  const std::string name;
  const RunSpec spec;
  RunGraph graph;
  std::unordered_map<std::string, StepIndex, NameHash> steps;
  std::vector<const std::string*> step_names;  // By StepIndex. They point into the keys of `steps`.
  std::unordered_map<std::string, std::uint32_t, NameHash> choices;
  std::vector<AgentIndex> agents;  // Sorted, without duplicates.
  std::vector<BindingIndex> bindings;
  TimePoint last_said;
  std::optional<TimePoint> deadline;
  std::list<RunSlot>::iterator quiet;  // Its position in quiet_.
  bool dirty = false;                  // In dirty_runs_.
  bool rough = false;                  // In rough_runs_: some of its values are approximate.
};

class GraphCore final : public StepReader {
 public:
  explicit GraphCore(const StepGraphOptions& options)
      : options_(options), keys_(options.keys_max) {}

  // --- input (impl_tell.cc) ---
  Status BeginRun(std::string_view run, const RunSpec& spec, TimePoint now);
  Status AddStep(std::string_view run, const StepSpec& step, TimePoint now);
  Status AddEdge(std::string_view run, const EdgeSpec& edge, TimePoint now);
  Status Bind(std::string_view run, std::string_view agent, std::string_view key, KeyKind kind,
              TimePoint now);
  Status Link(std::string_view key, std::string_view parent);
  Status Load(const GraphDocument& document, TimePoint now);
  Status Start(std::string_view run, std::string_view step, TimePoint now);
  Status Finish(std::string_view run, std::string_view step,
                const std::optional<std::vector<std::string>>& taken, TimePoint now);
  Status Skip(std::string_view run, std::string_view step, TimePoint now);
  Status Fail(std::string_view run, std::string_view step, OnFail on_fail, TimePoint now);
  Status Loop(std::string_view run, std::string_view from, std::string_view to, TimePoint now);
  Status EndRun(std::string_view run, RunState how, TimePoint now);
  std::vector<std::string> Expire(TimePoint now);
  Status Advise(std::string_view key, Duration eta, double p, TimePoint now);
  void Forget(std::string_view key);
  Status Own(std::string_view agent, std::string_view key);
  void Disown(std::string_view agent, std::string_view key);

  // --- queries (impl_ask.cc) ---
  Result<StepFacts> Step(std::string_view run, std::string_view step, TimePoint now);
  Result<std::vector<StepFacts>> Steps(std::string_view run, TimePoint now);
  std::vector<RunView> View(ViewQuery left, TimePoint now);
  Result<std::vector<Finding>> Validate(std::string_view run);
  std::optional<RunState> run_state(std::string_view run) const;
  KeyFacts Facts(std::string_view key, TimePoint now, Far far);
  Result<std::string> AgentOf(std::string_view run, std::string_view step);
  Changes ChangedSince(std::uint64_t version, TimePoint now);
  Pulse VisitChanges(std::uint64_t version, TimePoint now, const KeyVisitor& visit);
  std::vector<std::string> eviction_order(std::size_t most, TimePoint now);
  std::vector<PrefetchCandidate> prefetch_candidates(const PrefetchQuery& query, TimePoint now);
  std::optional<KeyExplanation> Explain(std::string_view key, TimePoint now);
  std::vector<std::string> AgentOrder(std::string_view client, TimePoint now);
  std::optional<std::uint32_t> AgentSteps(std::string_view client, std::string_view agent,
                                          TimePoint now);
  bool attached() const { return !names_.empty(); }
  StepGraphStats stats() const;
  std::uint64_t version() const { return version_; }

  Want Read(StepRef step) const override;

 private:
  Status LoadSteps(const GraphDocument& document, TimePoint now);
  Status LoadBindings(const GraphDocument& document, TimePoint now);
  Result<NamedRun*> LiveRun(std::string_view name);
  Result<StepIndex> FindStep(const NamedRun& run, std::string_view name) const;
  // A live run, after Settle, and one of its steps.
  struct Place {
    NamedRun* run = nullptr;
    StepIndex step = 0;
  };
  Result<Place> FindPlace(std::string_view run, std::string_view step, TimePoint now);
  Result<std::optional<std::vector<StepIndex>>> FindTaken(
      const Place& place, const std::optional<std::vector<std::string>>& taken) const;
  RunSlot SlotOf(const NamedRun& run) const { return *run.quiet; }
  std::uint32_t ChoiceOf(NamedRun* run, const std::string& name);

  void Heard(NamedRun* run, TimePoint now);
  void Changed(NamedRun* run);
  void StepOver(NamedRun* run, StepIndex step);
  void MeanMoved(AgentIndex agent);
  void Drop(RunSlot slot, RunState how);

  // Brings all runs up to `now`. Keys may be older by at most eta_tick.
  void Settle(TimePoint now, Far far = Far::kExact);
  void SettleRun(NamedRun* run, TimePoint now, Far far);
  TimePoint Latest(TimePoint now);
  StepFacts FactsOf(const NamedRun& run, StepIndex step) const;
  RunView ViewOf(const NamedRun& run, ViewQuery* left) const;
  KeyFacts FactsOf(const KeyRecord& key) const;

  const StepGraphOptions options_;
  Estimates estimates_;
  KeyTable keys_;
  std::vector<std::unique_ptr<NamedRun>> runs_;
  std::vector<RunSlot> free_runs_;
  std::unordered_map<std::string, RunSlot, NameHash> names_;
  std::list<RunSlot> quiet_;  // Live runs, the longest idle first.
  std::set<std::pair<TimePoint, RunSlot>> deadlines_;
  std::list<std::pair<std::string, RunState>> ended_;  // Newest first, at most 1,024.
  std::vector<RunSlot> dirty_runs_;
  std::vector<RunSlot> rough_runs_;
  TimePoint latest_;
  TimePoint refreshed_;
  std::uint64_t estimates_seen_ = 0;
  std::vector<StepIndex> changed_;  // Scratch.
  std::uint64_t version_ = 0;
  std::uint64_t starts_ = 0;
  std::uint64_t mispredictions_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t evaluations_ = 0;  // Of runs that have ended.
  std::size_t steps_ = 0;
  std::size_t edges_ = 0;
};

class StepGraph::Impl {
 public:
  explicit Impl(const StepGraphOptions& options) : core(options) {}

  struct Listener {
    const void* who;
    std::function<void()> heard;
  };

  Mutex mutex;
  GraphCore core SPILLWAY_GUARDED_BY(mutex);
  std::shared_ptr<const std::vector<Listener>> listeners SPILLWAY_GUARDED_BY(mutex);
  std::atomic<std::uint64_t> times_told{0};  // Number of inputs so far.
};

}  // namespace spillway
