// SPDX-License-Identifier: Apache-2.0
// The definition of the step graph, written as plainly as possible: small tables, and every query
// answered by repeating the rules until nothing changes. Tests compare the real graph with it. It
// shares no code with the real one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spillway/step_graph_types.h"

namespace spillway::testing {

struct NaiveStep {
  Join join = Join::kAll;
  int k = 0;
  double est_ms = 0;
  int max_visits = 0;  // 0: no limit.

  StepState state = StepState::kPending;
  bool poisoned = false;
  bool released = false;
  int visits = 0;
  double started_ms = 0;
};

struct NaiveEdge {
  int from = 0;
  int to = 0;
  bool back = false;
  std::optional<double> prob;
  std::string choice;
  bool not_taken = false;
};

struct NaiveAnswer {
  StepState state = StepState::kPending;
  std::optional<int> steps;
  double eta_ms = 0;
  double p = 0;
  double conf = 1;
};

class NaiveGraph {
 public:
  std::vector<NaiveStep> steps;
  std::vector<NaiveEdge> edges;
  double now_ms = 0;
  int mispredictions = 0;

  void Start(int at);
  bool Finish(int at, const std::optional<std::vector<int>>& taken);  // False: it is done already.
  bool Skip(int at);
  bool Fail(int at, OnFail on_fail);
  bool Loop(int from, int to);  // False: the edge closes no loop.

  std::vector<NaiveAnswer> Answers() const;
  bool HasCircle() const;

 private:
  struct Cell {
    bool skipped = false;
    double steps = 0;
    double start = 0;
    double finish = 0;
    double conf = 1;
    double p = 0;
    friend bool operator==(const Cell&, const Cell&) = default;
  };
  struct Both {
    std::vector<Cell> now;
    std::vector<Cell> next;
  };
  using Matrix = std::vector<std::vector<bool>>;

  Matrix Reach() const;
  std::vector<int> Body(const Matrix& reach, const NaiveEdge& back) const;
  double Chance(const NaiveEdge& edge, bool decided) const;
  bool Looped(const Matrix& reach, int at) const;
  bool VisitsLeft(int at, bool skipped) const;
  bool Inside(const Matrix& reach, const NaiveEdge& edge) const;
  std::vector<int> HeadsAround(const Matrix& reach, int at) const;
  Both Solve() const;
  StepState StateIn(const Both& both, int at) const;
  void AssumeBefore(const Both& both, int at);
  void LoopBody(const NaiveEdge& back);
};

}  // namespace spillway::testing
