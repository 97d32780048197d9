// SPDX-License-Identifier: Apache-2.0
// Carries changes along the edges, in order, until no value changes.
#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/run_graph.h"

namespace spillway {
namespace {

constexpr std::int32_t kNear = 64;

// The change that may be held back: a sixteenth of the power of two below `of`. All values between
// two powers of two hold back the same, so along a path this adds up to at most an eighth.
std::uint64_t Slack(std::int64_t of) {
  return of <= 0 ? 0 : std::bit_floor(static_cast<std::uint64_t>(of)) / 16;
}
bool Within(std::int64_t a, std::int64_t b, std::uint64_t slack) {
  return static_cast<std::uint64_t>(std::abs(a - b)) <= slack;
}

// Whether a distant step only came a little nearer and is otherwise unchanged.
bool NearlyAs(const Value& was, const Value& is) {
  if (!was.comes() || !is.comes() || is.steps <= kNear || is.steps > was.steps) return false;
  if (was.skipped != is.skipped || was.p != is.p) return false;
  if (std::abs(was.conf - is.conf) > 1.0 / 64) return false;
  const std::uint64_t slack = Slack(was.start);
  return Within(was.steps, is.steps, Slack(was.steps)) && Within(was.start, is.start, slack) &&
         Within(was.finish, is.finish, slack);
}

}  // namespace

bool RunGraph::dirty() const {
  return !touched_.empty() || shape_stale_ || shares_stale_ || !dirty_[kThis].empty() ||
         !dirty_[kNext].empty() || estimates_seen_ != estimates_->version();
}

void RunGraph::MarkAll() {
  for (std::uint32_t place = 0; place < order_.size(); ++place) {
    dirty_[kThis].Insert(place);
    dirty_[kNext].Insert(place);
  }
}

void RunGraph::EstimateMoved(StepIndex at) {
  if (steps_[at].est_ns >= 0) return;
  Mark(kThis, at);
  Mark(kNext, at);
}

void RunGraph::RunMeanMoved() {
  for (StepIndex at = 0; at < steps_.size(); ++at) {
    if (!estimates_->mean(steps_[at].mean).known()) EstimateMoved(at);
  }
}

void RunGraph::Unsettle() {
  for (const Layer layer : {kThis, kNext}) {
    std::ranges::fill(values_[layer], Value());
  }
  shape_stale_ = true;
}

void RunGraph::Settle(TimePoint now, std::vector<StepIndex>* changed, Far far) {
  const bool reshaped = shape_stale_;
  if (shape_stale_) Reshape();
  // After Reshape places differ and all steps are evaluated. A run with cycles is always exact:
  // cycles are solved as a whole.
  roughly_ = far == Far::kRoughly && groups_.empty();
  if (reshaped || !roughly_) TakeUpHeld();
  if (estimates_seen_ != estimates_->version()) {
    estimates_seen_ = estimates_->version();
    shares_stale_ = true;
  }
  if (shares_stale_) ReadShares();
  if (now > as_of_) {
    as_of_ = now;
    for (const StepIndex at : running_) Mark(kThis, at);
  }
  changed->insert(changed->end(), touched_.begin(), touched_.end());
  touched_.clear();
  SettleLayer(kThis, changed);
  SettleLayer(kNext, changed);
}

void RunGraph::TakeUpHeld() {
  for (const Layer layer : {kThis, kNext}) {
    std::uint32_t place = 0;
    while (held_[layer].Pop(&place)) dirty_[layer].Insert(place);
  }
}

void RunGraph::SettleLayer(Layer layer, std::vector<StepIndex>* changed) {
  std::uint32_t place = 0;
  while (dirty_[layer].Pop(&place)) {
    const std::uint32_t group = group_of_[place];
    if (group == kNoIndex) {
      const StepIndex at = order_[place];
      Store(layer, at, Evaluate(layer, at), changed);
      continue;
    }
    const auto [begin, end] = groups_[group];
    SettleGroup(layer, {order_.data() + begin, order_.data() + end}, changed);
    for (std::uint32_t member = begin; member < end; ++member) dirty_[layer].Erase(member);
  }
}

void RunGraph::Store(Layer layer, StepIndex at, const Value& value,
                     std::vector<StepIndex>* changed) {
  if (values_[layer][at] == value) return;
  if (roughly_ && NearlyAs(values_[layer][at], value)) return held_[layer].Insert(steps_[at].place);
  values_[layer][at] = value;
  changed->push_back(at);
  MarkAfter(layer, at);
}

void RunGraph::MarkAfter(Layer layer, StepIndex at) {
  const RunStep& step = steps_[at];
  if (layer == kThis && step.looped && step.visits_max != 0) Mark(kNext, at);
  for (EdgeIndex e = step.first_out; e != kNoIndex; e = edges_[e].next_out) {
    const RunEdge& edge = edges_[e];
    if (layer == kNext) {
      if (edge.kind == EdgeKind::kForward && edge.inside) Mark(kNext, edge.to);
    } else if (edge.kind == EdgeKind::kBack) {
      Mark(kNext, edge.to);
    } else {
      Mark(kThis, edge.to);
      if (!edge.inside && steps_[edge.to].has_entries) Mark(kNext, edge.to);
    }
  }
  if (layer == kThis || entries_of_head_.empty()) return;
  auto entry = std::ranges::lower_bound(entries_of_head_, at, {}, &Entry::key);
  for (; entry != entries_of_head_.end() && entry->key == at; ++entry) Mark(kNext, entry->other);
}

}  // namespace spillway
