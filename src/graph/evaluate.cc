// SPDX-License-Identifier: Apache-2.0
// The value of one step, computed from its predecessors' values.
#include <algorithm>
#include <cmath>

#include "graph/run_graph.h"

namespace spillway {
namespace {

// Assumed duration of a step before anything was measured.
constexpr std::int64_t kUnknownStepNs = 10'000'000'000;

}  // namespace

Value RunGraph::Evaluate(Layer layer, StepIndex at) {
  ++evaluations_;
  return layer == kThis ? EvaluateThis(at) : EvaluateNext(at);
}

// --- time ---

std::int64_t RunGraph::Expected(const RunStep& step) const {
  if (step.est_ns >= 0) return step.est_ns;
  const RunningMean& agent = estimates_->mean(step.mean);
  if (agent.known()) return agent.published().count();
  return mean_.known() ? mean_.published().count() : kUnknownStepNs;
}

Value RunGraph::Startable(const RunStep& step) const {
  return {.steps = 0, .start = 0, .finish = Expected(step), .p = 1};
}

// The remaining time is never zero: an overdue step is expected to take another tenth of its time
// so far, and its confidence falls.
Value RunGraph::Running(const RunStep& step) const {
  const std::int64_t expected = Expected(step);
  const std::int64_t elapsed = std::max<std::int64_t>((as_of_ - step.started_at).count(), 0);
  const std::int64_t remains = std::max(expected - elapsed, elapsed / 10);
  const double overdue =
      static_cast<double>(elapsed) / static_cast<double>(std::max<std::int64_t>(expected, 1));
  return {.steps = 0,
          .start = 0,
          .finish = SaturatingAdd(0, remains),
          .p = 1,
          .conf = std::min(1.0, std::exp2(1 - overdue))};
}

// --- this visit ---

Value RunGraph::EvaluateThis(StepIndex at) {
  const RunStep& step = steps_[at];
  switch (step.state) {
    case StepState::kRunning:
      return Running(step);
    case StepState::kDone:
      return {.steps = -1, .start = 0, .finish = 0, .p = 1};
    case StepState::kSkipped:
      return Value::Skipped();
    case StepState::kFailed:
      return step.poisoned ? Value::Never() : Value::Skipped();
    case StepState::kPending:
    case StepState::kReady:
      break;
  }
  arrivals_.clear();
  bool root = true;
  for (EdgeIndex e = step.first_in; e != kNoIndex; e = edges_[e].next_in) {
    const RunEdge& edge = edges_[e];
    if (edge.kind != EdgeKind::kForward) continue;
    root = false;
    if (Dead(edge)) continue;
    // When the source is done an edge has been taken, so its probability no longer matters.
    Arrive(values_[kThis][edge.from], steps_[edge.from].state == StepState::kDone ? 1 : edge.prob);
  }
  if (root || step.released) return Startable(step);
  Value value = JoinArrivals(step.join, step.k);
  if (value.steps == 0) value.p = 1;
  value.finish = SaturatingAdd(value.start, Expected(step));
  return value;
}

// --- the next visit ---

bool RunGraph::HasNext(const RunStep& step) const {
  if (!step.looped) return false;
  if (step.visits_max == 0) return true;
  const StepIndex at = order_[step.place];
  const bool one_to_come = step.state == StepState::kPending && !values_[kThis][at].skipped;
  return step.visits + (one_to_come ? 1 : 0) < step.visits_max;
}

// The next visit begins when a BACK edge is taken, or with an enclosing loop.
Value RunGraph::EvaluateNext(StepIndex at) {
  const RunStep& step = steps_[at];
  if (!HasNext(step)) return Value::Skipped();
  const Value back = NextByBack(at);
  Value value = NextByEdges(at);
  if (value.skipped) {
    value = back;
  } else if (!back.skipped) {
    if (back.start < value.start || (back.start == value.start && back.conf > value.conf)) {
      value.start = back.start;
      value.conf = back.conf;
    }
    value.steps = std::min(value.steps, back.steps);
    value.p = std::min(1.0, value.p + back.p);
  }
  value.finish = SaturatingAdd(value.start, Expected(step));
  return value;
}

Value RunGraph::NextByBack(StepIndex at) {
  arrivals_.clear();
  for (EdgeIndex e = steps_[at].first_in; e != kNoIndex; e = edges_[e].next_in) {
    const RunEdge& edge = edges_[e];
    if (edge.kind != EdgeKind::kBack || !edge.inside || Dead(edge)) continue;
    Arrive(values_[kThis][edge.from], steps_[edge.from].state == StepState::kDone ? 1 : edge.prob);
  }
  return JoinArrivals(Join::kAny, 1);
}

Value RunGraph::NextByEdges(StepIndex at) {
  const RunStep& step = steps_[at];
  const Arrival begins = LoopBegins(at);
  arrivals_.clear();
  for (EdgeIndex e = step.first_in; e != kNoIndex; e = edges_[e].next_in) {
    const RunEdge& edge = edges_[e];
    if (edge.kind != EdgeKind::kForward) continue;
    if (edge.inside) {
      const Value& from = values_[kNext][edge.from];
      if (!from.skipped) Arrive(from, edge.prob);
    } else if (step.has_entries && !Dead(edge)) {
      arrivals_.push_back(begins);  // Its source counts as done when the loop begins again.
    }
  }
  return JoinArrivals(step.join, step.k);
}

RunGraph::Arrival RunGraph::LoopBegins(StepIndex at) const {
  Arrival begins = {kNeverSteps, kNeverNs, 0, 1};
  if (!steps_[at].has_entries) return begins;
  auto entry = std::ranges::lower_bound(entries_of_step_, at, {}, &Entry::key);
  for (; entry != entries_of_step_.end() && entry->key == at; ++entry) {
    const Value& head = values_[kNext][entry->other];
    if (!head.comes()) continue;
    begins.steps = std::min(begins.steps, head.steps - 1);
    if (head.start < begins.at || (head.start == begins.at && head.conf > begins.conf)) {
      begins.at = head.start;
      begins.conf = head.conf;
    }
    begins.p = std::max(begins.p, head.p);
  }
  return begins;
}

// --- joins ---

void RunGraph::Arrive(const Value& from, double prob) {
  arrivals_.push_back({from.steps, from.finish, from.p * prob, from.conf});
}

// The need-th arrival determines the value. Among equally early arrivals, the one with the higher
// confidence comes first.
Value RunGraph::JoinArrivals(Join join, std::size_t k) {
  const std::size_t count = arrivals_.size();
  const std::size_t need = join == Join::kAll ? count : join == Join::kAny ? 1 : k;
  if (count == 0 || count < need) return Value::Skipped();
  if (count == 1) {
    const Arrival& only = arrivals_[0];
    if (only.steps == kNeverSteps) return Value::Never();
    return {
        .steps = only.steps + 1, .start = only.at, .p = std::min(1.0, only.p), .conf = only.conf};
  }
  const auto nth = arrivals_.begin() + static_cast<std::ptrdiff_t>(need - 1);
  Value value;
  std::ranges::nth_element(arrivals_, nth, {}, &Arrival::steps);
  if (nth->steps == kNeverSteps) return Value::Never();
  value.steps = nth->steps + 1;
  std::ranges::nth_element(arrivals_, nth, [](const Arrival& a, const Arrival& b) {
    return a.at != b.at ? a.at < b.at : a.conf > b.conf;
  });
  value.start = nth->at;
  value.conf = nth->conf;
  if (join == Join::kAny) {
    for (const Arrival& arrival : arrivals_) value.p += arrival.p;
    value.p = std::min(1.0, value.p);
  } else {
    std::ranges::nth_element(arrivals_, nth, std::greater<>(), &Arrival::p);
    value.p = nth->p;
  }
  return value;
}

}  // namespace spillway
