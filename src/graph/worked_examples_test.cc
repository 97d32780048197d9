// SPDX-License-Identifier: Apache-2.0
// The worked examples of the definition that concern the graph, with their numbers.
#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/testing/one_run.h"
#include "spillway/step_graph.h"

namespace spillway {
namespace {

using testing::At;
using testing::kNever;
using testing::OneRun;
using Names = std::vector<std::string>;

TEST(WorkedExample, N01ChainCountsDownAndWhatIsDoneNeverComesBack) {
  OneRun r;
  r.Chain("A>B>C>D");
  r.Start("A");
  EXPECT_EQ(r.Steps("A"), 0U);
  EXPECT_EQ(r.Steps("B"), 1U);
  EXPECT_EQ(r.Steps("C"), 2U);
  EXPECT_EQ(r.Steps("D"), 3U);
  r.Finish("A");
  r.Start("B");
  EXPECT_EQ(r.Steps("A"), kNever);
  EXPECT_EQ(r.Steps("B"), 0U);
  EXPECT_EQ(r.Steps("C"), 1U);
  EXPECT_EQ(r.Steps("D"), 2U);
  r.Finish("B");
  EXPECT_EQ(r.Steps("C"), 0U);
  EXPECT_EQ(r.State("C"), StepState::kReady);
  EXPECT_EQ(r.Steps("D"), 1U);
  EXPECT_EQ(r.Steps("A"), kNever);
  EXPECT_EQ(r.Steps("B"), kNever);
}

void BuildTwo(OneRun* r, Join join) {
  r->Add({"Y", "Y", join});
  r->Chain("P>E1>Y P>X>E2>Y");
  r->Start("P");
}

TEST(WorkedExample, N02AllWaitsForTheLastAnyForTheFirst) {
  for (const Join join : {Join::kAll, Join::kAny}) {
    OneRun r;
    BuildTwo(&r, join);
    EXPECT_EQ(r.Steps("E1"), 1U);
    EXPECT_EQ(r.Steps("X"), 1U);
    EXPECT_EQ(r.Steps("E2"), 2U);
    EXPECT_EQ(r.Steps("Y"), join == Join::kAll ? 3U : 2U);
    r.Finish("P");
    r.Do("E1");
    r.Start("X");
    EXPECT_EQ(r.Steps("E2"), 1U);
    EXPECT_EQ(r.Steps("Y"), join == Join::kAll ? 2U : 0U);
  }
}

void BuildLoop(OneRun* r, std::optional<std::uint32_t> max_visits) {
  StepSpec head{"Pl", "Pl"};
  head.max_visits = max_visits;
  r->Add(head);
  r->Chain("Pl>Ex>Xp>Rv");
  r->Back("Rv", "Pl");
}

TEST(WorkedExample, N03LoopBringsTheHeadBackAndTheFurthestLeavesFirst) {
  OneRun r;
  BuildLoop(&r, std::nullopt);
  for (const char* agent : {"Pl", "Ex", "Xp", "Rv"}) r.Bind(agent, fmt::format("key:{}", agent));
  r.Do("Pl");
  r.Start("Ex");
  EXPECT_EQ(r.Steps("Xp"), 1U);
  EXPECT_EQ(r.Steps("Rv"), 2U);
  EXPECT_EQ(r.Steps("Pl"), 3U);
  EXPECT_EQ(r.Order(), (Names{"key:Pl", "key:Rv", "key:Xp", "key:Ex"}));
  EXPECT_EQ(r.graph().get_eviction_priority_order("", r.now), (Names{"Pl", "Rv", "Xp", "Ex"}));
  EXPECT_EQ(r.graph().compute_steps_to_execution("", "Pl", r.now), 3U);
}

TEST(WorkedExample, N03WithoutVisitsLeftTheHeadNeverComes) {
  OneRun r;
  BuildLoop(&r, 1);
  r.Do("Pl");
  r.Start("Ex");
  EXPECT_EQ(r.Steps("Pl"), kNever);
  EXPECT_EQ(r.Steps("Rv"), 2U);
}

TEST(WorkedExample, N04ExitAndHeadAreBothNextAndBothPrefetched) {
  OneRun r;
  BuildLoop(&r, std::nullopt);
  r.Chain("Rv>End");
  for (const char* agent : {"Pl", "Ex", "Xp", "Rv", "End"}) r.Bind(agent, agent);
  for (const char* step : {"Pl", "Ex", "Xp"}) r.Do(step);
  r.Start("Rv");
  EXPECT_EQ(r.Steps("End"), 1U);
  EXPECT_EQ(r.Steps("Pl"), 1U);
  EXPECT_EQ(r.Steps("Ex"), 2U);
  EXPECT_EQ(r.Steps("Xp"), 3U);
  Names keys;
  for (const PrefetchCandidate& each : r.graph().prefetch_candidates({}, r.now)) {
    keys.push_back(each.key);
  }
  EXPECT_EQ(keys, (Names{"End", "Pl"}));
}

TEST(WorkedExample, N05SkippedBranchesAreIgnoredUntilAllAre) {
  for (const Join join : {Join::kAll, Join::kAny}) {
    OneRun r;
    r.Add({"D", "D", join});
    r.Chain("A>B>D A>C>D");
    r.Do("A");
    r.Skip("B");
    r.Start("C");
    EXPECT_EQ(r.Steps("D"), 1U);
    r.Skip("C");
    EXPECT_EQ(r.State("D"), StepState::kSkipped);
    EXPECT_EQ(r.Steps("D"), kNever);
  }
}

TEST(WorkedExample, N06KOfWaitsForTheKth) {
  for (const std::uint32_t k : {2U, 3U}) {
    OneRun r;
    r.Add({"J", "J", Join::kKOf, k});
    r.Chain("R>w1>J R>w2>J R>X>w3>J");
    r.Do("R");
    r.Start("X");  // w1 and w2 could start; they start one step later.
    r.Start("w1");
    r.Start("w2");
    EXPECT_EQ(r.Steps("w3"), 1U);
    EXPECT_EQ(r.Steps("J"), k == 2 ? 1U : 2U);
  }
  for (const std::uint32_t k : {2U, 3U}) {  // As in the definition: w1, w2 at 1 and w3 at 2.
    OneRun r;
    r.Add({"J", "J", Join::kKOf, k});
    r.Chain("R>w1>J R>w2>J R>X>w3>J");
    r.Start("R");
    EXPECT_EQ(r.Steps("w1"), 1U);
    EXPECT_EQ(r.Steps("w2"), 1U);
    EXPECT_EQ(r.Steps("w3"), 2U);
    EXPECT_EQ(r.Steps("J"), k);
  }
}

TEST(WorkedExample, N07ForwardCycleNeverComesUnlessAnyBreaksIt) {
  OneRun all;
  all.Chain("A>B>C>B");
  all.Start("A");
  EXPECT_EQ(all.Steps("B"), kNever);
  EXPECT_EQ(all.Steps("C"), kNever);
  const auto found = all.graph().Validate("r");
  ASSERT_TRUE(found);
  ASSERT_FALSE(found->empty());
  EXPECT_EQ(found->front().what, Finding::What::kForwardCycle);
  EXPECT_EQ(found->front().steps, (Names{"B", "C"}));

  OneRun any;
  any.Add({"B", "B", Join::kAny});
  any.Chain("A>B>C>B");
  any.Start("A");
  EXPECT_EQ(any.Steps("B"), 1U);
  EXPECT_EQ(any.Steps("C"), 2U);
  EXPECT_EQ(any.graph().Validate("r")->front().what, Finding::What::kForwardCycle);
}

TEST(WorkedExample, N08NothingRunningRootsAreReadyAndAnEmptyGraphKnowsNothing) {
  OneRun r;
  r.Chain("A>B");
  EXPECT_EQ(r.Steps("A"), 0U);
  EXPECT_EQ(r.Steps("B"), 1U);

  const StepGraph empty;
  EXPECT_FALSE(empty.attached());
  EXPECT_EQ(empty.compute_steps_to_execution("", "A", At(0)), kNever);
  EXPECT_FALSE(empty.Facts("k", At(0)).known);
  EXPECT_FALSE(empty.Facts("k", At(0)).retired);
  EXPECT_EQ(empty.Facts("k", At(0)).steps, kNever);
  EXPECT_TRUE(empty.eviction_order(10, At(0)).empty());
  EXPECT_TRUE(empty.prefetch_candidates({}, At(0)).empty());
}

TEST(WorkedExample, N09SharedPrefixTakesTheLeastOfItsUsers) {
  OneRun r;
  r.Chain("z>b>y>a");
  r.Start("z");
  r.Bind("a", "tail:a");
  r.Bind("b", "tail:b");
  ASSERT_TRUE(r.graph().Link("tail:a", "S"));
  ASSERT_TRUE(r.graph().Link("tail:b", "S"));
  EXPECT_EQ(r.Key("tail:a").steps, 3U);
  EXPECT_EQ(r.Key("tail:b").steps, 1U);
  EXPECT_EQ(r.Key("S").steps, 1U);
  EXPECT_EQ(r.Order(), (Names{"tail:a", "tail:b", "S"}));
}

TEST(WorkedExample, N09SharedKeyIsRetiredWhenTheLastRunEnds) {
  StepGraph graph;
  OneRun one("one", {"x"}, &graph);
  OneRun two("two", {"y"}, &graph);
  for (OneRun* r : {&one, &two}) {
    r->Chain("A>B");
    r->Bind("B", "S");
    r->Start("A");
  }
  one.End();
  EXPECT_FALSE(one.Key("S").retired);
  EXPECT_EQ(one.Key("S").steps, 1U);
  two.End(RunState::kFailed);
  EXPECT_TRUE(one.Key("S").retired);
  EXPECT_EQ(one.Key("S").steps, kNever);
  EXPECT_EQ(one.Order(), (Names{"S"}));
}

TEST(WorkedExample, N10SameNameOfTwoClientsIsTwoAgents) {
  StepGraph graph;
  OneRun x("rx", {"x"}, &graph);
  OneRun y("ry", {"y"}, &graph);
  for (OneRun* r : {&x, &y}) {
    r->Add({"p", "Planner"});
    r->Bind("Planner", r->run() + ":key");
    r->Start("p");
  }
  x.Finish("p");
  EXPECT_TRUE(x.Key("rx:key").retired);
  EXPECT_FALSE(x.Key("ry:key").retired);
  EXPECT_TRUE(x.Key("ry:key").running);
  EXPECT_EQ(graph.compute_steps_to_execution("x", "Planner", x.now), kNever);
  EXPECT_EQ(graph.compute_steps_to_execution("y", "Planner", x.now), 0U);
  x.End();
  EXPECT_TRUE(x.Key("ry:key").running);
}

// A cache of `room` contexts that evicts by `order`. Returns its hit ratio after the first round.
template <typename Victim, typename Ahead>
double Cyclic(int agents, std::size_t room, int rounds, Victim victim, Ahead ahead, OneRun* r) {
  std::set<std::string> held;
  std::deque<std::string> by_use;
  const auto use = [&](const std::string& key) {
    std::erase(by_use, key);
    by_use.push_back(key);
    held.insert(key);
  };
  const auto make_room = [&](const std::string& key) {
    while (held.size() >= room && !held.contains(key)) {
      const std::string leaves = victim(held, by_use);
      held.erase(leaves);
      std::erase(by_use, leaves);
    }
  };
  int hits = 0;
  int asked = 0;
  for (int i = 0; i < agents * rounds; ++i) {
    const std::string key = fmt::format("a{}", i % agents);
    r->Start(key);
    if (i >= agents) {
      ++asked;
      hits += held.contains(key) ? 1 : 0;
    }
    make_room(key);
    use(key);
    ahead(&held, make_room, use);
    r->Finish(key);
  }
  return static_cast<double>(hits) / asked;
}

void BuildCircle(OneRun* r, int agents) {
  for (int i = 0; i < agents; ++i) {
    const std::string id = fmt::format("a{}", i);
    r->Add({id, id});
    if (i > 0) r->Edge(fmt::format("a{}", i - 1), id);
    r->Bind(id, id);
  }
  r->Back(fmt::format("a{}", agents - 1), "a0");
}

TEST(WorkedExample, N11CyclicWorkflowHitsAsOftenAsTheOptimum) {
  const auto nothing = [](auto*, auto&, auto&) {};
  OneRun graph;
  BuildCircle(&graph, 10);
  const auto by_graph = [&](const std::set<std::string>& held, const auto&) {
    for (const std::string& key : graph.Order()) {
      if (held.contains(key)) return key;
    }
    return std::string();
  };
  EXPECT_NEAR(Cyclic(10, 6, 2000, by_graph, nothing, &graph), 5.0 / 9, 0.001);

  OneRun lru;
  BuildCircle(&lru, 10);
  const auto by_use = [](const auto&, const auto& used) { return used.front(); };
  EXPECT_EQ(Cyclic(10, 6, 50, by_use, nothing, &lru), 0);

  OneRun ahead;
  BuildCircle(&ahead, 10);
  const auto order = [&](const std::set<std::string>& held, const auto&) {
    for (const std::string& key : ahead.Order()) {
      if (held.contains(key)) return key;
    }
    return std::string();
  };
  const auto prefetch = [&](auto*, auto& make_room, auto& use) {
    for (const PrefetchCandidate& each : ahead.graph().prefetch_candidates({}, ahead.now)) {
      make_room(each.key);
      use(each.key);
    }
  };
  EXPECT_EQ(Cyclic(10, 6, 200, order, prefetch, &ahead), 1);
}

TEST(WorkedExample, N12GraphFactsOfTheScoreAreRateOneEleventh) {
  // The score belongs to the policy; the graph contributes p and eta: rate = p / (eta_s + 1).
  OneRun r;
  r.Chain("now");
  r.Add({"e1", "e1"});
  r.Add({"e2", "e2"});
  r.Edge({"now", "e1"});
  r.Edge(EdgeSpec{"now", "e2", EdgeKind::kForward, 0.2});
  r.Bind("e1", "e1");
  r.Bind("e2", "e2");
  r.Start("now");  // No duration is known: 10 s is assumed.
  const KeyFacts e1 = r.Key("e1");
  EXPECT_EQ(e1.steps, 1U);
  EXPECT_DOUBLE_EQ(e1.p / (e1.eta_ms / 1000 + 1), 1.0 / 11);
  EXPECT_DOUBLE_EQ(r.Key("e2").p, 0.2);
  EXPECT_EQ(r.Order(), (Names{"e2", "e1"}));
}

TEST(WorkedExample, N13OverdueIsBelievedLess) {
  OneRun r;
  StepSpec slow{"slow", "slow"};
  slow.est_ms = 10'000;
  r.Add(slow);
  r.Chain("slow>next");
  r.Start("slow");
  r.now += std::chrono::seconds(10);
  EXPECT_DOUBLE_EQ(r.Of("slow").conf, 1);
  r.now += std::chrono::seconds(20);
  EXPECT_DOUBLE_EQ(r.Of("slow").conf, 0.25);
  EXPECT_DOUBLE_EQ(r.Of("next").conf, 0.25);
  EXPECT_DOUBLE_EQ(r.Of("next").eta_ms, 3000);  // A tenth of the time it took so far.
}

TEST(WorkedExample, N14BranchesComeWithTheirProbabilities) {
  OneRun r;
  r.Chain("ledger");
  r.Add({"coder", "coder"});
  r.Add({"tool", "tool"});
  r.Edge({"ledger", "ledger", EdgeKind::kBack, 0.60, "next"});
  r.Edge({"ledger", "coder", EdgeKind::kForward, 0.29, "next"});
  r.Edge({"ledger", "tool", EdgeKind::kForward, 0.11, "next"});
  for (const char* agent : {"ledger", "coder", "tool"}) r.Bind(agent, agent);
  r.Start("ledger");
  EXPECT_DOUBLE_EQ(r.Of("coder").p, 0.29);
  EXPECT_DOUBLE_EQ(r.Of("tool").p, 0.11);
  EXPECT_TRUE(r.graph().Validate("r")->empty());
  PrefetchQuery likely;
  likely.p_min = 0.2;
  const auto wanted = r.graph().prefetch_candidates(likely, r.now);
  ASSERT_FALSE(wanted.empty());
  Names next;
  for (const PrefetchCandidate& each : wanted) {
    next.push_back(each.key);
  }
  EXPECT_EQ(next, (Names{"coder"}));  // The tool is too improbable,
  next.clear();
  for (const PrefetchCandidate& each : r.graph().prefetch_candidates({}, r.now)) {
    next.push_back(each.key);
  }
  EXPECT_EQ(next, (Names{"coder", "tool"}));  // unless there is room for all.
  r.Finish("ledger", {"ledger"});
  EXPECT_EQ(r.Steps("ledger"), 0U);  // Again.
  EXPECT_EQ(r.State("coder"), StepState::kSkipped);
  r.Loop("ledger", "ledger");
  EXPECT_EQ(r.State("ledger"), StepState::kReady);
  EXPECT_EQ(r.Steps("coder"), 1U);
}

TEST(WorkedExample, N16WrongHintIsAcceptedAndCounted) {
  OneRun r;
  r.Chain("A>B>C>D");
  r.Start("A");
  r.Start("D");
  for (const char* step : {"A", "B", "C"}) EXPECT_EQ(r.State(step), StepState::kDone) << step;
  EXPECT_EQ(r.State("D"), StepState::kRunning);
  EXPECT_EQ(r.graph().stats().mispredictions, 1U);
}

}  // namespace
}  // namespace spillway
