// SPDX-License-Identifier: Apache-2.0
#include "spillway/step_graph.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/one_run.h"
#include "graph/testing/refused.h"

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
using Names = std::vector<std::string>;

// --- bad input ---

TEST(StepGraphBadInput, IsRefusedByNameAndChangesNothing) {
  OneRun r;
  r.Chain("plan>code");
  StepGraph& graph = r.graph();
  const StepGraphStats before = graph.stats();
  EXPECT_REFUSED(graph.Start("r", "plam", r.now),
                 "no step 'plam' in run 'r'; did you mean 'plan'?");
  EXPECT_REFUSED(graph.Start("q", "plan", r.now), "no run 'q'");
  EXPECT_REFUSED(graph.AddStep("r", {"plan", "x"}, r.now), "'plan' is in run 'r' already");
  EXPECT_REFUSED(graph.BeginRun("r", {}, r.now), "run 'r' is live already");
  EXPECT_REFUSED(graph.AddEdge("r", {"plan", "nowhere"}, r.now), "no step 'nowhere'");
  EXPECT_REFUSED(graph.AddEdge("r", {"plan", "code"}, r.now), "(forward) is in run 'r' already");
  for (const double prob : {0.0, -0.5, 1.5, std::nan("")}) {
    EXPECT_REFUSED(graph.AddEdge("r", {"code", "plan", EdgeKind::kBack, prob}, r.now), "prob is");
  }
  StepSpec step{"x", "x"};
  EXPECT_REFUSED(graph.AddStep("r", {"", "x"}, r.now), "must have 1 to 1024");
  step.max_visits = 0;
  EXPECT_REFUSED(graph.AddStep("r", step, r.now), "max_visits is 0");
  EXPECT_REFUSED(graph.AddStep("r", {"x", "x", Join::kKOf}, r.now), "k is 0");
  EXPECT_REFUSED(graph.AddStep("r", {"x", "x", Join::kAll, 2}, r.now), "k is 2");
  for (const double est : {-1.0, std::nan(""), 1e300}) {
    StepSpec slow{"x", "x"};
    slow.est_ms = est;
    EXPECT_REFUSED(graph.AddStep("r", slow, r.now), "est_ms is");
  }
  EXPECT_REFUSED(graph.BeginRun("s", {"", "", 0}, r.now), "weight is 0");
  EXPECT_REFUSED(graph.BeginRun("", {}, r.now), "a run's name");
  EXPECT_REFUSED(graph.Bind("r", "plan", "", KeyKind::kFixed, r.now), "a key has 0 bytes");
  EXPECT_REFUSED(graph.Bind("r", "", "k", KeyKind::kFixed, r.now), "an agent's name");
  EXPECT_REFUSED(graph.Finish("r", "plan", Names{"plan"}, r.now),
                 "no edge leads from 'plan' to 'plan'");
  EXPECT_REFUSED(graph.Finish("r", "plan", Names{"coda"}, r.now), "did you mean 'code'?");
  EXPECT_REFUSED(graph.Loop("r", "code", "plan", r.now),
                 "no back edge leads from 'code' to 'plan'");
  EXPECT_REFUSED(graph.EndRun("r", RunState::kLive, r.now), "a run ends as");
  EXPECT_REFUSED(graph.Advise("k", seconds(1), 1.1, r.now), "p is 1.1");
  EXPECT_REFUSED(graph.Advise("k", seconds(-1), 1, r.now), "eta");
  EXPECT_REFUSED(graph.Link("k", "k"), "can't continue");
  EXPECT_REFUSED(graph.steps_to_execution("r", "nope", r.now), "no step 'nope'");
  const StepGraphStats after = graph.stats();
  EXPECT_EQ(after.steps, before.steps);
  EXPECT_EQ(after.edges, before.edges);
  EXPECT_EQ(after.runs, before.runs);
  EXPECT_EQ(after.agents, before.agents);
  EXPECT_EQ(r.State("plan"), StepState::kReady);
}

