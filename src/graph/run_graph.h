// SPDX-License-Identifier: Apache-2.0
// RunGraph is one run: its steps, its edges and their progress. Steps are numbers here; names,
// clients, agents and keys are handled by GraphCore and KeyTable.
//
// Progress determines, for each step, how many steps and how much time remain until it runs. This
// is a Value, kept in two layers: for the current visit of each step, and for the next visit of
// steps that are in a loop and have visits left. A value is a function of the values of the step's
// predecessors. So a change is carried along the edges, in order, and stops where no value changes:
//
//   1. `order_` lists the steps so that every FORWARD edge points from an earlier to a later
//      place. Steps that depend on each other (a cycle) are next to each other, as a group.
//   2. Next visits come after all current visits: a BACK edge leads from a current visit to a next
//      one, a FORWARD edge inside a loop from a next visit to a next visit.
//   3. After Settle no step is dirty, and every value equals what evaluating all steps from
//      scratch would give.
//
// In a run with 10,000 steps to go, every finished step changes the distance of all others. A
// caller that only ranks by distance does not need that precision. With Far::kRoughly a change is
// not carried on where it only brings a distant step a little nearer. Then all distances up to 64
// steps are exact. Longer ones are never too short, too long by at most an eighth, and in the right
// order along each path.
//
// There is no recursion. A change costs time for the steps it reaches (and a bit per 64 steps).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/dirty_set.h"
#include "graph/estimates.h"
#include "graph/value.h"
#include "spillway/step_graph_types.h"

namespace spillway {

using StepIndex = std::uint32_t;
using EdgeIndex = std::uint32_t;
inline constexpr std::uint32_t kNoIndex = 0xffffffffU;

// The required precision for distant steps.
enum class Far : std::uint8_t { kExact, kRoughly };

// One step, with its progress in the current visit.
struct RunStep {
  Join join = Join::kAll;
  StepState state = StepState::kPending;  // Never kReady: that is derived.
  bool poisoned = false;     // Failed with OnFail::kPoison: steps that depend on it never run.
  bool released = false;     // The first step of a loop whose BACK edge was taken.
  bool looped = false;       // In the body of a loop.
  bool has_entries = false;  // Has edges from outside its loops.
  std::uint32_t k = 0;
  std::uint32_t visits = 0;
  std::uint32_t visits_max = 0;  // 0: no limit.
  std::uint32_t agent = 0;       // The caller's number for it.
  Estimates::MeanIndex mean = 0;
  std::int64_t est_ns = -1;  // -1: not given, so it is learned.
  TimePoint started_at;
  EdgeIndex first_out = kNoIndex, last_out = kNoIndex;
  EdgeIndex first_in = kNoIndex, last_in = kNoIndex;
  std::uint32_t place = 0;       // Index in order_.
  std::uint32_t running_at = 0;  // Index in running_.
};

// One edge. The edges out of a step, and those into it, are linked lists.
struct RunEdge {
  StepIndex from = 0;
  StepIndex to = 0;
  EdgeIndex next_out = kNoIndex;
  EdgeIndex next_in = kNoIndex;
  EdgeKind kind = EdgeKind::kForward;
  bool inside = false;     // Both ends are in the body of one loop, and `to` is not its first step.
  bool not_taken = false;  // An exclusive edge of a finished step that took another edge.
  bool prob_given = false;
  std::uint32_t choice = kNoIndex;
  Estimates::CountIndex count = Estimates::kNone;
  double prob = 1;  // The probability in use: given, learned, or an equal share.
};

// Called by GraphCore alone.
class RunGraph {
 public:
  RunGraph(Estimates* estimates, TimePoint now) : estimates_(estimates), as_of_(now) {}

  // --- building ---
  StepIndex AddStep(const RunStep& step);
  void AddEdge(const RunEdge& edge);
  std::optional<EdgeIndex> FindEdge(StepIndex from, StepIndex to, EdgeKind kind) const;
  // The steps of the loop a BACK edge closes: those reached from its target that also reach its
  // source. Empty: it closes no loop.
  std::vector<StepIndex> BodyOf(EdgeIndex back);

