// SPDX-License-Identifier: Apache-2.0
// Workflows on a machine of virtual time: what is kept, what is prefetched, and what a
// wrong graph costs.
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cache/testing/virtual_machine.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::VirtualMachine;

std::string Agent(std::size_t at) { return fmt::format("agent{}", at); }

// Agents that take turns, one after another, round after round.
struct Ring {
  Ring(const VirtualMachine::Settings& settings, std::size_t count)
      : machine(settings), agents(count) {
    for (std::size_t at = 0; at < agents; ++at) machine.Set(Agent(at), kGiB);
    if (!settings.graph) return;
    StepGraph& graph = machine.graph();
    EXPECT_TRUE(graph.BeginRun("r", {}, machine.now()));
    for (std::size_t at = 0; at < agents; ++at) {
      EXPECT_TRUE(graph.AddStep("r", {Agent(at), Agent(at)}, machine.now()));
      EXPECT_TRUE(graph.Bind("r", Agent(at), Agent(at), KeyKind::kFixed, machine.now()));
      if (at == 0) continue;
      EXPECT_TRUE(graph.AddEdge("r", {Agent(at - 1), Agent(at)}, machine.now()));
    }
    EXPECT_TRUE(graph.AddEdge("r", {Agent(agents - 1), Agent(0), EdgeKind::kBack}, machine.now()));
    told = true;
  }
  void Step(std::size_t at, Duration work = milliseconds(500)) {
    if (told) (void)machine.graph().Start("r", Agent(at), machine.now());
    const bool there = machine.OnDevice(Agent(at));
    stalled += *machine.Get(Agent(at));
    ++(there ? hits : misses);
    machine.Work(work);
    if (told) (void)machine.graph().Finish("r", Agent(at), machine.now());
    if (told && at + 1 == agents) {
      (void)machine.graph().Loop("r", Agent(at), Agent(0), machine.now());
    }
  }
  void Rounds(std::size_t rounds) {
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t at = 0; at < agents; ++at) Step(at);
    }
  }
  double share() const {
    return static_cast<double>(hits) / static_cast<double>(std::max(hits + misses, std::size_t{1}));
  }
  void Forget() {
    hits = misses = 0;
    stalled = {};
  }

  VirtualMachine machine;
  const std::size_t agents;
  bool told = false;
  std::size_t hits = 0;
  std::size_t misses = 0;
  Duration stalled{};
};

VirtualMachine::Settings RoomFor(std::size_t device) {
  VirtualMachine::Settings settings;
  settings.device = device * kGiB;
  settings.host = 64 * kGiB;
  return settings;
}

TEST(Workflow, ACircleKeepsAllButOneOfWhatFits) {
  VirtualMachine::Settings settings = RoomFor(6);
  settings.prefetch = false;
  Ring ring(settings, 10);
  ring.Rounds(300);
  EXPECT_NEAR(ring.share(), 5.0 / 9, 0.003);
}

TEST(Workflow, WithoutAGraphACircleHitsNothing) {
  VirtualMachine::Settings settings = RoomFor(6);
  settings.graph = false;
  Ring ring(settings, 10);
  ring.Rounds(20);
  EXPECT_EQ(ring.hits, 0U);
}

TEST(Workflow, AheadOfTheStepAllIsThere) {
  Ring ring(RoomFor(6), 10);
  ring.Rounds(1);
  ring.Forget();
  const TransferStats before = ring.machine.stats().moves;
  ring.Rounds(50);
  EXPECT_EQ(ring.misses, 0U);
  const TransferStats transfers = ring.machine.stats().moves;
  EXPECT_GE(transfers.ahead_useful_bytes, before.ahead_useful_bytes + 200 * kGiB);
  EXPECT_EQ(transfers.ahead_wasted_bytes, 0U);
  EXPECT_EQ(transfers.ahead_late_bytes, before.ahead_late_bytes);
}

TEST(Workflow, AGraphThatIsWrongIsNotBelievedForLong) {
  const auto misses = [](bool graph) {
    VirtualMachine::Settings settings = RoomFor(6);
    settings.graph = graph;
    Ring ring(settings, 10);
    std::mt19937_64 random(7);
    for (int step = 0; step < 3000; ++step) ring.Step(random() % 10);
    return static_cast<double>(ring.misses);
  };
  EXPECT_LE(misses(true), misses(false) * 1.05);
}