TEST(StepGraphBadInput, WhatIsDoneCanNotFinishSkipOrFail) {
  OneRun r;
  r.Chain("a");
  r.Do("a");
  EXPECT_REFUSED(r.graph().Finish("r", "a", r.now), "done already");
  EXPECT_REFUSED(r.graph().Skip("r", "a", r.now), "is done");
  EXPECT_REFUSED(r.graph().Fail("r", "a", OnFail::kSkip, r.now), "is done");
}

TEST(StepGraphBadInput, BoundsAreNamed) {
  StepGraphOptions options;
  options.runs_max = 1;
  options.steps_max = 2;
  options.edges_max = 1;
  options.keys_max = 1;
  StepGraph graph(options);
  const TimePoint now = At(0);
  ASSERT_TRUE(graph.BeginRun("r", {}, now));
  EXPECT_EQ(graph.BeginRun("s", {}, now).error().code, Code::kBusy);
  ASSERT_TRUE(graph.AddStep("r", {"a"}, now));
  ASSERT_TRUE(graph.AddStep("r", {"b"}, now));
  EXPECT_EQ(graph.AddStep("r", {"c"}, now).error().code, Code::kBusy);
  ASSERT_TRUE(graph.AddEdge("r", {"a", "b"}, now));
  EXPECT_EQ(graph.AddEdge("r", {"b", "a"}, now).error().code, Code::kBusy);
  ASSERT_TRUE(graph.Bind("r", "a", "k", KeyKind::kFixed, now));
  EXPECT_EQ(graph.Bind("r", "a", "l", KeyKind::kFixed, now).error().code, Code::kBusy);
  EXPECT_EQ(graph.Link("l", "k").error().code, Code::kBusy);
  EXPECT_EQ(graph.Advise("l", seconds(1), 1, now).error().code, Code::kBusy);
  ASSERT_TRUE(graph.EndRun("r", RunState::kFinished, now));
  ASSERT_TRUE(graph.BeginRun("s", {}, now));
  // Takes the place of a retired key.
  EXPECT_TRUE(graph.Bind("s", "a", "l", KeyKind::kFixed, now));
  EXPECT_FALSE(graph.Facts("k", now).known);
}

TEST(StepGraphBadInput, ValidateReportsWhatIsProbablyNotMeant) {
  OneRun r;
  r.Add({"j", "j", Join::kKOf, 3});
  r.Chain("a>j b>j a>b");
  EXPECT_THAT(r.graph().Validate("r")->at(0).message, HasSubstr("no path leads to 'j'"));
  const auto few = r.graph().Validate("r")->at(1);
  EXPECT_EQ(few.what, Finding::What::kTooFewForK);
  EXPECT_THAT(few.message, HasSubstr("needs 3 of the steps before it, but there are only 2"));

  OneRun s;
  s.Chain("a b c lone");
  s.Edge({"a", "b", EdgeKind::kForward, 0.5, "which"});
  s.Edge({"a", "c", EdgeKind::kForward, 0.4, "which"});
  s.Back("lone", "a");
  const auto found = *s.graph().Validate("r");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].what, Finding::What::kChoiceSum);
  EXPECT_THAT(found[0].message, HasSubstr("add up to 0.9"));
  EXPECT_EQ(found[1].what, Finding::What::kClosesNoLoop);
  EXPECT_EQ(found[1].steps, (Names{"lone", "a"}));
  EXPECT_REFUSED(s.graph().Loop("r", "lone", "a", s.now), "closes no loop");
}

// --- runs ---

