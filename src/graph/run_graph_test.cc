// SPDX-License-Identifier: Apache-2.0
#include "graph/run_graph.h"

#include <random>

#include <gtest/gtest.h>

#include "graph/testing/one_run.h"

namespace spillway {
namespace {

using testing::At;

StepIndex Add(RunGraph* graph, Join join = Join::kAll) {
  RunStep step;
  step.join = join;
  step.k = join == Join::kKOf ? 2 : 0;
  step.est_ns = 1'000'000'000;
  return graph->AddStep(step);
}

void Join2(RunGraph* graph, StepIndex from, StepIndex to, EdgeKind kind = EdgeKind::kForward) {
  RunEdge edge;
  edge.from = from;
  edge.to = to;
  edge.kind = kind;
  graph->AddEdge(edge);
}

void Settle(RunGraph* graph, double seconds) {
  std::vector<StepIndex> changed;
  graph->Settle(At(seconds), &changed);
}

TEST(RunGraph, AMillionStepsInARowNeedNoStack) {
  constexpr StepIndex kSteps = 1'000'000;
  Estimates estimates;
  RunGraph graph(&estimates, At(0));
  for (StepIndex i = 0; i < kSteps; ++i) Add(&graph);
  // In the reverse of the order.
  for (StepIndex i = kSteps - 1; i > 0; --i) Join2(&graph, i, i - 1);
  Join2(&graph, 0, kSteps - 1, EdgeKind::kBack);
  Settle(&graph, 1);
  EXPECT_EQ(graph.value(0).steps, static_cast<std::int32_t>(kSteps) - 1);
  EXPECT_EQ(graph.BodyOf(*graph.FindEdge(0, kSteps - 1, EdgeKind::kBack)).size(), kSteps);
  EXPECT_FALSE(graph.Start(0, At(2)));  // Not ready: all steps before it count as done.
  Settle(&graph, 3);
  EXPECT_EQ(graph.value(1).steps, static_cast<std::int32_t>(kSteps) - 1);  // In the next visit.
}

TEST(RunGraph, AMillionStepsInACircleNeverStart) {
  constexpr StepIndex kSteps = 1'000'000;
  Estimates estimates;
  RunGraph graph(&estimates, At(0));
  for (StepIndex i = 0; i < kSteps; ++i) Add(&graph);
  for (StepIndex i = 0; i < kSteps; ++i) Join2(&graph, i, (i + 1) % kSteps);
  Settle(&graph, 1);
  EXPECT_FALSE(graph.value(0).comes());
  EXPECT_TRUE(graph.cycle(kSteps - 1));
}

TEST(RunGraph, AChangeIsCarriedOnOnlyAsFarAsItMakesADifference) {
  Estimates estimates;
  RunGraph graph(&estimates, At(0));
  // A hundred chains of a hundred steps: a change reaches only its own chain.
  for (StepIndex chain = 0; chain < 100; ++chain) {
    for (StepIndex i = 0; i < 100; ++i) {
      Add(&graph);
      if (i > 0) Join2(&graph, chain * 100 + i - 1, chain * 100 + i);
    }
  }
  Settle(&graph, 1);
  const std::uint64_t before = graph.evaluations();
  graph.Start(700, At(1));
  std::vector<StepIndex> changed;
  graph.Settle(At(1), &changed);
  EXPECT_LE(graph.evaluations() - before, 4U);  // Ready and running have the same distance.
  graph.Finish(700, std::nullopt, At(1));
  changed.clear();
  graph.Settle(At(1), &changed);
  EXPECT_LE(graph.evaluations() - before, 110U);
  for (const StepIndex at : changed) EXPECT_EQ(at / 100, 7U);
}

// Chains that join and split, with loops.
RunGraph Long(Estimates* estimates, StepIndex steps, std::mt19937_64* random) {
  RunGraph graph(estimates, At(0));
  for (StepIndex i = 0; i < steps; ++i) {
    Add(&graph, i % 7 == 3 ? Join::kAny : Join::kAll);
    if (i > 0) Join2(&graph, i - 1, i);
    if (i > 40 && (*random)() % 8 == 0)
      Join2(&graph, i - 2 - static_cast<StepIndex>((*random)() % 38), i);
  }
  Join2(&graph, steps - 1, 0, EdgeKind::kBack);
  return graph;
}

TEST(RunGraph, RoughlyIsExactNearbyAndNeverTooShort) {
  std::mt19937_64 random(5);
  Estimates estimates;
  constexpr StepIndex kSteps = 3000;
  RunGraph graph = Long(&estimates, kSteps, &random);
  Settle(&graph, 1);
  std::vector<StepIndex> changed;
  std::uint64_t looked = 0;
  bool any_rough = false;
  for (int event = 0; event < 1200; ++event) {
    const auto at = static_cast<StepIndex>(event / 2);
    const double now = 1 + event * 0.4;
    event % 2 == 0 ? (void)graph.Start(at, At(now)) : (void)graph.Finish(at, std::nullopt, At(now));
    const std::uint64_t before = graph.evaluations();
    graph.Settle(At(now), &changed, Far::kRoughly);
    looked += graph.evaluations() - before;
    if (event % 40 > 1) continue;
    RunGraph exact = graph;
    exact.Settle(At(now), &changed);
    EXPECT_FALSE(exact.rough());
    any_rough = any_rough || graph.rough();
    for (StepIndex step = 0; step < kSteps; ++step) {
      const Value& is = exact.value(step);
      const Value& says = graph.value(step);
      ASSERT_EQ(graph.state(step), exact.state(step));
      ASSERT_GE(says.steps, is.steps);
      ASSERT_LE(says.steps - is.steps, is.steps <= 64 ? 0 : says.steps / 8);
      ASSERT_LE(std::abs(says.start - is.start), is.steps <= 64 ? 0 : is.start / 7);
    }
    if (event % 400 == 0) graph.Settle(At(now), &changed);
  }
  EXPECT_TRUE(any_rough);
  EXPECT_LT(looked / 1200, 600U);  // Of 6,000.
}

TEST(RunGraph, RoughlyIsInOrderAlongAPath) {
  Estimates estimates;
  RunGraph graph(&estimates, At(0));
  constexpr StepIndex kSteps = 2000;
  for (StepIndex i = 0; i < kSteps; ++i) {
    Add(&graph);
    if (i > 0) Join2(&graph, i - 1, i);
  }
  std::vector<StepIndex> changed;
  for (StepIndex at = 0; at < 300; ++at) {
    graph.Settle(At(at), &changed, Far::kRoughly);
    graph.Start(at, At(at));
    graph.Settle(At(at), &changed, Far::kRoughly);
    graph.Finish(at, std::nullopt, At(at + 0.5));
    graph.Settle(At(at + 0.5), &changed, Far::kRoughly);
    for (StepIndex step = at + 2; step < kSteps; ++step) {
      ASSERT_LT(graph.value(step - 1).steps, graph.value(step).steps);
    }
  }
}

TEST(RunGraph, GrowingOnwardNeedsNoNewOrder) {
  Estimates estimates;
  RunGraph graph(&estimates, At(0));
  Add(&graph);
  for (StepIndex i = 1; i < 2000; ++i) {
    Add(&graph);
    Join2(&graph, i - 1, i);
    Settle(&graph, 1);
  }
  EXPECT_LE(graph.evaluations(), 8000U);
  EXPECT_EQ(graph.value(1999).steps, 1999);
}

// --- incremental and from scratch ---

class TwoWays {
 public:
  explicit TwoWays(std::uint64_t seed) : random_(seed), graph_(&estimates_, At(0)) {
    const int steps = 2 + Pick(30);
    for (int i = 0; i < steps; ++i) Add(&graph_, static_cast<Join>(Pick(3)));
    for (int i = 0; i < 2 * steps; ++i) AddEdge();
    Compare();
  }

