// SPDX-License-Identifier: Apache-2.0
// A step graph attached to a cache of one tier, and clients' hints.
#include <gmock/gmock.h>

#include "cache/testing/cache_fixture.h"

namespace spillway {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Four entries, a quarter of the tier each.
class GraphTest : public testing::CacheTest {
 protected:
  static constexpr std::size_t kQuarter = kMiB / 4;

  void Fill(std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      ASSERT_TRUE(Set(key, std::string(kQuarter, 'x')));
      clock_->Advance(seconds(1));
    }
  }
  void Chain(StepGraph& graph, std::initializer_list<const char*> agents) {
    ASSERT_TRUE(graph.BeginRun("r", {}, cache_->now()));
    std::string before;
    for (const char* agent : agents) {
      ASSERT_TRUE(graph.AddStep("r", {agent, agent}, cache_->now()));
      if (!before.empty()) {
        ASSERT_TRUE(graph.AddEdge("r", {before, agent}, cache_->now()));
      }
      before = agent;
    }
  }
};

TEST_F(GraphTest, EntriesOfAgentsLeaveByTheirSteps) {
  Open();
  Fill({"context:a", "context:b", "context:c", "context:d"});
  const auto graph = std::make_shared<StepGraph>();
  cache_->Attach(graph);
  Chain(*graph, {"a", "b", "c", "d"});
  ASSERT_TRUE(graph->Start("r", "b", cache_->now()));  // So a is done.
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("context:a", "context:d", "context:c"));
  ASSERT_TRUE(Set("new", std::string(kQuarter, 'y')));
  EXPECT_THAT(Left(), ElementsAre("context:a:destroy:room"));
  ASSERT_TRUE(graph->EndRun("r", RunState::kFinished, cache_->now()));
  EXPECT_THAT(cache_->EvictionOrder().front(), "context:b");  // By last use again.
}

TEST_F(GraphTest, ModeIsWorkflowAwareWhileARunIsLive) {
  Open();
  const std::shared_ptr<StepGraph> graph = cache_->step_graph();
  EXPECT_EQ(cache_->step_graph(), graph);
  cache_->Apply(0.75);
  EXPECT_EQ(cache_->mode(), Mode::kNormal);
  Chain(*graph, {"a"});
  EXPECT_EQ(cache_->mode(), Mode::kWorkflowAware);
  EXPECT_EQ(cache_->level(), Level::kNormal);
  cache_->Apply(0.93);
  EXPECT_EQ(cache_->mode(), Mode::kCritical);
  ASSERT_TRUE(graph->EndRun("r", RunState::kFailed, cache_->now()));
  cache_->Apply(0.93);
  EXPECT_EQ(cache_->mode(), Mode::kCritical);
}

TEST_F(GraphTest, WhatRunsIsNotDestroyedEvenInEmergency) {
  options_.ttl.reset();
  Open();
  Fill({"context:a", "context:b"});
  const std::shared_ptr<StepGraph> graph = cache_->step_graph();
  Chain(*graph, {"a", "b"});
  ASSERT_TRUE(graph->Start("r", "a", cache_->now()));
  clock_->Advance(minutes(5));
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre("context:b:destroy:idle"));
  EXPECT_THAT(cache_->EvictionOrder(), IsEmpty());
  clock_->Advance(minutes(5));  // Ten minutes without a touch: it may be forgotten.
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre("context:a:destroy:idle"));
}

// Two running steps' entries are more than half of the tier, which is not protected. Once
// the first has been chosen the other is less, in the same pass.
TEST_F(GraphTest, OfWhatRunsNoMoreIsDestroyedThanExceedsItsShare) {
  options_.ttl.reset();
  Open();
  ASSERT_TRUE(Set("context:a", std::string(kMiB / 2, 'x')));
  ASSERT_TRUE(Set("context:b", std::string(kMiB / 8, 'x')));
  const std::shared_ptr<StepGraph> graph = cache_->step_graph();
  ASSERT_TRUE(graph->BeginRun("r", {}, cache_->now()));
  for (const char* step : {"a", "b"}) {
    ASSERT_TRUE(graph->AddStep("r", {step, step}, cache_->now()));
    ASSERT_TRUE(graph->Start("r", step, cache_->now()));
  }
  clock_->Advance(minutes(5));
  cache_->Apply(0.97);
  EXPECT_THAT(Left(), ElementsAre("context:a:destroy:idle"));
}