TEST(StepGraphRuns, ARunThatNeverEndsExpires) {
  StepGraphOptions options;
  options.run_idle_max = seconds(100);
  StepGraph graph(options);
  OneRun idle("idle", {}, &graph);
  OneRun busy("busy", {}, &graph);
  for (OneRun* r : {&idle, &busy}) {
    r->Chain("a>b");
    r->Bind("b", r->run());
    r->Start("a");
  }
  busy.now += seconds(90);
  busy.Finish("a");
  EXPECT_THAT(graph.Expire(At(200)), ElementsAre());
  EXPECT_THAT(graph.Expire(At(200.5)), ElementsAre("idle"));
  EXPECT_EQ(graph.run_state("idle"), RunState::kExpired);
  EXPECT_EQ(graph.run_state("busy"), RunState::kLive);
  EXPECT_TRUE(graph.Facts("busy", At(201)).steps);
  EXPECT_EQ(graph.stats().runs_expired, 1U);
  EXPECT_TRUE(graph.Facts("idle", At(201)).known);
  EXPECT_REFUSED(graph.Start("idle", "b", At(201)), "has ended (expired)");
  EXPECT_FALSE(graph.Facts("busy", At(1000)).steps);  // A query is enough.
  EXPECT_EQ(graph.run_state("busy"), RunState::kExpired);
  EXPECT_FALSE(graph.attached());
}

TEST(StepGraphRuns, ADeadlineEndsABusyRun) {
  StepGraph graph;
  RunSpec spec;
  spec.deadline = seconds(10);
  OneRun r("r", spec, &graph);  // At 100 s.
  r.Chain("a");
  EXPECT_THAT(graph.Expire(At(109.9)), ElementsAre());
  EXPECT_THAT(graph.Expire(At(110)), ElementsAre("r"));
}

TEST(StepGraphRuns, EndedNamesMayBeginAgainAndRememberNothing) {
  OneRun r;
  r.Chain("a>b");
  r.Do("a");
  r.End(RunState::kCancelled);
  EXPECT_EQ(r.graph().run_state("r"), RunState::kCancelled);
  EXPECT_EQ(r.graph().stats().agents, 0U);
  EXPECT_EQ(r.graph().stats().steps, 0U);
  OneRun again("r", {}, &r.graph());
  again.Chain("a>b");
  EXPECT_EQ(again.State("a"), StepState::kReady);
  EXPECT_EQ(again.Steps("b"), 1U);
}

TEST(StepGraphRuns, TimeThatFallsCountsAsTheLatest) {
  OneRun r;
  r.Chain("a>b");
  r.Start("a");
  const double before = r.Of("b").eta_ms;
  r.now = At(1);
  EXPECT_EQ(r.Of("b").eta_ms, before);
}

// --- states ---

TEST(StepGraphStates, ChoicesNotTakenDieAndWithThemAllThatNeedsThem) {
  OneRun r;
  r.Chain("a b c d e b>d c>e");
  r.Edge({"a", "b", EdgeKind::kForward, {}, "x"});
  r.Edge({"a", "c", EdgeKind::kForward, {}, "x"});
  r.Start("a");
  EXPECT_DOUBLE_EQ(r.Of("b").p, 0.5);
  EXPECT_DOUBLE_EQ(r.Of("d").p, 0.5);
  r.Finish("a", {"b"});
  EXPECT_EQ(r.State("b"), StepState::kReady);
  EXPECT_DOUBLE_EQ(r.Of("b").p, 1);
  EXPECT_EQ(r.State("c"), StepState::kSkipped);
  EXPECT_EQ(r.State("e"), StepState::kSkipped);
  EXPECT_EQ(r.Steps("d"), 1U);
  r.Start("c");  // The edge was taken after all.
  EXPECT_EQ(r.graph().stats().mispredictions, 1U);
  EXPECT_EQ(r.Steps("e"), 1U);
}

TEST(StepGraphStates, FailureIsSkippedPoisonedOrTriedAgain) {
  for (const OnFail on_fail : {OnFail::kSkip, OnFail::kPoison, OnFail::kRetry}) {
    OneRun r;
    r.Add({"any", "any", Join::kAny});
    r.Chain("a>all b>all a>any b>any");
    r.Start("a");
    r.Fail("a", on_fail);
    r.Start("b");
    EXPECT_EQ(r.Steps("any"), 1U);
    if (on_fail == OnFail::kSkip) {
      EXPECT_EQ(r.State("a"), StepState::kFailed);
      EXPECT_EQ(r.Steps("all"), 1U);
    } else if (on_fail == OnFail::kPoison) {
      EXPECT_EQ(r.Steps("all"), kNever);
      EXPECT_EQ(r.State("all"), StepState::kPending);
    } else {
      EXPECT_EQ(r.State("a"), StepState::kReady);
      EXPECT_EQ(r.Steps("all"), 1U);
    }
  }
}

