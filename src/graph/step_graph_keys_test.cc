// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/one_run.h"
#include "graph/testing/refused.h"
#include "spillway/step_graph.h"

namespace spillway {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kNever;
using testing::OneRun;
using ::testing::UnorderedElementsAre;
using Names = std::vector<std::string>;

// --- time and probability ---

TEST(StepGraphTime, EtaAddsUpWhatRemains) {
  OneRun r;
  for (const auto& [id, ms] : {std::pair("a", 4000.0), {"b", 2000.0}, {"c", 1000.0}}) {
    StepSpec step{id, id};
    step.est_ms = ms;
    r.Add(step);
  }
  r.Chain("a>b>c a>d c>d");
  r.Start("a");
  EXPECT_DOUBLE_EQ(r.Of("d").eta_ms, 7000);
  r.now += seconds(3);
  EXPECT_DOUBLE_EQ(r.Of("b").eta_ms, 1000);
  EXPECT_DOUBLE_EQ(r.Of("d").eta_ms, 4000);
  r.now += seconds(17);  // Overdue: a tenth of 20 s.
  EXPECT_DOUBLE_EQ(r.Of("b").eta_ms, 2000);
  EXPECT_DOUBLE_EQ(r.Of("b").conf, std::exp2(1 - 5.0));
  r.Finish("a");
  EXPECT_DOUBLE_EQ(r.Of("b").eta_ms, 0);
  EXPECT_DOUBLE_EQ(r.Of("b").conf, 1);
}

TEST(StepGraphTime, DurationsAreLearntByAgentThenByRun) {
  StepGraph graph;
  OneRun r("r", {}, &graph);
  r.Add({"a1", "worker"});
  r.Add({"a2", "worker"});
  r.Add({"b", "other"});
  r.Chain("a1>a2>b>c");
  EXPECT_DOUBLE_EQ(r.Of("a2").eta_ms, 10'000);  // Nothing is known.
  r.Start("a1");
  r.now += seconds(3);
  r.Finish("a1");
  EXPECT_DOUBLE_EQ(r.Of("b").eta_ms, 3000);  // From the agent's earlier steps.
  EXPECT_DOUBLE_EQ(r.Of("c").eta_ms, 6000);  // From the run's other steps.
  OneRun other("other", {}, &graph);
  other.now = r.now;
  other.Add({"x", "worker"});
  other.Chain("x>y");
  EXPECT_DOUBLE_EQ(other.Of("y").eta_ms, 3000);
  OneRun foreign("foreign", {"somebody else"}, &graph);
  foreign.now = r.now;
  foreign.Add({"x", "worker"});
  foreign.Chain("x>y");
  EXPECT_DOUBLE_EQ(foreign.Of("y").eta_ms, 10'000);
}

TEST(StepGraphTime, BranchesAreLearntAcrossRunsOfAWorkflow) {
  StepGraph graph;
  const auto run = [&](const std::string& name, const std::string& workflow) {
    OneRun r(name, {"", workflow}, &graph);
    r.Chain("a b c");
    r.Edge({"a", "b", EdgeKind::kForward, {}, "x"});
    r.Edge({"a", "c", EdgeKind::kForward, {}, "x"});
    r.Start("a");
    const double p = r.Of("b").p;
    r.Finish("a", {"b"});
    r.End();
    return p;
  };
  EXPECT_DOUBLE_EQ(run("1", "w"), 1.0 / 2);
  EXPECT_DOUBLE_EQ(run("2", "w"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(run("3", "w"), 3.0 / 4);
  EXPECT_DOUBLE_EQ(run("4", "v"), 1.0 / 2);  // Another workflow.
  EXPECT_DOUBLE_EQ(run("5", ""), 1.0 / 2);   // No workflow name.
  EXPECT_DOUBLE_EQ(run("6", ""), 1.0 / 2);
}

TEST(StepGraphTime, LiveRunsSeeWhatOthersTeach) {
  StepGraph graph;
  OneRun waits("waits", {}, &graph);
  waits.Add({"x", "worker"});
  waits.Chain("x>y");
  waits.Bind("y", "key");
  EXPECT_DOUBLE_EQ(waits.Key("key").eta_ms, 10'000);
  OneRun teaches("teaches", {}, &graph);
  teaches.Add({"x", "worker"});
  teaches.Start("x");
  teaches.now += milliseconds(50);
  teaches.Finish("x");
  waits.now = teaches.now;
  EXPECT_DOUBLE_EQ(waits.Key("key").eta_ms, 50);
}

// --- keys ---

TEST(StepGraphKeys, VolatileKeysRetireWithTheirStep) {
  OneRun r;
  r.Chain("a>b");
  r.Back("b", "a");
  r.Bind("a", "fixed");
  r.Bind("a", "history", KeyKind::kHistory);
  r.Bind("a", "scratch", KeyKind::kVolatile);
  r.Start("a");
  EXPECT_TRUE(r.Key("scratch").running);
  r.Finish("a");
  EXPECT_TRUE(r.Key("scratch").retired);
  EXPECT_EQ(r.Key("fixed").steps, 1U);
  EXPECT_EQ(r.Key("history").steps, 1U);
  EXPECT_EQ(r.Order().front(), "scratch");
  r.Bind("a", "scratch", KeyKind::kVolatile);  // Made again.
  EXPECT_FALSE(r.Key("scratch").retired);
}

TEST(StepGraphKeys, VolatileKeysStayWhileTheAgentRunsElsewhere) {
  OneRun r;
  r.Add({"a1", "a"});
  r.Add({"a2", "a"});
  r.Bind("a", "scratch", KeyKind::kVolatile);
  r.Start("a1");
  r.Start("a2");
  r.Finish("a1");
  EXPECT_FALSE(r.Key("scratch").retired);
  r.Skip("a2");
  EXPECT_TRUE(r.Key("scratch").retired);
}

TEST(StepGraphKeys, BindingsOfAClientEndWithTheLastRunThatNamedThem) {
  StepGraph graph;
  OneRun one("one", {"c"}, &graph);
  OneRun two("two", {"c"}, &graph);
  for (OneRun* r : {&one, &two}) r->Chain("z>a");
  one.Bind("a", "k");
  one.Bind("a", "k");  // Bound twice, held once.
  two.Bind("a", "k");
  one.End();
  EXPECT_EQ(two.Key("k").steps, 1U);
  two.End();
  EXPECT_TRUE(two.Key("k").retired);
}

TEST(StepGraphKeys, DeepChainsAreWantedFromTheRootOn) {
  OneRun r;
  r.Chain("z>a");
  constexpr int kDepth = 20'000;
  for (int i = kDepth; i > 0; --i) {
    ASSERT_TRUE(r.graph().Link(fmt::format("b{}", i), fmt::format("b{}", i - 1)));
  }
  r.Bind("a", fmt::format("b{}", kDepth));
  EXPECT_EQ(r.Key("b0").steps, 1U);
  EXPECT_EQ(r.graph().eviction_order(1, r.now), (Names{fmt::format("b{}", kDepth)}));
  PrefetchQuery query;
  query.most = 2;
  EXPECT_EQ(r.graph().prefetch_candidates(query, r.now).at(0).key, "b0");
  EXPECT_REFUSED(r.graph().Link("b0", fmt::format("b{}", kDepth)), "can't continue");
}

TEST(StepGraphKeys, MovingAKeyMovesItsWanters) {
  OneRun r;
  r.Chain("a>b");
  r.Bind("b", "tail");
  ASSERT_TRUE(r.graph().Link("tail", "old"));
  ASSERT_TRUE(r.graph().Link("old", "root"));
  EXPECT_EQ(r.Key("root").steps, 1U);
  ASSERT_TRUE(r.graph().Link("tail", "new"));
  EXPECT_TRUE(r.Key("old").retired);
  EXPECT_TRUE(r.Key("root").retired);
  EXPECT_EQ(r.Key("new").steps, 1U);
}

TEST(StepGraphKeys, ForgottenKeysAreUnknownUnlessWanted) {
  OneRun r;
  r.Chain("a>b");
  r.Bind("b", "tail");
  ASSERT_TRUE(r.graph().Link("tail", "root"));
  r.graph().Forget("tail");
  EXPECT_TRUE(r.Key("tail").known);
  r.End();
  EXPECT_TRUE(r.Key("root").retired);
  r.graph().Forget("root");  // It has a child, so it stays until the child is gone.
  EXPECT_FALSE(r.Key("root").known);
  EXPECT_TRUE(r.Key("tail").retired);
  r.graph().Forget("tail");
  EXPECT_EQ(r.graph().stats().keys, 0U);
}

TEST(StepGraphKeys, ChangesAreListedOnceAndOnlyWhenSomethingChanged) {
  OneRun r;
  r.Chain("a>b>c lone");
  for (const char* agent : {"a", "b", "c", "lone"}) r.Bind(agent, agent);
  StepGraph& graph = r.graph();
  Changes changes = graph.ChangedSince(0, r.now);
  EXPECT_THAT(changes.keys, UnorderedElementsAre("a", "b", "c", "lone"));
  changes = graph.ChangedSince(changes.version, r.now);
  EXPECT_THAT(changes.keys, ElementsAre());
  ASSERT_TRUE(graph.Start("r", "a", r.now));
  EXPECT_GT(graph.version(), changes.version);
  changes = graph.ChangedSince(changes.version, r.now);
  EXPECT_THAT(changes.keys, ElementsAre("a"));
  EXPECT_EQ(r.Key("a").version, changes.version);
  r.now += seconds(2);  // As predicted: 8 s remain of 10.
  EXPECT_THAT(graph.ChangedSince(changes.version, r.now).keys, ElementsAre());
  EXPECT_DOUBLE_EQ(r.Key("b").eta_ms, 8000);
  EXPECT_THAT(graph.ChangedSince(changes.version, r.now).keys, UnorderedElementsAre());
  r.now += seconds(20);  // Overdue.
  EXPECT_THAT(graph.ChangedSince(changes.version, r.now).keys, UnorderedElementsAre("a", "b", "c"));
  changes = graph.ChangedSince(0, r.now);
  ASSERT_TRUE(graph.Finish("r", "a", r.now));
  EXPECT_THAT(graph.ChangedSince(changes.version, r.now).keys, UnorderedElementsAre("a", "b", "c"));
}

TEST(StepGraphKeys, AdviceWorksWithoutAGraphAndDecays) {
  StepGraph graph;
  ASSERT_TRUE(graph.Advise("k", seconds(20), 0.5, At(0)));
  KeyFacts facts = graph.Facts("k", At(5));
  EXPECT_TRUE(facts.known);
  EXPECT_EQ(facts.steps, kNever);
  EXPECT_DOUBLE_EQ(facts.eta_ms, 15'000);
  EXPECT_DOUBLE_EQ(facts.p, 0.5);
  EXPECT_EQ(graph.Explain("k", At(5))->advised, true);
  facts = graph.Facts("k", At(60));
  EXPECT_DOUBLE_EQ(facts.eta_ms, 0);
  EXPECT_DOUBLE_EQ(facts.conf, 0.25);
  facts = graph.Facts("k", At(200));  // The advice is too old to count,
  EXPECT_FALSE(facts.known);          // and the key ranks no worse than unknown ones.
  EXPECT_FALSE(facts.retired);
  ASSERT_TRUE(graph.Advise("k", seconds(0), 0, At(201)));
  EXPECT_TRUE(graph.Facts("k", At(201)).retired);
  ASSERT_TRUE(graph.Advise("k", seconds(1), 1, At(202)));
  EXPECT_FALSE(graph.Facts("k", At(202)).retired);
}

TEST(StepGraphKeys, AdviceReachesParentsAndYieldsToTheGraphThatComesSooner) {
  OneRun r;
  r.Chain("a>b");
  r.Bind("b", "tail");
  ASSERT_TRUE(r.graph().Link("tail", "root"));
  ASSERT_TRUE(r.graph().Advise("tail", seconds(500), 0.1, r.now));
  EXPECT_DOUBLE_EQ(r.Key("root").eta_ms, 10'000);
  EXPECT_DOUBLE_EQ(r.Key("root").p, 1);
  r.End();
  EXPECT_DOUBLE_EQ(r.Key("root").eta_ms, 500'000);
  EXPECT_FALSE(r.Key("root").retired);
}

TEST(StepGraphKeys, ExplainNamesTheStepsThatWantIt) {
  OneRun r;
  r.Chain("a>b>c");
  r.Bind("b", "k");
  r.Bind("c", "k");
  r.Start("a");
  const auto why = r.graph().Explain("k", r.now);
  ASSERT_TRUE(why);
  ASSERT_EQ(why->wants.size(), 2U);
  EXPECT_EQ(why->wants[0].step.id, "b");
  EXPECT_EQ(why->wants[1].step.id, "c");
  EXPECT_THAT(why->text, HasSubstr("soonest: step 'b' of agent 'b' in run 'r' (pending), in 1"));
  r.End();
  EXPECT_THAT(r.graph().Explain("k", r.now)->text, HasSubstr("retired"));
  EXPECT_FALSE(r.graph().Explain("unheard of", r.now));
}

TEST(StepGraphKeys, RunningSaysSinceWhen) {
  OneRun r;
  r.Add({"a1", "a"});
  r.Add({"a2", "a"});
  r.Bind("a", "k");
  r.Start("a1");
  const TimePoint first = r.now;
  EXPECT_EQ(r.Key("k").running_since, first);
  r.now += seconds(5);
  r.Start("a2");
  EXPECT_EQ(r.Key("k").running_since, r.now);
  r.Finish("a2");
  EXPECT_EQ(r.Key("k").running_since, first);
  EXPECT_TRUE(r.Key("k").running);
}

// --- keys that belong to agents ---

TEST(StepGraphKeys, WhatBelongsToAnAgentIsWantedWhenItIs) {
  StepGraph graph;
  ASSERT_TRUE(graph.Own("b", "k"));
  EXPECT_FALSE(graph.Facts("k", TimePoint()).retired);  // No agent ever needed it.
  OneRun r("r", {}, &graph);
  r.Chain("a>b");
  r.Start("a");
  EXPECT_EQ(r.Key("k").steps, 1U);
  r.Do("b");
  EXPECT_TRUE(r.Key("k").retired);
  r.End();
  EXPECT_TRUE(r.Key("k").retired);
  // For an agent without runs, another key is not counted as needed either.
  ASSERT_TRUE(graph.Own("b", "later"));
  EXPECT_FALSE(r.Key("later").retired);
}

TEST(StepGraphKeys, WhatIsDisownedIsWantedOnlyByWhoBoundIt) {
  StepGraph graph;
  OneRun r("r", {}, &graph);
  r.Chain("a>b");
  ASSERT_TRUE(graph.Own("b", "mine"));
  ASSERT_TRUE(graph.Own("b", "ours"));
  r.Bind("b", "ours");
  r.Start("a");
  graph.Disown("b", "mine");
  graph.Disown("b", "ours");
  EXPECT_TRUE(r.Key("mine").retired);
  EXPECT_EQ(r.Key("ours").steps, 1U);
  graph.Forget("mine");
  EXPECT_FALSE(r.Key("mine").known);
  EXPECT_FALSE(graph.Own("", "k"));
}

TEST(StepGraphKeys, ChangesAreVisitedWithTheirFacts) {
  OneRun r;
  r.Chain("a>b");
  r.Bind("a", "ka");
  r.Bind("b", "kb");
  const std::uint64_t told = r.graph().told();
  std::vector<std::string> seen;
  const auto visit = [&](std::string_view key, const KeyFacts& facts) {
    seen.push_back(std::string(key) + std::to_string(facts.steps.value_or(9)));
  };
  Pulse pulse = r.graph().VisitChanges(0, r.now, visit);
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_TRUE(pulse.attached);
  EXPECT_EQ(r.graph().told(), told);  // Queries are no input.
  seen.clear();
  r.Start("b");
  EXPECT_GT(r.graph().told(), told);
  pulse = r.graph().VisitChanges(pulse.version, r.now, visit);
  EXPECT_EQ(seen, (std::vector<std::string>{"ka9", "kb0"}));
  EXPECT_EQ(pulse.starts, 1U);
  EXPECT_EQ(pulse.mispredictions, 1U);
  r.End();
  EXPECT_FALSE(r.graph().VisitChanges(pulse.version, r.now, visit).attached);
}

}  // namespace
}  // namespace spillway