  void Happen() {
    now_ += Pick(3);
    const auto at = static_cast<StepIndex>(Pick(static_cast<int>(graph_.steps().size())));
    std::vector<StepIndex> changed;
    graph_.Settle(At(now_), &changed);
    switch (Pick(8)) {
      case 0:
        graph_.Skip(at);
        break;
      case 1:
        graph_.Fail(at, static_cast<OnFail>(Pick(3)));
        break;
      case 2:
        Loop();
        break;
      case 3:
        AddEdge();
        break;
      case 4:
      case 5:
        graph_.Finish(at, Pick(2) == 0 ? std::nullopt : std::optional(std::vector<StepIndex>{}),
                      At(now_));
        break;
      default:
        graph_.Start(at, At(now_));
    }
    Compare();
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void AddEdge() {
    RunEdge edge;
    const int steps = static_cast<int>(graph_.steps().size());
    edge.from = static_cast<StepIndex>(Pick(steps));
    edge.to = static_cast<StepIndex>(Pick(steps));
    edge.kind = Pick(6) == 0 ? EdgeKind::kBack : EdgeKind::kForward;
    if (Pick(8) != 0 && (edge.kind == EdgeKind::kBack) == (edge.from < edge.to)) {
      std::swap(edge.from, edge.to);
    }
    if (Pick(2) == 0) edge.choice = static_cast<std::uint32_t>(Pick(2));
    if (!graph_.FindEdge(edge.from, edge.to, edge.kind)) graph_.AddEdge(edge);
  }

  void Loop() {
    for (EdgeIndex e = 0; e < graph_.edges().size(); ++e) {
      if (graph_.edges()[e].kind != EdgeKind::kBack || Pick(2) == 0) continue;
      graph_.Loop(e, graph_.BodyOf(e));
      return;
    }
  }

  void Compare() {
    std::vector<StepIndex> changed;
    graph_.Settle(At(now_), &changed);
    RunGraph again = graph_;
    again.Unsettle();
    again.Settle(At(now_), &changed);
    for (StepIndex at = 0; at < graph_.steps().size(); ++at) {
      ASSERT_EQ(graph_.state(at), again.state(at)) << "step " << at;
      ASSERT_EQ(graph_.value(at), again.value(at)) << "step " << at;
    }
  }

  std::mt19937_64 random_;
  Estimates estimates_;
  RunGraph graph_;
  double now_ = 0;
};

TEST(RunGraph, SettledStepByStepOrFromNothingIsTheSameToTheBit) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    TwoWays two(seed);
    for (int i = 0; i < 20; ++i) two.Happen();
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spillway
