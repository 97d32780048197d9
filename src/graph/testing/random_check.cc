// SPDX-License-Identifier: Apache-2.0
#include "graph/testing/random_check.h"

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "graph/testing/naive_graph.h"
#include "spillway/step_graph.h"

namespace spillway::testing {
namespace {

class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed) {}

  RandomCheck Run() {
    Tell(graph_.BeginRun("r", {}, now()));
    circles_ = Chance(0.2);
    loops_ = Chance(0.6);
    const int steps = 1 + Pick(10);
    for (int i = 0; i < steps; ++i) AddStep();
    const int edges = Pick(2 * steps + 1);
    for (int i = 0; i < edges; ++i) AddEdge();
    Compare("built");
    const int events = 5 + Pick(20);
    for (int i = 0; i < events && check_.wrong.empty(); ++i) Happen();
    return check_;
  }

 private:
  int Pick(int n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool Chance(double p) { return static_cast<double>(random_() % 1'000'000) < p * 1'000'000; }
  static std::string Id(int at) { return fmt::format("s{}", at); }
  TimePoint now() const {
    return TimePoint(Duration(static_cast<std::int64_t>(naive_.now_ms) * 1'000'000));
  }
  int AnyStep() { return Pick(static_cast<int>(naive_.steps.size())); }

  void Tell(const Status& status, bool expected = true) {
    if (status.has_value() == expected || !check_.wrong.empty()) return;
    check_.wrong = status ? "was accepted, and should not have been" : status.error().message;
  }

  void AddStep() {
    NaiveStep step;
    const int kind = Pick(5);
    step.join = kind < 2 ? Join::kAll : kind < 4 ? Join::kAny : Join::kKOf;
    step.k = step.join == Join::kKOf ? 1 + Pick(3) : 0;
    step.est_ms = 1 + Pick(20'000);
    step.max_visits = Chance(0.3) ? 1 + Pick(3) : 0;
    StepSpec spec;
    spec.id = Id(static_cast<int>(naive_.steps.size()));
    spec.join = step.join;
    spec.k = static_cast<std::uint32_t>(step.k);
    spec.est_ms = step.est_ms;
    if (step.max_visits != 0) spec.max_visits = static_cast<std::uint32_t>(step.max_visits);
    naive_.steps.push_back(step);
    Tell(graph_.AddStep("r", spec, now()));
  }

  void AddEdge() {
    NaiveEdge edge;
    edge.from = AnyStep();
    edge.to = AnyStep();
    edge.back = loops_ && Chance(0.25);
    const bool onward = edge.from < edge.to;
    if (edge.back ? onward && Chance(0.8) : !onward && !circles_) std::swap(edge.from, edge.to);
    if (!edge.back && !circles_ && edge.from == edge.to) return;
    for (const NaiveEdge& other : naive_.edges) {
      if (other.from == edge.from && other.to == edge.to && other.back == edge.back) return;
    }
    if (Chance(0.4)) edge.prob = (1 + Pick(100)) / 100.0;
    if (Chance(0.5)) edge.choice = Chance(0.7) ? "c" : "d";
    naive_.edges.push_back(edge);
    Tell(graph_.AddEdge("r",
                        {Id(edge.from), Id(edge.to),
                         edge.back ? EdgeKind::kBack : EdgeKind::kForward, edge.prob, edge.choice},
                        now()));
  }

  void Happen() {
    if (Chance(0.5)) naive_.now_ms += Pick(15'000);
    const int at = Likely();
    const int what = Pick(20);
    std::string said;
    if (what < 8) {
      said = "start " + Id(at);
      naive_.Start(at);
      Tell(graph_.Start("r", Id(at), now()));
    } else if (what < 14) {
      said = Finish(at);
    } else if (what < 15) {
      said = "skip " + Id(at);
      Tell(graph_.Skip("r", Id(at), now()), naive_.Skip(at));
    } else if (what < 17) {
      const auto on_fail = static_cast<OnFail>(Pick(3));
      said = fmt::format("fail {} {}", Id(at), Name(on_fail));
      Tell(graph_.Fail("r", Id(at), on_fail, now()), naive_.Fail(at, on_fail));
    } else if (what < 19) {
      said = Loop();
    } else {
      said = "grow";
      if (naive_.steps.size() < 14 && Chance(0.5)) AddStep();
      AddEdge();
    }
    Compare(said);
  }

  // Mostly calls that are allowed, sometimes calls that are not.
  int Likely() {
    if (Chance(0.15)) return AnyStep();
    const std::vector<NaiveAnswer> answers = naive_.Answers();
    std::vector<int> near;
    for (int i = 0; i < static_cast<int>(answers.size()); ++i) {
      if (answers[static_cast<std::size_t>(i)].steps == 0) near.push_back(i);
    }
    return near.empty() ? AnyStep()
                        : near[static_cast<std::size_t>(Pick(static_cast<int>(near.size())))];
  }

  std::string Finish(int at) {
    std::optional<std::vector<int>> taken;
    std::optional<std::vector<std::string>> names;
    if (Chance(0.6)) {
      taken.emplace();
      names.emplace();
      for (const NaiveEdge& edge : naive_.edges) {
        if (edge.from != at || !Chance(0.5)) continue;
        taken->push_back(edge.to);
        names->push_back(Id(edge.to));
      }
    }
    const bool expected = naive_.Finish(at, taken);
    Tell(graph_.Finish("r", Id(at), names, now()), expected);
    return "finish " + Id(at);
  }

  std::string Loop() {
    std::vector<NaiveEdge> backs;
    for (const NaiveEdge& edge : naive_.edges) {
      if (edge.back) backs.push_back(edge);
    }
    if (backs.empty()) return "no loop";
    const NaiveEdge& edge = backs[static_cast<std::size_t>(Pick(static_cast<int>(backs.size())))];
    const bool expected = naive_.Loop(edge.from, edge.to);
    Tell(graph_.Loop("r", Id(edge.from), Id(edge.to), now()), expected);
    return fmt::format("loop {} {}", Id(edge.from), Id(edge.to));
  }

  static std::string Show(std::optional<int> steps) {
    return steps ? std::to_string(*steps) : "never";
  }

  void Compare(const std::string& after) {
    if (!check_.wrong.empty()) {
      check_.wrong = after + ": " + check_.wrong;
      return;
    }
    const std::vector<NaiveAnswer> answers = naive_.Answers();
    const bool circle = naive_.HasCircle();
    const auto facts = graph_.Steps("r", now());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const NaiveAnswer& want = answers[i];
      const StepFacts& got = (*facts)[i];
      const std::optional<int> steps =
          got.steps ? std::optional(static_cast<int>(*got.steps)) : std::nullopt;
      const auto near = [](double a, double b) {
        return a == b || std::abs(a - b) <= 1e-6 * (1 + std::abs(b));
      };
      ++check_.comparisons;
      const bool same = want.state == got.state && want.steps == steps &&
                        near(got.eta_ms, want.eta_ms) && near(got.p, want.p) &&
                        (circle || near(got.conf, want.conf));
      const bool holds = (got.state != StepState::kReady || steps == 0) && got.p >= 0 &&
                         got.p <= 1 && got.conf >= 0 && got.conf <= 1;
      if (same && holds) continue;
      check_.wrong = fmt::format(
          "after '{}': step {}: state {} steps {} eta {} p {} conf {}, should be {} {} {} {} {}",
          after, got.id, Name(got.state), Show(steps), got.eta_ms, got.p, got.conf,
          Name(want.state), Show(want.steps), want.eta_ms, want.p, want.conf);
      return;
    }
    if (graph_.stats().mispredictions != static_cast<std::uint64_t>(naive_.mispredictions)) {
      check_.wrong = fmt::format("after '{}': {} mispredictions, should be {}", after,
                                 graph_.stats().mispredictions, naive_.mispredictions);
    }
  }

  std::mt19937_64 random_;
  StepGraph graph_;
  NaiveGraph naive_;
  bool circles_ = false;
  bool loops_ = false;
  RandomCheck check_;
};

}  // namespace

RandomCheck CheckRandomGraph(std::uint64_t seed) { return Life(seed).Run(); }

}  // namespace spillway::testing
