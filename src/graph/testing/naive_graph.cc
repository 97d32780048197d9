// SPDX-License-Identifier: Apache-2.0
#include "graph/testing/naive_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace spillway::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Arrival {
  double steps, finish, conf, p;
};

double Nth(std::vector<double> sorted, std::size_t n) {
  std::sort(sorted.begin(), sorted.end());
  return sorted[n - 1];
}

}  // namespace

NaiveGraph::Matrix NaiveGraph::Reach() const {
  const std::size_t n = steps.size();
  Matrix reach(n, std::vector<bool>(n, false));
  for (std::size_t i = 0; i < n; ++i) reach[i][i] = true;
  for (bool more = true; more;) {
    more = false;
    for (const NaiveEdge& edge : edges) {
      if (edge.back) continue;
      for (std::size_t i = 0; i < n; ++i) {
        const auto from = static_cast<std::size_t>(edge.from);
        const auto to = static_cast<std::size_t>(edge.to);
        if (!reach[i][from] || reach[i][to]) continue;
        reach[i][to] = more = true;
      }
    }
  }
  return reach;
}

std::vector<int> NaiveGraph::Body(const Matrix& reach, const NaiveEdge& back) const {
  std::vector<int> body;
  for (std::size_t v = 0; v < steps.size(); ++v) {
    if (reach[static_cast<std::size_t>(back.to)][v] &&
        reach[v][static_cast<std::size_t>(back.from)]) {
      body.push_back(static_cast<int>(v));
    }
  }
  return body;
}

bool NaiveGraph::HasCircle() const {
  const Matrix reach = Reach();
  return std::any_of(edges.begin(), edges.end(), [&](const NaiveEdge& edge) {
    return !edge.back &&
           reach[static_cast<std::size_t>(edge.to)][static_cast<std::size_t>(edge.from)];
  });
}

double NaiveGraph::Chance(const NaiveEdge& edge, bool decided) const {
  if (decided && steps[static_cast<std::size_t>(edge.from)].state == StepState::kDone) return 1;
  if (edge.prob) return *edge.prob;
  if (edge.choice.empty()) return 1;
  double given = 0;
  int open = 0;
  for (const NaiveEdge& other : edges) {
    if (other.from != edge.from || other.choice != edge.choice) continue;
    given += other.prob.value_or(0);
    open += other.prob ? 0 : 1;
  }
  return std::max(0.0, 1 - given) / open;
}

bool NaiveGraph::Looped(const Matrix& reach, int at) const {
  return std::any_of(edges.begin(), edges.end(), [&](const NaiveEdge& edge) {
    const std::vector<int> body = edge.back ? Body(reach, edge) : std::vector<int>();
    return std::find(body.begin(), body.end(), at) != body.end();
  });
}

bool NaiveGraph::VisitsLeft(int at, bool skipped) const {
  const NaiveStep& step = steps[static_cast<std::size_t>(at)];
  const int to_come = step.state == StepState::kPending && !skipped ? 1 : 0;
  return step.max_visits == 0 || step.visits + to_come < step.max_visits;
}

// Both ends are in one body, and the edge does not enter its head.
bool NaiveGraph::Inside(const Matrix& reach, const NaiveEdge& edge) const {
  return std::any_of(edges.begin(), edges.end(), [&](const NaiveEdge& back) {
    if (!back.back || back.to == edge.to) return false;
    const std::vector<int> body = Body(reach, back);
    return std::find(body.begin(), body.end(), edge.from) != body.end() &&
           std::find(body.begin(), body.end(), edge.to) != body.end();
  });
}

std::vector<int> NaiveGraph::HeadsAround(const Matrix& reach, int at) const {
  std::set<int> heads;
  for (const NaiveEdge& back : edges) {
    if (!back.back || back.to == at) continue;
    const std::vector<int> body = Body(reach, back);
    if (std::find(body.begin(), body.end(), at) != body.end()) heads.insert(back.to);
  }
  return {heads.begin(), heads.end()};
}

