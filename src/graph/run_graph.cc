// SPDX-License-Identifier: Apache-2.0
#include "graph/run_graph.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace spillway {
namespace {

bool Spent(const RunStep& step) { return step.visits_max != 0 && step.visits >= step.visits_max; }

}  // namespace

// --- shape ---

StepIndex RunGraph::AddStep(const RunStep& step) {
  const auto at = static_cast<StepIndex>(steps_.size());
  steps_.push_back(step);
  steps_[at].place = at;  // It has no edges yet, so the last place is right.
  order_.push_back(at);
  group_of_.push_back(kNoIndex);
  mark_.push_back(0);
  for (const Layer layer : {kThis, kNext}) {
    values_[layer].emplace_back();
    dirty_[layer].Resize(steps_.size());
    held_[layer].Resize(steps_.size());
  }
  Touch(at);
  return at;
}

void RunGraph::AddEdge(const RunEdge& added) {
  const auto at = static_cast<EdgeIndex>(edges_.size());
  edges_.push_back(added);
  RunStep& from = steps_[added.from];
  RunStep& to = steps_[added.to];
  (from.last_out == kNoIndex ? from.first_out : edges_[from.last_out].next_out) = at;
  from.last_out = at;
  (to.last_in == kNoIndex ? to.first_in : edges_[to.last_in].next_in) = at;
  to.last_in = at;
  if (added.kind == EdgeKind::kBack) ++back_edges_;
  if (added.choice != kNoIndex) shares_stale_ = true;
  // In a run without loops, an edge from an earlier to a later place needs no new order.
  if (back_edges_ > 0 || from.place >= to.place) shape_stale_ = true;
  Touch(added.to);
}

std::optional<EdgeIndex> RunGraph::FindEdge(StepIndex from, StepIndex to, EdgeKind kind) const {
  // Searches from both ends in turn: one of them may have very many edges.
  EdgeIndex out = steps_[from].first_out;
  EdgeIndex in = steps_[to].first_in;
  while (out != kNoIndex && in != kNoIndex) {
    if (edges_[out].to == to && edges_[out].kind == kind) return out;
    if (edges_[in].from == from && edges_[in].kind == kind) return in;
    out = edges_[out].next_out;
    in = edges_[in].next_in;
  }
  return std::nullopt;
}

// --- what happens ---

void RunGraph::Touch(StepIndex at) {
  Mark(kThis, at);
  Mark(kNext, at);
  touched_.push_back(at);
}

void RunGraph::SetState(StepIndex at, StepState state) {
  RunStep& step = steps_[at];
  const bool ran = step.state == StepState::kRunning;
  const bool runs = state == StepState::kRunning;
  if (runs && !ran) {
    step.running_at = static_cast<std::uint32_t>(running_.size());
    running_.push_back(at);
  }
  if (ran && !runs) {
    running_[step.running_at] = running_.back();
    steps_[running_.back()].running_at = step.running_at;
    running_.pop_back();
  }
  step.state = state;
  Touch(at);
}

bool RunGraph::Start(StepIndex at, TimePoint now) {
  bool expected = state(at) == StepState::kReady && !Spent(steps_[at]);
  if (!expected) {
    // Starting a loop's first step again implies that its BACK edge was taken.
    const std::optional<EdgeIndex> back = TakenBackEdge(at);
    if (back) {
      expected = Loop(*back, BodyOf(*back));
    } else {
      AssumeDoneBefore(at);
    }
  }
  RunStep& step = steps_[at];
  ++step.visits;
  step.started_at = now;
  ForgetChoices(at);
  SetState(at, StepState::kRunning);
  return expected;
}

std::optional<EdgeIndex> RunGraph::TakenBackEdge(StepIndex head) const {
  const StepState now = state(head);
  if (now != StepState::kDone && now != StepState::kSkipped && now != StepState::kFailed) {
    return std::nullopt;
  }
  for (EdgeIndex e = steps_[head].first_in; e != kNoIndex; e = edges_[e].next_in) {
    const RunEdge& edge = edges_[e];
    if (edge.kind != EdgeKind::kBack || !edge.inside || edge.not_taken) continue;
    if (steps_[edge.from].state == StepState::kDone) return e;
  }
  return std::nullopt;
}

// A step started before it was ready: everything it depends on counts as done, transitively.
void RunGraph::AssumeDoneBefore(StepIndex at) {
  std::vector<StepIndex> todo = {at};
  while (!todo.empty()) {
    const StepIndex to = todo.back();
    todo.pop_back();
    for (EdgeIndex e = steps_[to].first_in; e != kNoIndex; e = edges_[e].next_in) {
      const StepIndex from = edges_[e].from;
      RunStep& step = steps_[from];
      if (edges_[e].kind != EdgeKind::kForward || Dead(edges_[e]) || from == at) continue;
      if (step.state != StepState::kPending && step.state != StepState::kRunning) continue;
      if (step.state == StepState::kPending) ++step.visits;
      SetState(from, StepState::kDone);
      todo.push_back(from);
    }
  }
}