TEST(StepGraphStates, RetryEndsWithTheVisits) {
  OneRun r;
  StepSpec a{"a", "a"};
  a.max_visits = 2;
  r.Add(a);
  r.Start("a");
  r.Fail("a", OnFail::kRetry);
  EXPECT_EQ(r.State("a"), StepState::kReady);
  r.Start("a");
  r.Fail("a", OnFail::kRetry);
  EXPECT_EQ(r.State("a"), StepState::kFailed);
}

TEST(StepGraphStates, StartingAHeadAnewTakesItsBackEdge) {
  OneRun r;
  r.Chain("h>b>end");
  r.Back("b", "h");
  r.Do("h");
  r.Do("b");
  EXPECT_EQ(r.Steps("h"), 0U);
  r.Start("h");  // Loop was not called.
  EXPECT_EQ(r.graph().stats().mispredictions, 0U);
  EXPECT_EQ(r.State("b"), StepState::kPending);
  EXPECT_EQ(r.Of("h").visits, 2U);
  EXPECT_EQ(r.Steps("end"), 2U);
}

TEST(StepGraphStates, AnExitNotTakenIsOpenAgainInTheNextRound) {
  OneRun r;
  r.Chain("h>b end");
  r.Edge({"b", "end", EdgeKind::kForward, {}, "x"});
  r.Edge({"b", "h", EdgeKind::kBack, {}, "x"});
  r.Do("h");
  r.Start("b");
  r.Finish("b", {"h"});
  EXPECT_EQ(r.State("end"), StepState::kSkipped);
  r.Loop("b", "h");
  EXPECT_EQ(r.Steps("end"), 2U);
  r.Do("h");
  r.Start("b");
  r.Finish("b", {"end"});
  EXPECT_EQ(r.Steps("h"), kNever);
  EXPECT_EQ(r.State("end"), StepState::kReady);
}

TEST(StepGraphStates, InnerLoopsComeBackWithTheOuterOne) {
  OneRun r;
  r.Chain("A>B>C>D E");
  r.Edge({"D", "C", EdgeKind::kBack, {}, "in"});
  r.Edge({"D", "E", EdgeKind::kForward, {}, "in"});
  r.Back("E", "A");
  r.Do("A");
  r.Do("B");
  r.Do("C");
  r.Start("D");
  EXPECT_EQ(r.Steps("C"), 1U);  // By the inner loop.
  r.Finish("D", {"E"});
  EXPECT_EQ(r.Steps("C"), 3U);  // When the inner loop is over, by the outer one: E, A, B.
  r.Start("E");
  EXPECT_EQ(r.Steps("A"), 1U);
  EXPECT_EQ(r.Steps("B"), 2U);
  EXPECT_EQ(r.Steps("C"), 3U);
}

TEST(StepGraphStates, StepsWithSpentVisitsSitTheNextRoundOut) {
  OneRun r;
  StepSpec once{"once", "once"};
  once.max_visits = 1;
  r.Add(once);
  r.Chain("h>once>z h>z");
  r.Back("z", "h");
  for (const char* step : {"h", "once"}) r.Do(step);
  r.Start("z");
  EXPECT_EQ(r.Steps("once"), kNever);
  EXPECT_EQ(r.Steps("h"), 1U);
  r.Finish("z");
  r.Loop("z", "h");
  EXPECT_EQ(r.State("once"), StepState::kSkipped);
  EXPECT_EQ(r.Steps("z"), 1U);
}

TEST(StepGraphStates, ASkippedStepKeepsItsVisitForTheNextRound) {
  OneRun r;
  StepSpec once{"v", "v"};
  once.max_visits = 1;
  r.Add(once);
  r.Add({"z", "z", Join::kAny});
  r.Chain("h>u>v>z h>z");
  r.Back("z", "h");
  r.Do("h");
  r.Start("z");
  EXPECT_EQ(r.Steps("v"), 1U);
  r.Skip("u");
  EXPECT_EQ(r.State("v"), StepState::kSkipped);
  EXPECT_EQ(r.Steps("v"), 3U);  // z, h, u.
}