  // --- progress. Requires a settled graph. ---
  // False: the step was not ready; it has started anyway.
  bool Start(StepIndex at, TimePoint now);
  struct Finished {
    bool expected = false;  // The step was running or ready.
    // The agent's mean duration changed: call EstimateMoved for all its steps.
    bool mean_moved = false;
  };
  // `taken`: which of the exclusive edges were taken. Empty: all.
  Finished Finish(StepIndex at, const std::optional<std::vector<StepIndex>>& taken, TimePoint now);
  // The step is over without having run.
  void Skip(StepIndex at);
  void Fail(StepIndex at, OnFail on_fail);
  // False: the loop's first step had no visits left; the loop is taken anyway.
  bool Loop(EdgeIndex back, std::span<const StepIndex> body);

  // --- results ---
  // Carries all changes on and moves time to `now` (an earlier `now` is ignored). Appends the steps
  // whose results changed; a step may be listed twice.
  void Settle(TimePoint now, std::vector<StepIndex>* changed, Far far = Far::kExact);
  // Some values are approximate.
  bool rough() const { return !held_[kThis].empty() || !held_[kNext].empty(); }
  // Discards all computed values, so that Settle evaluates everything again.
  void Unsettle();
  // Whether Settle has work to do, other than moving time.
  bool dirty() const;
  // The expected duration of the step changed (Finished::mean_moved).
  void EstimateMoved(StepIndex at);

  // These require a settled graph.
  StepState state(StepIndex at) const;
  const Value& value(StepIndex at) const;  // Of the step's next execution.
  // The number of the cycle the step is in. Steps of one cycle depend on each other.
  std::optional<std::uint32_t> cycle(StepIndex at) const {
    const std::uint32_t group = group_of_[steps_[at].place];
    return group == kNoIndex ? std::nullopt : std::optional(group);
  }
  std::span<const StepIndex> order() const { return order_; }

  std::span<const RunStep> steps() const { return steps_; }
  std::span<const RunEdge> edges() const { return edges_; }
  std::span<const StepIndex> running() const { return running_; }
  TimePoint as_of() const { return as_of_; }
  std::uint64_t evaluations() const { return evaluations_; }

 private:
  // The current visit and the next one.
  enum Layer : std::uint8_t { kThis, kNext };
  // A further start of next visits: `step` has edges from outside the loop, and these count as done
  // when the loop at `head` begins again. Two lists hold this pair, sorted by either member.
  struct Entry {
    StepIndex key = 0;
    StepIndex other = 0;
  };
  struct Group {
    std::uint32_t begin = 0;  // Places in order_.
    std::uint32_t end = 0;
  };
  // What one edge contributes to a join.
  struct Arrival {
    std::int32_t steps = 0;
    std::int64_t at = 0;
    double p = 0;
    double conf = 1;
  };

  // run_graph.cc
  void SetState(StepIndex at, StepState state);
  // Marks all pending and running predecessors as done.
  void AssumeDoneBefore(StepIndex at);
  // Marks which exclusive edges of a finished step were not taken.
  void TakeEdges(StepIndex at, const std::optional<std::vector<StepIndex>>& taken);
  // Counts the taken edges for the learned shares.
  void CountTaken(StepIndex at, std::span<const StepIndex> taken);
  // The BACK edge that must have been taken if `head` starts again after it was over.
  std::optional<EdgeIndex> TakenBackEdge(StepIndex head) const;
  // Prepares a step of a loop's body for the next visit.
  void Reset(StepIndex at, StepIndex head);
  void ForgetChoices(StepIndex at);
  // Marks a step for evaluation, and reports it as changed by the next Settle.
  void Touch(StepIndex at);
  // Sets the probabilities of exclusive edges from given and learned shares.
  void ReadShares();

  // shape.cc
  // Computes order_, groups_, loops and entries again after edges were added.
  void Reshape();
  void SortSteps();
  void FindLoops();
  // Marks the edges inside the loops of `head`, and adds edges from outside to `outside`.
  void FindLoop(StepIndex head, std::vector<Entry>* outside);
  std::vector<StepIndex> FindBody(std::span<const StepIndex> sources, StepIndex head);
  // Marks the steps reached from `head`.
  void MarkReached(std::span<const StepIndex> sources, StepIndex head);
  bool InBody(StepIndex at) const { return mark_[at] == mark_now_ + 1; }
  void SetEntries(std::vector<Entry> outside);