RunGraph::Finished RunGraph::Finish(StepIndex at,
                                    const std::optional<std::vector<StepIndex>>& taken,
                                    TimePoint now) {
  RunStep& step = steps_[at];
  const StepState before = state(at);
  Finished finished;
  finished.expected = before == StepState::kRunning || before == StepState::kReady;
  if (!finished.expected) AssumeDoneBefore(at);
  if (before == StepState::kRunning) {
    const Duration took = std::max(now - step.started_at, Duration::zero());
    finished.mean_moved = estimates_->Observe(step.mean, took);
    if (mean_.Observe(took)) RunMeanMoved();
  } else {
    ++step.visits;
  }
  step.released = false;
  SetState(at, StepState::kDone);
  TakeEdges(at, taken);
  return finished;
}

void RunGraph::TakeEdges(StepIndex at, const std::optional<std::vector<StepIndex>>& taken) {
  std::vector<StepIndex> sorted = taken.value_or(std::vector<StepIndex>());
  std::ranges::sort(sorted);
  for (EdgeIndex e = steps_[at].first_out; e != kNoIndex; e = edges_[e].next_out) {
    RunEdge& edge = edges_[e];
    if (edge.choice == kNoIndex) continue;
    edge.not_taken = taken && !std::ranges::binary_search(sorted, edge.to);
    Mark(kThis, edge.to);
    Mark(kNext, edge.to);
  }
  if (taken) CountTaken(at, sorted);
}

void RunGraph::CountTaken(StepIndex at, std::span<const StepIndex> taken) {
  std::unordered_map<std::uint32_t, std::uint64_t> totals;
  for (EdgeIndex e = steps_[at].first_out; e != kNoIndex; e = edges_[e].next_out) {
    const RunEdge& edge = edges_[e];
    if (edge.count == Estimates::kNone) continue;
    if (std::ranges::binary_search(taken, edge.to)) estimates_->Count(edge.count);
    totals[edge.choice] += estimates_->count(edge.count);
  }
  // One more of n moves a share by at most 1/n. Below 64 every count is published, then every
  // (n/64)th.
  const bool moved = std::ranges::any_of(
      totals, [](const auto& t) { return t.second < 64 || t.second % (t.second / 64) == 0; });
  if (moved) estimates_->Publish();
}

void RunGraph::Skip(StepIndex at) { SetState(at, StepState::kSkipped); }

void RunGraph::Fail(StepIndex at, OnFail on_fail) {
  RunStep& step = steps_[at];
  step.poisoned = on_fail == OnFail::kPoison;
  const bool again = on_fail == OnFail::kRetry && !Spent(step);
  SetState(at, again ? StepState::kPending : StepState::kFailed);
}

bool RunGraph::Loop(EdgeIndex back, std::span<const StepIndex> body) {
  const StepIndex head = edges_[back].to;
  const bool expected = !Spent(steps_[head]);
  for (const StepIndex at : body) Reset(at, head);
  return expected;
}

void RunGraph::Reset(StepIndex at, StepIndex head) {
  RunStep& step = steps_[at];
  step.poisoned = false;
  step.released = at == head;
  // A step without visits left is skipped this time. The loop's first step was named by the caller,
  // so it runs.
  SetState(at, Spent(step) && at != head ? StepState::kSkipped : StepState::kPending);
  ForgetChoices(at);
}

// Only a done step can have edges not taken. It is no longer done, so its value changes and its
// successors are evaluated again.
void RunGraph::ForgetChoices(StepIndex at) {
  for (EdgeIndex e = steps_[at].first_out; e != kNoIndex; e = edges_[e].next_out) {
    edges_[e].not_taken = false;
  }
}

// --- shares of choices ---

// Edges of a choice without a given probability share what the others leave: in proportion to
// learned counts, or equally if none were learned.
void RunGraph::ReadShares() {
  std::vector<EdgeIndex> open;
  for (EdgeIndex e = 0; e < edges_.size(); ++e) {
    if (edges_[e].choice != kNoIndex) open.push_back(e);
  }
  const auto choice = [&](EdgeIndex e) { return std::pair(edges_[e].from, edges_[e].choice); };
  std::ranges::stable_sort(open, {}, choice);
  for (std::size_t begin = 0; begin < open.size();) {
    std::size_t end = begin;
    double given = 0;
    std::uint64_t shares = 0;
    for (; end < open.size() && choice(open[end]) == choice(open[begin]); ++end) {
      const RunEdge& edge = edges_[open[end]];
      if (edge.prob_given) {
        given += edge.prob;
      } else {
        shares += estimates_->count(edge.count) + 1;
      }
    }
    for (; begin < end; ++begin) {
      RunEdge& edge = edges_[open[begin]];
      if (edge.prob_given) continue;
      edge.prob = std::max(0.0, 1 - given) *
                  static_cast<double>(estimates_->count(edge.count) + 1) /
                  static_cast<double>(shares);
      Mark(kThis, edge.to);
      Mark(kNext, edge.to);
    }
  }
  shares_stale_ = false;
}

// --- what follows ---

StepState RunGraph::state(StepIndex at) const {
  const StepState state = steps_[at].state;
  if (state != StepState::kPending) return state;
  const Value& value = values_[kThis][at];
  if (value.skipped) return StepState::kSkipped;
  return value.steps == 0 ? StepState::kReady : StepState::kPending;
}

const Value& RunGraph::value(StepIndex at) const {
  const StepState now = state(at);
  const bool over =
      now == StepState::kDone || now == StepState::kSkipped || now == StepState::kFailed;
  return values_[over ? kNext : kThis][at];
}

}  // namespace spillway