NaiveGraph::Both NaiveGraph::Solve() const {
  const std::size_t n = steps.size();
  const Matrix reach = Reach();
  std::vector<bool> inside(edges.size());
  for (std::size_t e = 0; e < edges.size(); ++e) {
    inside[e] = !edges[e].back && Inside(reach, edges[e]);
  }
  std::vector<std::vector<int>> heads(n);
  std::vector<bool> looped(n);
  for (std::size_t v = 0; v < n; ++v) {
    heads[v] = HeadsAround(reach, static_cast<int>(v));
    looped[v] = Looped(reach, static_cast<int>(v));
  }

  Both both;
  both.now.assign(n, Cell{false, kInf, kInf, kInf, 1, 0});
  both.next = both.now;
  const auto same_circle = [&](std::size_t u, std::size_t v) { return reach[u][v] && reach[v][u]; };

  // The need-th arrival; `any` adds probabilities.
  const auto join = [](Join kind, int k, const std::vector<Arrival>& in) -> std::optional<Cell> {
    const std::size_t need = kind == Join::kAll   ? in.size()
                             : kind == Join::kAny ? 1
                                                  : static_cast<std::size_t>(k);
    if (in.empty() || in.size() < need) return std::nullopt;
    std::vector<double> steps_in;
    std::vector<double> chances;
    std::vector<std::pair<double, double>> times;
    double sum = 0;
    for (const Arrival& a : in) {
      steps_in.push_back(a.steps);
      chances.push_back(-a.p);
      times.emplace_back(a.finish, -a.conf);
      sum += a.p;
    }
    std::sort(times.begin(), times.end());
    Cell cell;
    cell.steps = Nth(steps_in, need) + 1;
    cell.start = times[need - 1].first;
    cell.conf = -times[need - 1].second;
    cell.p = kind == Join::kAny ? std::min(1.0, sum) : -Nth(chances, need);
    if (cell.steps == kInf) cell = {false, kInf, kInf, kInf, 1, 0};
    return cell;
  };

  const auto dead = [&](const NaiveEdge& edge) {
    return edge.not_taken || both.now[static_cast<std::size_t>(edge.from)].skipped;
  };
  const auto arrival = [&](const std::vector<Cell>& cells, const NaiveEdge& edge, double chance) {
    const auto from = static_cast<std::size_t>(edge.from);
    const auto to = static_cast<std::size_t>(edge.to);
    const Cell& c = cells[from];
    const bool counts = &cells == &both.now || !edge.back;
    double p = c.p * chance;
    if (counts && !edge.back && same_circle(from, to) && !(c.steps < cells[to].steps)) p = 0;
    return Arrival{c.steps, c.finish, c.conf, p};
  };

  const auto now_cell = [&](std::size_t v) -> std::optional<Cell> {
    const NaiveStep& s = steps[v];
    if (s.state == StepState::kRunning) {
      const double elapsed = now_ms - s.started_ms;
      const double rest = std::max(s.est_ms - elapsed, elapsed * 0.1);
      return Cell{false, 0, 0, rest, std::min(1.0, std::exp2(1 - elapsed / s.est_ms)), 1};
    }
    if (s.state == StepState::kDone) return Cell{false, -1, 0, 0, 1, 1};
    if (s.state == StepState::kSkipped) return std::nullopt;
    if (s.state == StepState::kFailed) {
      if (s.poisoned) return Cell{false, kInf, kInf, kInf, 1, 0};
      return std::nullopt;
    }
    std::vector<Arrival> in;
    bool root = true;
    for (const NaiveEdge& edge : edges) {
      if (edge.back || edge.to != static_cast<int>(v)) continue;
      root = false;
      if (!dead(edge)) in.push_back(arrival(both.now, edge, Chance(edge, true)));
    }
    if (root || s.released) return Cell{false, 0, 0, s.est_ms, 1, 1};
    std::optional<Cell> cell = join(s.join, s.k, in);
    if (cell && cell->steps == 0) cell->p = 1;
    if (cell) cell->finish = cell->start + s.est_ms;
    return cell;
  };

  const auto next_cell = [&](std::size_t v) -> std::optional<Cell> {
    const NaiveStep& s = steps[v];
    if (!looped[v] || !VisitsLeft(static_cast<int>(v), both.now[v].skipped)) return std::nullopt;
    std::vector<Arrival> back;
    std::vector<Arrival> in;
    Arrival begins{kInf, kInf, 1, 0};
    for (const int h : heads[v]) {
      const auto head = static_cast<std::size_t>(h);
      const Cell& c = both.next[head];
      if (c.steps == kInf) continue;
      begins.steps = std::min(begins.steps, c.steps - 1);
      if (c.start < begins.finish || (c.start == begins.finish && c.conf > begins.conf)) {
        begins.finish = c.start;
        begins.conf = c.conf;
      }
      if (!same_circle(head, v) || c.steps < both.next[v].steps) begins.p = std::max(begins.p, c.p);
    }
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const NaiveEdge& edge = edges[e];
      if (edge.to != static_cast<int>(v)) continue;
      if (edge.back) {
        if (!Body(reach, edge).empty() && !dead(edge)) {
          back.push_back(arrival(both.now, edge, Chance(edge, true)));
        }
      } else if (inside[e]) {
        if (!both.next[static_cast<std::size_t>(edge.from)].skipped) {
          in.push_back(arrival(both.next, edge, Chance(edge, false)));
        }
      } else if (!heads[v].empty() && !dead(edge)) {
        in.push_back(begins);
      }
    }
    std::optional<Cell> by_edges = join(s.join, s.k, in);
    const std::optional<Cell> by_back = join(Join::kAny, 1, back);
    if (!by_edges)
      by_edges = by_back;
    else if (by_back) {
      if (by_back->start < by_edges->start ||
          (by_back->start == by_edges->start && by_back->conf > by_edges->conf)) {
        by_edges->start = by_back->start;
        by_edges->conf = by_back->conf;
      }
      by_edges->steps = std::min(by_edges->steps, by_back->steps);
      by_edges->p = std::min(1.0, by_edges->p + by_back->p);
    }
    if (by_edges) by_edges->finish = by_edges->start + s.est_ms;
    return by_edges;
  };

  // First the skipped steps (upwards, from none skipped: only what the rules imply), then all other
  // values downwards from "never"; probabilities last, when distances are final.
  const auto repeat = [&](std::vector<Cell>* cells, auto cell_of, int what) {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t v = 0; v < n; ++v) {
        const std::optional<Cell> cell = cell_of(v);
        const Cell before = (*cells)[v];
        if (what == 0) {
          (*cells)[v].skipped = (*cells)[v].skipped || !cell;
        } else if (cell && what == 1) {
          (*cells)[v].steps = cell->steps;
          (*cells)[v].start = cell->start;
          (*cells)[v].finish = cell->finish;
          (*cells)[v].conf = cell->conf;
        } else if (cell) {
          (*cells)[v].p = cell->p;
        }
        more = more || before != (*cells)[v];
      }
    }
  };
  for (int what = 0; what < 3; ++what) repeat(&both.now, now_cell, what);
  for (int what = 0; what < 3; ++what) repeat(&both.next, next_cell, what);
  return both;
}