TEST(Workflow, WhatIsFetchedForARunThatEndsIsCalledOff) {
  VirtualMachine::Settings settings = RoomFor(6);
  settings.link_bytes_per_s = 1e9;
  Ring ring(settings, 3);
  ASSERT_TRUE(ring.machine.graph().Start("r", Agent(0), ring.machine.now()));
  const Bytes begun = ring.machine.stats().moves.ahead_bytes;
  EXPECT_GE(begun, kGiB);  // At least the next one.
  ASSERT_TRUE(ring.machine.graph().EndRun("r", RunState::kCancelled, ring.machine.now()));
  ring.machine.Work(seconds(10));
  EXPECT_FALSE(ring.machine.OnDevice(Agent(1)));
  const TransferStats transfers = ring.machine.stats().moves;
  EXPECT_EQ(transfers.cancelled, begun / kGiB);
  EXPECT_EQ(transfers.ahead_wasted_bytes, begun);
}

TEST(Workflow, AWholeChainComesUpRootFirst) {
  VirtualMachine machine(RoomFor(8));
  machine.Set("root", kGiB);
  machine.Set("middle", kGiB, "root");
  machine.Set("tail", kGiB, "middle");
  StepGraph& graph = machine.graph();
  ASSERT_TRUE(graph.BeginRun("r", {}, machine.now()));
  for (const char* step : {"a", "b"}) ASSERT_TRUE(graph.AddStep("r", {step, step}, machine.now()));
  ASSERT_TRUE(graph.AddEdge("r", {"a", "b"}, machine.now()));
  ASSERT_TRUE(graph.Bind("r", "b", "tail", KeyKind::kHistory, machine.now()));
  ASSERT_TRUE(graph.Start("r", "a", machine.now()));
  machine.Work(milliseconds(25));
  EXPECT_TRUE(machine.OnDevice("root"));
  EXPECT_FALSE(machine.OnDevice("tail"));
  machine.Work(seconds(1));
  EXPECT_TRUE(machine.OnDevice("middle"));
  EXPECT_TRUE(machine.OnDevice("tail"));
}

TEST(Workflow, WhatIsFetchedAheadIsNotCountedAsGivenBack) {
  VirtualMachine machine(RoomFor(8));
  for (const char* key : {"x", "b"}) machine.Set(key, kGiB);
  machine.Get("x");
  StepGraph& graph = machine.graph();
  ASSERT_TRUE(graph.BeginRun("r", {}, machine.now()));
  // On the strand, where only giving back reads the graph; then "b"
  // begins to come up.
  RunOn(machine.core().strand(), [&] {
    for (const char* step : {"a", "b"}) (void)graph.AddStep("r", {step, step}, machine.now());
    (void)graph.AddEdge("r", {"a", "b"}, machine.now());
    (void)graph.Bind("r", "b", "b", KeyKind::kFixed, machine.now());
    (void)graph.Start("r", "a", machine.now());
    Engine& engine = machine.core().engine();
    ASSERT_FALSE(engine.anything_in_flight());
    const Bytes before = engine.store().held(TierId::kDevice);
    bool more = false;
    const Bytes freed = engine.GiveBack(TierId::kDevice, kGiB, machine.now(), &more);
    EXPECT_EQ(freed, before - engine.store().held(TierId::kDevice));
    EXPECT_TRUE(engine.anything_in_flight());
  });
  machine.Work(seconds(1));
}

TEST(Workflow, NobodyTheGraphDoesNotKnowGoesForAGuess) {
  VirtualMachine machine(RoomFor(2));
  for (const char* key : {"x", "y", "b"}) machine.Set(key, kGiB);
  for (const char* key : {"x", "y"}) machine.Get(key);
  machine.Work(seconds(100));
  StepGraph& graph = machine.graph();
  ASSERT_TRUE(graph.BeginRun("r", {}, machine.now()));
  for (const char* step : {"a", "b"}) ASSERT_TRUE(graph.AddStep("r", {step, step}, machine.now()));
  ASSERT_TRUE(graph.AddEdge("r", {"a", "b"}, machine.now()));
  ASSERT_TRUE(graph.Bind("r", "b", "b", KeyKind::kFixed, machine.now()));
  ASSERT_TRUE(graph.Start("r", "a", machine.now()));
  machine.Work(seconds(1));
  EXPECT_FALSE(machine.OnDevice("b"));
  EXPECT_TRUE(machine.OnDevice("x"));
  EXPECT_TRUE(machine.Get("b").has_value());  // A read may evict.
}

}  // namespace
}  // namespace spillway
