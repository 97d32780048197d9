// SPDX-License-Identifier: Apache-2.0
// StepGraph: the steps of agents and the order in which they run. From it a cache learns which
// context will be used next, and how soon. The graph only answers questions: its callers decide
// what to evict and what to fetch. All input is treated as a hint: wrong input is accepted and
// counted as a misprediction; it can cost time, never correctness.
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
// Safe from any thread. Time is passed as an argument and should not decrease; an earlier time
// counts as the latest one seen. docs/reference/step-graph.md defines the terms.
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

// Runs of steps, and predictions for the keys that they use.
class SPILLWAY_API StepGraph {
 public:
  explicit StepGraph(const StepGraphOptions& options = {});
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // --- building the graph ---
  // A call that returns an error has changed nothing.

  // Begins a run without steps. `run` is its name, unique among live runs.
  Status BeginRun(std::string_view run, const RunSpec& spec, TimePoint now);
  // Adds a step to a live run.
  Status AddStep(std::string_view run, const StepSpec& step, TimePoint now);
  // Adds an edge between two steps of a live run.
  Status AddEdge(std::string_view run, const EdgeSpec& edge, TimePoint now);
  // `key` belongs to `agent` in all runs of this run's client, until every run that made this
  // binding has ended.
  Status Bind(std::string_view run, std::string_view agent, std::string_view key, KeyKind kind,
              TimePoint now);
  // `key` continues `parent`: a step that uses `key` uses `parent`, too.
  Status Link(std::string_view key, std::string_view parent);
  // `key` belongs to `agent` of the client with the empty name, in all present and future runs,
  // until Disown. A cache calls this for each entry that is set with an agent.
  Status Own(std::string_view agent, std::string_view key);
  void Disown(std::string_view agent, std::string_view key);
  // Adds a whole run from a JSON document (docs/reference/step-graph.md), all or nothing. Returns
  // the run's name.
  Result<std::string> Load(std::string_view json, TimePoint now);

  // --- progress of runs ---

  // A step that is not ready may be started: the steps it depends on then count as done, and a
  // misprediction is counted.
  Status Start(std::string_view run, std::string_view step, TimePoint now);
  // Of the step's exclusive edges, those to `taken` are followed and the others become dead.
  // Without `taken`, all edges are followed.
  Status Finish(std::string_view run, std::string_view step,
                const std::optional<std::vector<std::string>>& taken, TimePoint now);
  Status Finish(std::string_view run, std::string_view step, TimePoint now) {
    return Finish(run, step, std::nullopt, now);
  }
  // The step is over without having run.
  Status Skip(std::string_view run, std::string_view step, TimePoint now);
  // The step failed; `on_fail` says what that means for later steps.
  Status Fail(std::string_view run, std::string_view step, OnFail on_fail, TimePoint now);
  // Follows a BACK edge: the steps of its loop will run again.
  Status Loop(std::string_view run, std::string_view from, std::string_view to, TimePoint now);
  // Ends a run as finished, failed or cancelled. Its bindings end with it.
  Status EndRun(std::string_view run, RunState how, TimePoint now);
  // Ends runs that are past their deadline or idle too long, and returns their names. Every query
  // does this first.
  std::vector<std::string> Expire(TimePoint now);

  // Advice without a graph: `key` will be used in `eta` with probability `p`; p = 0: it will not be
  // used. Replaces earlier advice on the key and decays after `eta` has passed.
  Status Advise(std::string_view key, Duration eta, double p, TimePoint now);
  // The key's entry is gone for good: forgets the key, unless a live run still needs it.
  void Forget(std::string_view key);

  // --- queries about steps ---

  // The least number of steps that must complete before this one can start. Empty: it will never
  // run.
  Result<std::optional<std::uint32_t>> steps_to_execution(std::string_view run,
                                                          std::string_view step,
                                                          TimePoint now) const;
  // The state of a step of a live run, and when it will run.
  Result<StepFacts> Step(std::string_view run, std::string_view step, TimePoint now) const;
  // The agent of a step of a live run.
  Result<std::string> AgentOf(std::string_view run, std::string_view step) const;
  // All steps of a live run, in the order they were added.
  Result<std::vector<StepFacts>> Steps(std::string_view run, TimePoint now) const;
  // Live runs with their steps, edges and agents, up to the limits of `query`, most recently active
  // first.
  std::vector<RunView> View(const ViewQuery& query, TimePoint now) const;
  // Likely mistakes in a live run. Empty: none found.
  Result<std::vector<Finding>> Validate(std::string_view run) const;
  // Whether a run is live, or how it ended. Empty: unknown; only the last 1,024 ended runs are
  // remembered.
  std::optional<RunState> run_state(std::string_view run) const;

  // --- queries about keys ---

  // How soon a key is needed, exactly, at `now`.
  KeyFacts Facts(std::string_view key, TimePoint now) const;
  // The same, with the approximations of VisitChanges.
  KeyFacts Glance(std::string_view key, TimePoint now) const;
  // Keys whose facts changed after `version` (0: all keys), each once, and the version to pass next
  // time. The passing of time alone counts as a change when a key's eta differs from the last
  // prediction by more than an eighth.
  Changes ChangedSince(std::uint64_t version, TimePoint now) const;
  // The same, with facts: calls `visit` for each changed key; `visit` must not call the graph.
  // Meant for ranking, so it is less exact: beyond 64 steps, a key that moves slightly nearer may
  // not be reported at once, and steps and eta may be an eighth too large.
  Pulse VisitChanges(std::uint64_t version, TimePoint now, const KeyVisitor& visit) const;
  // Increases with each input to the graph. Takes no lock. Facts also change with time alone.
  std::uint64_t told() const;
  // Increases whenever the facts of any key may have changed.
  std::uint64_t version() const;

  // Up to `most` keys, evict-first in front: first keys that no live run needs, then by steps (most
  // first), probability and eta; children before parents. Keys unknown to the graph are not listed.
  std::vector<std::string> eviction_order(std::size_t most, TimePoint now) const;
  // Keys that will be needed soon: soonest first, then most probable; parents before children. The
  // graph does not know where their entries are: the caller skips those that need no fetch.
  std::vector<PrefetchCandidate> prefetch_candidates(const PrefetchQuery& query,
                                                     TimePoint now) const;
  // Explains a key's facts. Empty: the key is unknown to the graph.
  std::optional<KeyExplanation> Explain(std::string_view key, TimePoint now) const;

  // --- queries about agents ---
  // These names are those of the program that Spillway grew from.

  // Agents of a client's live runs: those that have finished first, those that are running last.
  std::vector<std::string> get_eviction_priority_order(std::string_view client,
                                                       TimePoint now) const;
  // Steps until the agent's next step in any live run of the client. Empty: it has none.
  std::optional<std::uint32_t> compute_steps_to_execution(std::string_view client,
                                                          std::string_view agent,
                                                          TimePoint now) const;

  // `heard` is called after each input to the graph, on the calling thread, with no lock held.
  // `who` identifies the listener; each has one function. A null function removes it.
  void Listen(const void* who, std::function<void()> heard);

  // Whether at least one run is live.
  bool attached() const;
  // Sizes and counters.
  StepGraphStats stats() const;

 private:
  class Impl;
  class Telling;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
