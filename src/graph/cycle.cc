// SPDX-License-Identifier: Apache-2.0
// Steps that depend on each other in a circle. An ANY or K_OF join may break the circle, so their
// values are computed together, by Knuth's generalisation of Dijkstra's algorithm: the least value
// derivable so far is final, since the value of a join is never less than those it is made of. A
// step whose value is never derived never runs.
//
// Probabilities add up at ANY joins, so in a circle they would feed back on themselves. Therefore a
// step counts only predecessors that come in fewer steps than itself.
#include <algorithm>
#include <queue>

#include "graph/run_graph.h"

namespace spillway {
namespace {

struct StepsField {
  static std::int64_t Cost(const Value& value) { return value.comes() ? value.steps : kNeverNs; }
  static void Set(Value* to, const Value& from) { to->steps = from.steps; }
};

struct TimeField {
  static std::int64_t Cost(const Value& value) { return value.start; }
  static void Set(Value* to, const Value& from) {
    to->start = from.start;
    to->finish = from.finish;
    to->conf = from.conf;
  }
};

}  // namespace

template <typename Each>
void RunGraph::EachAfter(Layer layer, StepIndex at, Each each) const {
  for (EdgeIndex e = steps_[at].first_out; e != kNoIndex; e = edges_[e].next_out) {
    const RunEdge& edge = edges_[e];
    if (edge.kind == EdgeKind::kForward && (layer == kThis || edge.inside)) each(edge.to);
  }
  if (layer == kThis) return;
  auto entry = std::ranges::lower_bound(entries_of_head_, at, {}, &Entry::key);
  for (; entry != entries_of_head_.end() && entry->key == at; ++entry) each(entry->other);
}

void RunGraph::SettleGroup(Layer layer, std::span<const StepIndex> group,
                           std::vector<StepIndex>* changed) {
  std::vector<Value> before;
  before.reserve(group.size());
  for (const StepIndex at : group) {
    before.push_back(values_[layer][at]);
    values_[layer][at] = Value::Never();
  }
  SolveSkips(layer, group);
  SolveLeast(layer, group, StepsField());
  SolveLeast(layer, group, TimeField());
  SolveChances(layer, group);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const StepIndex at = group[i];
    const Value after = values_[layer][at];
    values_[layer][at] = before[i];
    Store(layer, at, after, changed);
  }
}

void RunGraph::SolveSkips(Layer layer, std::span<const StepIndex> group) {
  const std::uint32_t circle = group_of_[steps_[group[0]].place];
  std::vector<StepIndex> todo(group.begin(), group.end());
  while (!todo.empty()) {
    const StepIndex at = todo.back();
    todo.pop_back();
    if (values_[layer][at].skipped || !Evaluate(layer, at).skipped) continue;
    values_[layer][at].skipped = true;
    EachAfter(layer, at, [&](StepIndex to) {
      if (group_of_[steps_[to].place] == circle) todo.push_back(to);
    });
  }
}

template <typename Field>
void RunGraph::SolveLeast(Layer layer, std::span<const StepIndex> group, Field field) {
  using Candidate = std::pair<std::int64_t, StepIndex>;
  const std::uint32_t first = steps_[group[0]].place;
  const std::uint32_t circle = group_of_[first];
  std::vector<bool> fixed(group.size(), false);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](StepIndex at) {
    const std::uint32_t place = steps_[at].place;
    if (group_of_[place] != circle || fixed[place - first]) return;
    const std::int64_t cost = field.Cost(Evaluate(layer, at));
    if (cost != kNeverNs) queue.emplace(cost, at);
  };
  for (const StepIndex at : group) offer(at);
  while (!queue.empty()) {
    const StepIndex at = queue.top().second;
    queue.pop();
    if (fixed[steps_[at].place - first]) continue;
    fixed[steps_[at].place - first] = true;
    field.Set(&values_[layer][at], Evaluate(layer, at));
    EachAfter(layer, at, offer);
  }
}

void RunGraph::SolveChances(Layer layer, std::span<const StepIndex> group) {
  std::vector<StepIndex> rising(group.begin(), group.end());
  const auto steps = [&](StepIndex at) { return values_[layer][at].steps; };
  std::ranges::sort(rising, {}, steps);
  std::vector<double> chances;
  for (std::size_t begin = 0; begin < rising.size();) {
    std::size_t end = begin;
    chances.clear();
    for (; end < rising.size() && steps(rising[end]) == steps(rising[begin]); ++end) {
      chances.push_back(Evaluate(layer, rising[end]).p);
    }
    for (const double p : chances) values_[layer][rising[begin++]].p = p;
  }
}

}  // namespace spillway