  // settle.cc
  void SettleLayer(Layer layer, std::vector<StepIndex>* changed);
  // Stores a new value and marks the successors, unless nothing changed or the change may be held
  // back.
  void Store(Layer layer, StepIndex at, const Value& value, std::vector<StepIndex>* changed);
  // Marks the steps whose values depend on this one.
  void MarkAfter(Layer layer, StepIndex at);
  // Marks all steps whose changes were held back.
  void TakeUpHeld();
  void MarkAll();
  void RunMeanMoved();
  void Mark(Layer layer, StepIndex at) { dirty_[layer].Insert(steps_[at].place); }

  // evaluate.cc
  Value Evaluate(Layer layer, StepIndex at);
  // The value of the current visit: from the state if it runs or is over, else from a join.
  Value EvaluateThis(StepIndex at);
  // The value of the next visit: the sooner of NextByBack and NextByEdges.
  Value EvaluateNext(StepIndex at);
  // As a step inside a loop, from the next visits of its predecessors.
  Value NextByEdges(StepIndex at);
  // As the first step of a loop whose BACK edge is taken.
  Value NextByBack(StepIndex at);
  // Combines arrivals_ into a value: the `need`-th arrival decides.
  Value JoinArrivals(Join join, std::size_t need);
  void Arrive(const Value& from, double prob);
  // The earliest time at which a loop around `at` begins again.
  Arrival LoopBegins(StepIndex at) const;
  bool Dead(const RunEdge& edge) const {
    return edge.not_taken || values_[kThis][edge.from].skipped;
  }
  bool HasNext(const RunStep& step) const;
  // The expected duration: given, the agent's mean, the run's mean, or 10 s.
  std::int64_t Expected(const RunStep& step) const;
  Value Startable(const RunStep& step) const;
  Value Running(const RunStep& step) const;
  // cycle.cc
  // Evaluates a cycle as a whole.
  void SettleGroup(Layer layer, std::span<const StepIndex> group, std::vector<StepIndex>* changed);
  // Finds the steps of a cycle that are skipped, until no more follow.
  void SolveSkips(Layer layer, std::span<const StepIndex> group);
  // Solves one field (steps, or times) of a cycle, least values first.
  template <typename Field>
  void SolveLeast(Layer layer, std::span<const StepIndex> group, Field field);
  // Solves the probabilities of a cycle, in the order of steps.
  void SolveChances(Layer layer, std::span<const StepIndex> group);
  // Calls `each` for the steps whose values depend on this one, within a layer.
  template <typename Each>
  void EachAfter(Layer layer, StepIndex at, Each each) const;

  Estimates* const estimates_;
  std::vector<RunStep> steps_;
  std::vector<RunEdge> edges_;
  std::vector<StepIndex> running_;
  RunningMean mean_;
  std::size_t back_edges_ = 0;
  bool shares_stale_ = false;
  std::uint64_t estimates_seen_ = 0;
  TimePoint as_of_;

  // Derived from the edges.
  bool shape_stale_ = false;
  std::vector<StepIndex> order_;
  std::vector<Group> groups_;            // Of steps that depend on each other.
  std::vector<std::uint32_t> group_of_;  // By place. kNoIndex: in no group.
  std::vector<Entry> entries_of_step_;   // (step, head), sorted.
  std::vector<Entry> entries_of_head_;   // (head, step), sorted.

  // Derived from the states. By step.
  std::vector<Value> values_[2];
  DirtySet dirty_[2];  // By place.
  // By place: the value is approximate, since the step has come a little nearer.
  DirtySet held_[2];
  bool roughly_ = false;            // True while Settle runs with Far::kRoughly.
  std::vector<StepIndex> touched_;  // Changed by a call about progress since the last Settle.

  // Scratch.
  std::vector<Arrival> arrivals_;
  // By step. mark_now_ or mark_now_ + 1: visited by the current search.
  std::vector<std::uint32_t> mark_;
  std::uint32_t mark_now_ = 0;
  std::uint64_t evaluations_ = 0;
};

}  // namespace spillway
