// SPDX-License-Identifier: Apache-2.0
// The shape of a run: an order in which FORWARD edges point to later places, the cycles in it, and
// the bodies of loops.
#include <algorithm>
#include <cassert>

#include "graph/run_graph.h"

namespace spillway {

void RunGraph::Reshape() {
  SortSteps();
  FindLoops();
  shape_stale_ = false;
  MarkAll();
}

namespace {

// Tarjan's strongly connected components, with an explicit stack. Components are found last first.
class Components {
 public:
  Components(std::span<const RunStep> steps, std::span<const RunEdge> edges)
      : steps_(steps), edges_(edges), number_(steps.size(), 0), low_(steps.size(), 0) {}

  template <typename Found>  // Found(first, last) of one component.
  void Find(Found found) {
    for (StepIndex root = 0; root < steps_.size(); ++root) {
      if (number_[root] == 0) FindFrom(root, found);
    }
  }

 private:
  struct Frame {
    StepIndex at;
    EdgeIndex next;
  };
  static constexpr std::uint32_t kClosed = kNoIndex;

  void Open(StepIndex at) {
    number_[at] = low_[at] = ++count_;
    path_.push_back(at);
    frames_.push_back({at, steps_[at].first_out});
  }

  template <typename Found>
  void FindFrom(StepIndex root, Found found) {
    Open(root);
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      const StepIndex at = frame.at;
      if (frame.next != kNoIndex) {
        const RunEdge& edge = edges_[frame.next];
        frame.next = edge.next_out;
        if (edge.kind == EdgeKind::kForward) Follow(at, edge.to);
        continue;
      }
      frames_.pop_back();
      if (!frames_.empty()) Lower(frames_.back().at, low_[at]);
      if (low_[at] == number_[at]) Close(at, found);
    }
  }

  void Follow(StepIndex at, StepIndex to) {
    if (number_[to] == 0) {
      Open(to);
    } else if (number_[to] != kClosed) {
      Lower(at, number_[to]);
    }
  }
  void Lower(StepIndex at, std::uint32_t to) { low_[at] = std::min(low_[at], to); }

  template <typename Found>
  void Close(StepIndex at, Found found) {
    const auto first = std::find(path_.rbegin(), path_.rend(), at).base() - 1;
    for (auto member = first; member != path_.end(); ++member) {
      number_[*member] = low_[*member] = kClosed;
    }
    found(std::span<const StepIndex>(first, path_.end()));
    path_.erase(first, path_.end());
  }

  const std::span<const RunStep> steps_;
  const std::span<const RunEdge> edges_;
  std::vector<std::uint32_t> number_;
  std::vector<std::uint32_t> low_;
  std::vector<StepIndex> path_;
  std::vector<Frame> frames_;
  std::uint32_t count_ = 0;
};

}  // namespace

void RunGraph::SortSteps() {
  const auto total = static_cast<std::uint32_t>(steps_.size());
  std::uint32_t end = total;  // Places are assigned from the last one down.
  groups_.clear();
  std::ranges::fill(group_of_, kNoIndex);
  Components(steps_, edges_).Find([&](std::span<const StepIndex> component) {
    const std::uint32_t begin = end - static_cast<std::uint32_t>(component.size());
    std::ranges::copy(component, order_.begin() + begin);
    const bool alone =
        component.size() == 1 && !FindEdge(component[0], component[0], EdgeKind::kForward);
    if (!alone) {
      std::fill(group_of_.begin() + begin, group_of_.begin() + end,
                static_cast<std::uint32_t>(groups_.size()));
      groups_.push_back({begin, end});
    }
    end = begin;
  });
  for (std::uint32_t place = 0; place < total; ++place) steps_[order_[place]].place = place;
}

void RunGraph::FindLoops() {
  for (RunStep& step : steps_) step.looped = step.has_entries = false;
  for (RunEdge& edge : edges_) edge.inside = false;
  std::vector<Entry> outside;
  if (back_edges_ > 0) {
    std::vector<bool> is_head(steps_.size(), false);
    for (const RunEdge& edge : edges_) {
      if (edge.kind == EdgeKind::kBack) is_head[edge.to] = true;
    }
    for (StepIndex at = 0; at < steps_.size(); ++at) {
      if (is_head[at]) FindLoop(at, &outside);
    }
  }
  SetEntries(std::move(outside));
}