StepState NaiveGraph::StateIn(const Both& both, int at) const {
  const auto v = static_cast<std::size_t>(at);
  if (steps[v].state != StepState::kPending) return steps[v].state;
  if (both.now[v].skipped) return StepState::kSkipped;
  return both.now[v].steps == 0 ? StepState::kReady : StepState::kPending;
}

std::vector<NaiveAnswer> NaiveGraph::Answers() const {
  const Both both = Solve();
  std::vector<NaiveAnswer> answers;
  for (std::size_t v = 0; v < steps.size(); ++v) {
    NaiveAnswer answer;
    answer.state = StateIn(both, static_cast<int>(v));
    const bool over = answer.state == StepState::kDone || answer.state == StepState::kSkipped ||
                      answer.state == StepState::kFailed;
    const Cell& cell = over ? both.next[v] : both.now[v];
    if (cell.steps != kInf) answer.steps = static_cast<int>(cell.steps);
    answer.eta_ms = cell.start;
    answer.p = cell.p;
    answer.conf = cell.conf;
    answers.push_back(answer);
  }
  return answers;
}

// --- progress ---

void NaiveGraph::AssumeBefore(const Both& both, int at) {
  std::set<int> seen = {at};
  std::function<void(int)> walk = [&](int to) {
    for (const NaiveEdge& edge : edges) {
      const auto from = static_cast<std::size_t>(edge.from);
      if (edge.back || edge.to != to || edge.not_taken || both.now[from].skipped) continue;
      NaiveStep& step = steps[from];
      const bool open = step.state == StepState::kPending || step.state == StepState::kRunning;
      if (!open || !seen.insert(edge.from).second) continue;
      if (step.state == StepState::kPending) ++step.visits;
      step.state = StepState::kDone;
      walk(edge.from);
    }
  };
  walk(at);
}

