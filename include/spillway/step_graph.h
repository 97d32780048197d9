// The step graph: agents' steps and their order, so that a cache knows who will
// need which context, how soon. It answers questions and moves nothing: what
// leaves and what is fetched is decided by those who ask. Everything it is told
// is a hint; a wrong one is accepted, counted, and costs no more than that.
//
//   spillway::StepGraph graph;
//   graph.BeginRun("run-1", {}, now);
//   graph.AddStep("run-1", {"plan", "planner"}, now);
//   graph.AddStep("run-1", {"code", "coder"}, now);
//   graph.AddEdge("run-1", {"plan", "code"}, now);
//   graph.Bind("run-1", "coder", "context:coder", spillway::KeyKind::kFixed, now);
//   graph.Start("run-1", "plan", now);
//   graph.Facts("context:coder", now).steps;  // 1: the very next step
//
// Safe from any thread. Time is an argument and should not fall; an earlier one
// counts as the latest seen. docs/reference/step-graph.md says what the words
// mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/export.h"
#include "spillway/result.h"
#include "spillway/step_graph_types.h"
#include "spillway/units.h"

namespace spillway {

class SPILLWAY_API StepGraph {
 public:
  explicit StepGraph(const StepGraphOptions& options = {});
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // --- what there is to do ---
  // An error changes nothing.

  Status BeginRun(std::string_view run, const RunSpec& spec, TimePoint now);
  Status AddStep(std::string_view run, const StepSpec& step, TimePoint now);
  Status AddEdge(std::string_view run, const EdgeSpec& edge, TimePoint now);
  // `key` belongs to the agent in all runs of this run's client, until every run
  // that said so has ended.
  Status Bind(std::string_view run, std::string_view agent, std::string_view key, KeyKind kind,
              TimePoint now);
  // `key` continues `parent`: whoever wants the one wants the other.
  Status Link(std::string_view key, std::string_view parent);
  // `key` belongs to that agent of the client without a name, in every run there
  // is and will be, until Disown. A cache says so of what is set with an agent.
  Status Own(std::string_view agent, std::string_view key);
  void Disown(std::string_view agent, std::string_view key);
  // A whole run from a JSON document (docs/reference/step-graph.md), all of it
  // or nothing. Returns the run's name.
  Result<std::string> Load(std::string_view json, TimePoint now);

  // --- what happens ---

  // A step that is not ready is started all the same: what should have come
  // before it counts as done, and a misprediction is counted.
  Status Start(std::string_view run, std::string_view step, TimePoint now);
  // Of the step's exclusive edges those to `taken` are taken, the others die;
  // without a list all are taken.
  Status Finish(std::string_view run, std::string_view step,
                const std::optional<std::vector<std::string>>& taken, TimePoint now);
  Status Finish(std::string_view run, std::string_view step, TimePoint now) {
    return Finish(run, step, std::nullopt, now);
  }
  Status Skip(std::string_view run, std::string_view step, TimePoint now);
  Status Fail(std::string_view run, std::string_view step, OnFail on_fail, TimePoint now);
  // The BACK edge is taken: its loop's steps are to be done again.
  Status Loop(std::string_view run, std::string_view from, std::string_view to, TimePoint now);
  Status EndRun(std::string_view run, RunState how, TimePoint now);
  // Ends runs past their deadline or idle for too long; returns their names.
  // Every question does this first.
  std::vector<std::string> Expire(TimePoint now);

  // Without any graph: `key` will be used in `eta` with probability `p`; p = 0:
  // it will not. Replaces earlier advice, decays once its time is over.
  Status Advise(std::string_view key, Duration eta, double p, TimePoint now);
  // The key has left for good: nothing more is remembered of it, unless a live
  // run still wants it.
  void Forget(std::string_view key);

  // --- what follows, for steps ---

  // Least number of step completions before it can start; empty: never.
  Result<std::optional<std::uint32_t>> steps_to_execution(std::string_view run,
                                                          std::string_view step,
                                                          TimePoint now) const;
  Result<StepFacts> Step(std::string_view run, std::string_view step, TimePoint now) const;
  // The agent of a step of a live run.
  Result<std::string> AgentOf(std::string_view run, std::string_view step) const;
  // All steps of a live run, in the order in which they were added.
  Result<std::vector<StepFacts>> Steps(std::string_view run, TimePoint now) const;
  // Live runs as a whole, those spoken of last first, as far as `query` goes.
  std::vector<RunView> View(const ViewQuery& query, TimePoint now) const;
  // What looks like a mistake in a live run; empty: nothing.
  Result<std::vector<Finding>> Validate(std::string_view run) const;
  // Live, or how it ended; the last 1,024 that ended are remembered.
  std::optional<RunState> run_state(std::string_view run) const;

  // --- what follows, for keys ---

  KeyFacts Facts(std::string_view key, TimePoint now) const;
  // The same as VisitChanges would tell it.
  KeyFacts Glance(std::string_view key, TimePoint now) const;
  // Keys whose facts changed after `version` (0: all), each once, and the
  // version from which to ask next. Time alone changes a key when its eta is
  // off by more than an eighth of what was expected.
  Changes ChangedSince(std::uint64_t version, TimePoint now) const;
  // The same, with facts: `visit` sees each key that changed, and must not call
  // the graph. For who only ranks: beyond 64 steps it may not be told at once that
  // a key has come a little nearer, so steps and eta may be an eighth too long.
  Pulse VisitChanges(std::uint64_t version, TimePoint now, const KeyVisitor& visit) const;
  // Rises with whatever it is told; without a lock. Time changes facts, too.
  std::uint64_t told() const;
  // Rises whenever any key's facts may have changed.
  std::uint64_t version() const;

  // Up to `most` keys by how gladly the graph would let them go: those nobody
  // wants, then by steps (most first), probability, eta; children before
  // parents. Keys it was never told of are not listed.
  std::vector<std::string> eviction_order(std::size_t most, TimePoint now) const;
  // Keys worth having soon: soonest first, then likeliest, parents before
  // children. Where they are now is for the asker to know.
  std::vector<PrefetchCandidate> prefetch_candidates(const PrefetchQuery& query,
                                                     TimePoint now) const;
  // Why a key's facts are what they are. Empty: the graph never heard of it.
  std::optional<KeyExplanation> Explain(std::string_view key, TimePoint now) const;

  // --- what follows, for agents ---
  // These names are the seed's.

  // Agents of a client's live runs: finished ones first, running ones last.
  std::vector<std::string> get_eviction_priority_order(std::string_view client,
                                                       TimePoint now) const;
  // Of the agent's next step in any live run of the client; empty: never.
  std::optional<std::uint32_t> compute_steps_to_execution(std::string_view client,
                                                          std::string_view agent,
                                                          TimePoint now) const;

  // `heard` is called after each time it was told anything, on the thread that
  // told it, without a lock held; a null one ends that. One for each `who`.
  void Listen(const void* who, std::function<void()> heard);

  // At least one run is live.
  bool attached() const;
  StepGraphStats stats() const;

 private:
  class Impl;
  class Telling;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