// Handles all BACK edges to one head together. Their bodies differ, but whether both ends of an
// edge are in a common body does not depend on which BACK edge it was.
void RunGraph::FindLoop(StepIndex head, std::vector<Entry>* outside) {
  std::vector<StepIndex> sources;
  for (EdgeIndex e = steps_[head].first_in; e != kNoIndex; e = edges_[e].next_in) {
    if (edges_[e].kind == EdgeKind::kBack) sources.push_back(edges_[e].from);
  }
  for (const StepIndex at : FindBody(sources, head)) {
    steps_[at].looped = true;
    bool from_outside = false;
    for (EdgeIndex e = steps_[at].first_in; e != kNoIndex; e = edges_[e].next_in) {
      RunEdge& edge = edges_[e];
      if (edge.kind == EdgeKind::kBack) {
        if (at == head && InBody(edge.from)) edge.inside = true;
      } else if (!InBody(edge.from)) {
        from_outside = true;
      } else if (at != head) {
        edge.inside = true;
      }
    }
    if (from_outside && at != head) outside->push_back({at, head});
  }
}

// Of the candidates, keeps steps with an edge from outside every loop.
void RunGraph::SetEntries(std::vector<Entry> outside) {
  std::erase_if(outside, [this](const Entry& entry) {
    for (EdgeIndex e = steps_[entry.key].first_in; e != kNoIndex; e = edges_[e].next_in) {
      if (edges_[e].kind == EdgeKind::kForward && !edges_[e].inside) return false;
    }
    return true;
  });
  const auto both = [](const Entry& entry) { return std::pair(entry.key, entry.other); };
  for (const Entry& entry : outside) steps_[entry.key].has_entries = true;
  entries_of_step_ = std::move(outside);
  entries_of_head_.clear();
  for (const Entry& entry : entries_of_step_) entries_of_head_.push_back({entry.other, entry.key});
  std::ranges::sort(entries_of_step_, {}, both);
  std::ranges::sort(entries_of_head_, {}, both);
}

// Afterwards mark_now_ marks steps reached from the head, and mark_now_ + 1 the body.
std::vector<StepIndex> RunGraph::FindBody(std::span<const StepIndex> sources, StepIndex head) {
  MarkReached(sources, head);
  std::vector<StepIndex> body;
  const auto add = [&](StepIndex at) {
    if (mark_[at] != mark_now_) return;
    mark_[at] = mark_now_ + 1;
    body.push_back(at);
  };
  for (const StepIndex source : sources) add(source);
  std::size_t next = 0;
  while (next < body.size()) {  // `body` grows during the loop.
    for (EdgeIndex e = steps_[body[next++]].first_in; e != kNoIndex; e = edges_[e].next_in) {
      if (edges_[e].kind == EdgeKind::kForward) add(edges_[e].from);
    }
  }
  return body;
}

// No step after the last source leads back to one. So a short loop in a long run is found in short
// time.
void RunGraph::MarkReached(std::span<const StepIndex> sources, StepIndex head) {
  std::uint32_t limit = 0;
  for (const StepIndex source : sources) {
    const std::uint32_t place = steps_[source].place;
    const std::uint32_t group = group_of_[place];
    limit = std::max(limit, group == kNoIndex ? place : groups_[group].end - 1);
  }
  mark_now_ += 2;
  std::vector<StepIndex> reached;
  const auto add = [&](StepIndex at) {
    if (mark_[at] == mark_now_ || steps_[at].place > limit) return;
    mark_[at] = mark_now_;
    reached.push_back(at);
  };
  add(head);
  std::size_t next = 0;
  while (next < reached.size()) {  // `reached` grows during the loop.
    for (EdgeIndex e = steps_[reached[next++]].first_out; e != kNoIndex; e = edges_[e].next_out) {
      if (edges_[e].kind == EdgeKind::kForward) add(edges_[e].to);
    }
  }
}

std::vector<StepIndex> RunGraph::BodyOf(EdgeIndex back) {
  assert(!shape_stale_ && edges_[back].kind == EdgeKind::kBack);
  const StepIndex source = edges_[back].from;
  return FindBody({&source, 1}, edges_[back].to);
}

}  // namespace spillway