void NaiveGraph::Start(int at) {
  NaiveStep& step = steps[static_cast<std::size_t>(at)];
  const Both both = Solve();
  const StepState state = StateIn(both, at);
  const bool spent = step.max_visits != 0 && step.visits >= step.max_visits;
  if (state != StepState::kReady || spent) {
    const bool over =
        state == StepState::kDone || state == StepState::kSkipped || state == StepState::kFailed;
    const NaiveEdge* taken = nullptr;
    for (const NaiveEdge& edge : edges) {
      if (!over || taken != nullptr || !edge.back || edge.to != at || edge.not_taken) continue;
      if (Body(Reach(), edge).empty()) continue;
      if (steps[static_cast<std::size_t>(edge.from)].state == StepState::kDone) taken = &edge;
    }
    if (taken != nullptr) {
      if (spent) ++mispredictions;
      LoopBody(*taken);
    } else {
      ++mispredictions;
      AssumeBefore(both, at);
    }
  }
  ++step.visits;
  step.state = StepState::kRunning;
  step.started_ms = now_ms;
  for (NaiveEdge& edge : edges) {
    if (edge.from == at) edge.not_taken = false;
  }
}

bool NaiveGraph::Finish(int at, const std::optional<std::vector<int>>& taken) {
  NaiveStep& step = steps[static_cast<std::size_t>(at)];
  const Both both = Solve();
  const StepState state = StateIn(both, at);
  if (state == StepState::kDone) return false;
  if (state != StepState::kRunning && state != StepState::kReady) {
    ++mispredictions;
    AssumeBefore(both, at);
  }
  if (state != StepState::kRunning) ++step.visits;
  step.released = false;
  step.state = StepState::kDone;
  for (NaiveEdge& edge : edges) {
    if (edge.from != at || edge.choice.empty()) continue;
    edge.not_taken = taken && std::find(taken->begin(), taken->end(), edge.to) == taken->end();
  }
  return true;
}

bool NaiveGraph::Skip(int at) {
  NaiveStep& step = steps[static_cast<std::size_t>(at)];
  if (step.state == StepState::kDone) return false;
  step.state = StepState::kSkipped;
  return true;
}

bool NaiveGraph::Fail(int at, OnFail on_fail) {
  NaiveStep& step = steps[static_cast<std::size_t>(at)];
  if (step.state == StepState::kDone) return false;
  const bool spent = step.max_visits != 0 && step.visits >= step.max_visits;
  step.poisoned = on_fail == OnFail::kPoison;
  step.state = on_fail == OnFail::kRetry && !spent ? StepState::kPending : StepState::kFailed;
  return true;
}

bool NaiveGraph::Loop(int from, int to) {
  for (const NaiveEdge& edge : edges) {
    if (!edge.back || edge.from != from || edge.to != to) continue;
    if (Body(Reach(), edge).empty()) return false;
    const NaiveStep& head = steps[static_cast<std::size_t>(to)];
    if (head.max_visits != 0 && head.visits >= head.max_visits) ++mispredictions;
    LoopBody(edge);
    return true;
  }
  return false;
}

void NaiveGraph::LoopBody(const NaiveEdge& back) {
  const int head = back.to;
  for (const int v : Body(Reach(), back)) {
    NaiveStep& step = steps[static_cast<std::size_t>(v)];
    const bool spent = step.max_visits != 0 && step.visits >= step.max_visits;
    step.state = spent && v != head ? StepState::kSkipped : StepState::kPending;
    step.poisoned = false;
    step.released = v == head;
    for (NaiveEdge& edge : edges) {
      if (edge.from == v) edge.not_taken = false;
    }
  }
}

}  // namespace spillway::testing
