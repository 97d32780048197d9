// Behind StepGraph: names, runs that begin, expire and end, and the way from
// their steps to the keys. One mutex, taken by StepGraph's methods; nothing in
// here locks.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/document.h"
#include "graph/estimates.h"
#include "graph/key_table.h"
#include "graph/run_graph.h"
#include "spillway/step_graph.h"

namespace spillway {

struct NamedRun {
  NamedRun(std::string_view run_name, const RunSpec& run_spec, Estimates* estimates, TimePoint now)
      : name(run_name), spec(run_spec), graph(estimates, now) {}

  const std::string name;
  const RunSpec spec;
  RunGraph graph;
  std::unordered_map<std::string, StepIndex> steps;
  std::vector<const std::string*> step_names;  // They live in the map above.
  std::unordered_map<std::string, std::uint32_t> choices;
  std::vector<AgentIndex> agents;  // Sorted, each once.
  std::vector<BindingIndex> bindings;
  TimePoint last_said;
  std::optional<TimePoint> deadline;
  std::list<RunSlot>::iterator quiet;  // Its place among the live.
  bool dirty = false;                  // It stands in the list of such;
  bool rough = false;                  // and in that of those settled roughly.
};

class StepGraph::Impl final : public StepReader {
 public:
  explicit Impl(const StepGraphOptions& options) : options_(options), keys_(options.keys_max) {}

  // --- what there is to do, what happens (impl_tell.cc) ---
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

  // --- what follows (impl_ask.cc) ---
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

  std::mutex mutex;
  std::atomic<std::uint64_t> times_told{0};  // How often it was told anything.
  struct Listener {
    const void* who;
    std::function<void()> heard;
  };
  std::shared_ptr<const std::vector<Listener>> listeners;  // Guarded by mutex.

 private:
  Status LoadSteps(const GraphDocument& document, TimePoint now);
  Status LoadBindings(const GraphDocument& document, TimePoint now);
  Result<NamedRun*> LiveRun(std::string_view name);
  Result<StepIndex> FindStep(const NamedRun& run, std::string_view name) const;
  // A live run that was just spoken of, and one of its steps; settled.
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

  // Brings everything to `now`, and keys to at most a tick before.
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
  std::unordered_map<std::string, RunSlot> names_;
  std::list<RunSlot> quiet_;  // Live runs, the longest not spoken of first.
  std::set<std::pair<TimePoint, RunSlot>> deadlines_;
  std::list<std::pair<std::string, RunState>> ended_;  // The latest first, 1,024 at most.
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

}  // namespace spillway