TEST(StepGraphStates, AStepStartedAnewHasItsChoicesBefore) {
  OneRun r;
  r.Chain("a b");
  r.Edge({"a", "b", EdgeKind::kForward, {}, "x"});
  r.Start("a");
  r.Finish("a", std::vector<std::string>{});
  EXPECT_EQ(r.State("b"), StepState::kSkipped);
  r.Start("a");
  EXPECT_EQ(r.Steps("b"), 1U);
}

TEST(StepGraphStates, EntriesFromOutsideALoopWaitForItToBeginAnew) {
  OneRun r;
  r.Add({"v", "v", Join::kAny});
  r.Chain("out>v h>v>z");
  r.Back("z", "h");
  for (const char* step : {"out", "h", "v"}) r.Do(step);
  EXPECT_EQ(r.Steps("z"), 0U);
  EXPECT_EQ(r.Steps("h"), 1U);
  EXPECT_EQ(r.Steps("v"), 1U);  // When the loop begins: steps outside it stay done.
}

// --- a whole run ---

TEST(StepGraphView, ShowsRunsAsTheyStand) {
  OneRun r;
  r.Chain("plan>code>test");
  r.Back("test", "code");
  r.Start("plan");
  StepGraph& graph = r.graph();
  ASSERT_TRUE(graph.Bind("r", "code", "k1", KeyKind::kFixed, r.now));
  ASSERT_TRUE(graph.Bind("r", "code", "k2", KeyKind::kFixed, r.now));
  const std::vector<RunView> views = graph.View({}, r.now);
  ASSERT_EQ(views.size(), 1U);
  const RunView& run = views[0];
  EXPECT_EQ(run.run, "r");
  ASSERT_EQ(run.steps.size(), 3U);
  EXPECT_EQ(run.steps[0].state, StepState::kRunning);
  EXPECT_EQ(run.steps[1].steps, 1U);
  EXPECT_EQ(run.steps[2].steps, 2U);
  ASSERT_EQ(run.edges.size(), 3U);
  EXPECT_EQ(run.edges[1].from, 1U);
  EXPECT_EQ(run.edges[1].to, 2U);
  EXPECT_EQ(run.edges[2].kind, EdgeKind::kBack);
  ASSERT_EQ(run.agents.size(), 3U);
  EXPECT_EQ(run.agents[1].name, "code");
  EXPECT_THAT(run.agents[1].keys, ElementsAre("k1", "k2"));
  EXPECT_EQ(run.agents[1].keys_more, 0U);
}

TEST(StepGraphView, GoesAsFarAsItIsAskedTo) {
  OneRun r;
  r.Chain("a>b>c");
  StepGraph& graph = r.graph();
  ASSERT_TRUE(graph.Bind("r", "a", "k1", KeyKind::kFixed, r.now));
  ASSERT_TRUE(graph.Bind("r", "a", "k2", KeyKind::kFixed, r.now));
  ASSERT_TRUE(graph.BeginRun("later", {}, r.now));
  ASSERT_TRUE(graph.AddStep("later", {"x", "x"}, r.now));
  // The most recently active run is first.
  EXPECT_EQ(graph.View({.runs = 1}, r.now).at(0).run, "later");
  const std::vector<RunView> views = graph.View({.steps = 3, .keys = 1}, r.now);
  ASSERT_EQ(views.size(), 2U);
  EXPECT_EQ(views[1].steps.size(), 2U);
  EXPECT_EQ(views[1].steps_more, 1U);
  EXPECT_EQ(views[1].edges.size(), 1U);
  ASSERT_EQ(views[1].agents.size(), 2U);
  EXPECT_THAT(views[1].agents[0].keys, ElementsAre("k1"));
  EXPECT_EQ(views[1].agents[0].keys_more, 1U);
  EXPECT_EQ(graph.View({.runs = 0}, r.now).size(), 0U);
}

}  // namespace
}  // namespace spillway
