// RunGraph is one run: its steps, its edges and what has happened to them. It
// knows steps by number; names, clients, agents and keys are others' business.
//
// What follows from the states is kept in two layers of values: the current
// visit of every step, and the next visit of those that stand in a loop with
// visits left. Each value is a function of its predecessors', so a change is
// carried on in the order of the edges and stops where nothing changed:
//
//   1. `order_` lists the steps so that every FORWARD edge points onward; steps
//      that wait for one another (a cycle) stand together as one group.
//   2. The next visits come after all current ones: a BACK edge leads from a
//      current visit to a next one, a FORWARD edge inside a loop from next to
//      next.
//   3. After Settle no step is dirty, and every value is what evaluating all of
//      them from nothing would give.
//
// Of a run with 10,000 steps to go every change moves all of them. Who only ranks
// by distance need not hear that of those far away: settled roughly, a change ends
// where all it does is to bring a step a little nearer. Then, within 64 steps all
// is exact; beyond that distances are never too short, too long by an eighth at
// most, and along one path still in order.
//
// No recursion; a settled change costs what it touches (and a bit per 64 steps).
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

// How right what is far away has to be.
enum class Far : std::uint8_t { kExact, kRoughly };

struct RunStep {
  Join join = Join::kAll;
  StepState state = StepState::kPending;  // Never kReady: that is derived.
  bool poisoned = false;                  // Failed, and those that need it never run.
  bool released = false;                  // A loop's head whose BACK edge was taken.
  bool looped = false;                    // Stands in the body of some loop.
  bool has_entries = false;               // It has edges from outside its loops.
  std::uint32_t k = 0;
  std::uint32_t visits = 0;
  std::uint32_t visits_max = 0;  // 0: no bound.
  std::uint32_t agent = 0;       // The caller's.
  Estimates::MeanIndex mean = 0;
  std::int64_t est_ns = -1;  // -1: not given.
  TimePoint started_at;
  EdgeIndex first_out = kNoIndex, last_out = kNoIndex;
  EdgeIndex first_in = kNoIndex, last_in = kNoIndex;
  std::uint32_t place = 0;       // In the order.
  std::uint32_t running_at = 0;  // Its place among the running.
};

struct RunEdge {
  StepIndex from = 0;
  StepIndex to = 0;
  EdgeIndex next_out = kNoIndex;
  EdgeIndex next_in = kNoIndex;
  EdgeKind kind = EdgeKind::kForward;
  bool inside = false;     // Both ends in one loop's body, of which `to` is not the head.
  bool not_taken = false;  // An exclusive edge of a finished step that went elsewhere.
  bool prob_given = false;
  std::uint32_t choice = kNoIndex;
  Estimates::CountIndex count = Estimates::kNone;
  double prob = 1;  // In force: given, learnt or an equal share.
};

class RunGraph {
 public:
  RunGraph(Estimates* estimates, TimePoint now) : estimates_(estimates), as_of_(now) {}

  // --- shape ---
  StepIndex AddStep(const RunStep& step);
  void AddEdge(const RunEdge& edge);
  std::optional<EdgeIndex> FindEdge(StepIndex from, StepIndex to, EdgeKind kind) const;
  // The loop a BACK edge closes: what its target reaches and what reaches its
  // source. Empty: it closes none.
  std::vector<StepIndex> BodyOf(EdgeIndex back);

  // --- what happens. All of these want a settled graph. ---
  // False: it was not ready (and has started all the same).
  bool Start(StepIndex at, TimePoint now);
  struct Finished {
    bool expected = false;    // It was running or ready.
    bool mean_moved = false;  // Its agent's mean is another: EstimateMoved, for all of them.
  };
  // `taken`: for the exclusive edges out of it, empty means all.
  Finished Finish(StepIndex at, const std::optional<std::vector<StepIndex>>& taken, TimePoint now);
  void Skip(StepIndex at);
  void Fail(StepIndex at, OnFail on_fail);
  // False: the head had no visits left (and is visited all the same).
  bool Loop(EdgeIndex back, std::span<const StepIndex> body);

  // --- what follows ---
  // Carries all changes on. Time moves the running; an earlier `now` is ignored.
  // Appends the steps whose answers changed, some maybe twice.
  void Settle(TimePoint now, std::vector<StepIndex>* changed, Far far = Far::kExact);
  // Some are only roughly right.
  bool rough() const { return !held_[kThis].empty() || !held_[kNext].empty(); }
  // Forgets all that was computed, so that Settle starts from nothing.
  void Unsettle();
  bool dirty() const;
  void EstimateMoved(StepIndex at);