TEST_F(GraphTest, InNormalWhomNobodyWantsLeavesAtOnce) {
  Open();
  Fill({"context:a", "other", "context:z"});
  const std::shared_ptr<StepGraph> graph = cache_->step_graph();
  Chain(*graph, {"z", "a"});
  ASSERT_TRUE(graph->Start("r", "a", cache_->now()));
  cache_->Apply(0.75);
  EXPECT_THAT(Left(), ElementsAre("context:z:destroy:order"));
  EXPECT_EQ(events_.size(), 0U);
}

// Agents that write in their steps and do not read it back do not make a graph wrong.
TEST_F(GraphTest, WhatAStepSetsItHasUsed) {
  Open();
  const std::shared_ptr<StepGraph> graph = cache_->step_graph();
  for (int round = 0; round < 40; ++round) {
    const std::string run = "round " + std::to_string(round);
    ASSERT_TRUE(graph->BeginRun(run, {}, cache_->now()));
    ASSERT_TRUE(graph->AddStep(run, {"w", "w"}, cache_->now()));
    ASSERT_TRUE(graph->Start(run, "w", cache_->now()));
    SetOptions of_w;
    of_w.agent = "w";
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(Set("w" + std::to_string(i), "said", of_w));
    clock_->Advance(seconds(1));
    ASSERT_TRUE(graph->Finish(run, "w", cache_->now()));
    ASSERT_TRUE(graph->EndRun(run, RunState::kFinished, cache_->now()));
  }
  cache_->Clear();
  Fill({"context:a", "context:b", "context:c", "context:d"});
  Chain(*graph, {"a", "b", "c", "d"});
  ASSERT_TRUE(graph->Start("r", "a", cache_->now()));
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("context:d", "context:c", "context:b"));
}

TEST_F(GraphTest, AnOrderOfAgentsFromElsewhereWillDo) {
  Open();
  Fill({"context:a", "context:b", "context:c"});
  std::vector<std::string> agents = {"b", "c", "a"};
  cache_->Attach([&] { return agents; });
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("context:b", "context:c", "context:a"));
  cache_->Apply(0.75);
  EXPECT_EQ(cache_->mode(), Mode::kWorkflowAware);
  agents = {"a", "c", "b"};
  clock_->Advance(seconds(1));
  cache_->Apply(0.5);
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("context:a", "context:c", "context:b"));
  agents.clear();
  clock_->Advance(seconds(1));
  cache_->Apply(0.75);
  EXPECT_EQ(cache_->mode(), Mode::kNormal);
  cache_->Attach(Cache::AgentOrder());
}

TEST_F(GraphTest, AGraphMayOutliveItsCache) {
  const auto graph = std::make_shared<StepGraph>();
  Open().Attach(graph);
  cache_.reset();
  EXPECT_TRUE(graph->BeginRun("r", {}, TimePoint()));
}

TEST_F(GraphTest, HintsCountWithThePolicyWorkflow) {
  options_.policy = "workflow";
  Open();
  Fill({"a", "b", "c"});
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("a", "b", "c"));
  cache_->Touch("c", Hint::kDone);
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("c", "a", "b"));
  // "Soon" is worth more than having been used a moment ago.
  cache_->Touch("a", Hint::kAgain, seconds(0));
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("c", "b", "a"));
  EXPECT_EQ(cache_->mode(), Mode::kRelaxed);  // No run is live.
}

TEST_F(GraphTest, AWrongHintDecays) {
  options_.policy = "workflow";
  Open();
  Fill({"a", "b"});
  cache_->Touch("a", Hint::kAgain, seconds(10));
  clock_->Advance(minutes(2));  // It was not used.
  Get("b");
  cache_->Apply(0);
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("a", "b"));
  cache_->Touch("b", Hint::kDone);
  clock_->Advance(seconds(1));
  Get("b");  // It was not done after all.
  ASSERT_TRUE(Set("c", std::string(3 * kQuarter, 'c')));
  EXPECT_THAT(Left(), ElementsAre("a:destroy:room"));
}

TEST_F(GraphTest, HintsDoNotDisturbTheTablesOwnOrder) {
  Open();
  Fill({"a", "b"});
  cache_->Touch("b", Hint::kDone);
  EXPECT_THAT(cache_->EvictionOrder(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace spillway