  // Of a settled graph.
  StepState state(StepIndex at) const;
  const Value& value(StepIndex at) const;  // Of its next execution.
  // Steps that wait for one another; those of one cycle have the same number.
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
  enum Layer : std::uint8_t { kThis, kNext };
  // Where next visits may begin besides their edges: `step` has edges from
  // outside, which are done when the loop at `head` begins anew.
  struct Entry {
    StepIndex key = 0;
    StepIndex other = 0;
  };
  struct Group {
    std::uint32_t begin = 0;  // Places.
    std::uint32_t end = 0;
  };
  // What one edge brings to a join.
  struct Arrival {
    std::int32_t steps = 0;
    std::int64_t at = 0;
    double p = 0;
    double conf = 1;
  };

  // run_graph.cc
  void SetState(StepIndex at, StepState state);
  void AssumeDoneBefore(StepIndex at);
  void TakeEdges(StepIndex at, const std::optional<std::vector<StepIndex>>& taken);
  void CountTaken(StepIndex at, std::span<const StepIndex> taken);
  std::optional<EdgeIndex> TakenBackEdge(StepIndex head) const;
  void Reset(StepIndex at, StepIndex head);
  void ForgetChoices(StepIndex at);
  void Touch(StepIndex at);
  void ReadShares();

  // shape.cc
  void Reshape();
  void SortSteps();
  void FindLoops();
  void FindLoop(StepIndex head, std::vector<Entry>* outside);
  std::vector<StepIndex> FindBody(std::span<const StepIndex> sources, StepIndex head);
  void MarkReached(std::span<const StepIndex> sources, StepIndex head);
  bool InBody(StepIndex at) const { return mark_[at] == mark_now_ + 1; }
  void SetEntries(std::vector<Entry> outside);

  // settle.cc
  void SettleLayer(Layer layer, std::vector<StepIndex>* changed);
  void Store(Layer layer, StepIndex at, const Value& value, std::vector<StepIndex>* changed);
  void MarkAfter(Layer layer, StepIndex at);
  void TakeUpHeld();
  void MarkAll();
  void RunMeanMoved();
  void Mark(Layer layer, StepIndex at) { dirty_[layer].Insert(steps_[at].place); }

  // evaluate.cc
  Value Evaluate(Layer layer, StepIndex at);
  Value EvaluateThis(StepIndex at);
  Value EvaluateNext(StepIndex at);
  Value NextByEdges(StepIndex at);
  Value NextByBack(StepIndex at);
  Value JoinArrivals(Join join, std::size_t need);
  void Arrive(const Value& from, double prob);
  Arrival LoopBegins(StepIndex at) const;
  bool Dead(const RunEdge& edge) const {
    return edge.not_taken || values_[kThis][edge.from].skipped;
  }
  bool HasNext(const RunStep& step) const;
  std::int64_t Expected(const RunStep& step) const;
  Value Startable(const RunStep& step) const;
  Value Running(const RunStep& step) const;
  // cycle.cc
  void SettleGroup(Layer layer, std::span<const StepIndex> group, std::vector<StepIndex>* changed);
  void SolveSkips(Layer layer, std::span<const StepIndex> group);
  template <typename Field>
  void SolveLeast(Layer layer, std::span<const StepIndex> group, Field field);
  void SolveChances(Layer layer, std::span<const StepIndex> group);
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
  std::vector<Group> groups_;            // Of steps that wait for one another.
  std::vector<std::uint32_t> group_of_;  // By place; kNoIndex: none.
  std::vector<Entry> entries_of_step_;   // (step, head), sorted.
  std::vector<Entry> entries_of_head_;   // (head, step), sorted.

  // Derived from the states. By step.
  std::vector<Value> values_[2];
  DirtySet dirty_[2];               // By place.
  DirtySet held_[2];                // Likewise: a little nearer than their values say.
  bool roughly_ = false;            // While it settles so.
  std::vector<StepIndex> touched_;  // Changed by hand since the last Settle.

  // Scratch.
  std::vector<Arrival> arrivals_;
  std::vector<std::uint32_t> mark_;  // By step; equal to mark_now_ (+1): seen.
  std::uint32_t mark_now_ = 0;
  std::uint64_t evaluations_ = 0;
};

}  // namespace spillway
