// SPDX-License-Identifier: Apache-2.0
// The learned score as the cache's order: what it learns from sets, gets and misses,
// what it reports, and into which tier new entries go.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cache/testing/cache_fixture.h"
#include "cache/testing/virtual_machine.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class ScoreTest : public testing::CacheTest {
 protected:
  ScoreTest() {
    options_.policy = "score";
    options_.capacity = 64 * kKiB;
    options_.ttl.reset();
    options_.token_budget.reset();
  }
  void Put(const std::string& key, std::string_view step = {}, Hint hint = Hint::kNone) {
    SetOptions set;
    set.tokens = 100;
    set.step = step;
    set.hint = hint;
    ASSERT_TRUE(Set(key, std::string(1000, 'v'), set));
  }
  void Wait(int count) {
    for (int i = 0; i < count; ++i) {
      clock_->Advance(seconds(1));
      (void)cache_->Apply(0.1);
    }
  }
  // Some keys return every ten seconds, the others never; both say what they wait for.
  // There is room for all of them.
  void Teach() {
    for (int i = 0; i < 10; ++i) Put(fmt::format("tool{}", i), "tool");
    for (int i = 0; i < 10; ++i) Put(fmt::format("human{}", i), "human");
    for (int round = 0; round < 8; ++round) {
      Wait(10);
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(**cache_->Get(fmt::format("tool{}", i), {.step = "tool"}));
      }
    }
  }
};

TEST_F(ScoreTest, IsLastUseUntilItHasLearnt) {
  Open();
  Put("a");
  EXPECT_TRUE(cache_->stats().score.in_use);
  EXPECT_FALSE(cache_->stats().score.active);
  EXPECT_THAT(cache_->Explain("a"), HasSubstr("Too little has been learned yet: LRU ranks."));
  for (int i = 0; i < 70; ++i) {
    clock_->Advance(seconds(1));
    if (i % 10 == 0) (void)Get("a");
    Put(fmt::format("k{}", i));
  }
  EXPECT_TRUE(cache_->Contains("a"));
  EXPECT_FALSE(cache_->Contains("k0"));
}

TEST_F(ScoreTest, KeepsWhoComesBackThoughOthersWereUsedLater) {
  Open();
  Teach();
  EXPECT_TRUE(cache_->stats().score.active);
  for (int i = 0; i < 10; ++i) (void)Get(fmt::format("human{}", i));  // The latest uses.
  Wait(3);
  for (int i = 0; i < 50; ++i) Put(fmt::format("new{}", i), "human");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(cache_->Contains(fmt::format("tool{}", i))) << i;
}

TEST_F(ScoreTest, SaysWhatItKnows) {
  Open();
  Teach();
  Wait(3);
  const std::string tool = cache_->Explain("tool3");
  EXPECT_THAT(tool, HasSubstr("accesses/s, learned from similar entries."));
  EXPECT_THAT(tool, HasSubstr("waits for tool"));
  EXPECT_THAT(tool, HasSubstr("A miss would cost 0.0043 s."));  // 100 tokens.
  EXPECT_THAT(tool, HasSubstr("policy score, order score"));
  EXPECT_THAT(cache_->Explain("human3"), HasSubstr("waits for human"));
  SetOptions set;
  set.tokens = 100;
  set.recompute = seconds(2);
  ASSERT_TRUE(Set("dear", "value", set));
  EXPECT_THAT(cache_->Explain("dear"), HasSubstr("A miss would cost 2 s."));
}

TEST_F(ScoreTest, WhoIsDoneLeavesFirst) {
  Open();
  Teach();
  ASSERT_TRUE(cache_->Touch("tool4", Hint::kDone));
  EXPECT_EQ(cache_->EvictionOrder().front(), "tool4");
  EXPECT_THAT(cache_->Explain("tool4"), HasSubstr("said to be done"));
  // It was used all the same: the hint no longer counts.
  clock_->Advance(seconds(5));
  (void)Get("tool4");
  Wait(3);
  EXPECT_NE(cache_->EvictionOrder().front(), "tool4");
  EXPECT_THAT(cache_->Explain("tool4"), Not(HasSubstr("said to be done")));
}

// Keys said to be done that return ten seconds later, again and again: in the end the
// keys that never return are evicted first.
TEST_F(ScoreTest, AWrongWordDecays) {
  Open();
  Teach();
  ASSERT_TRUE(cache_->Touch("tool4", Hint::kDone));
  ASSERT_EQ(cache_->EvictionOrder().front(), "tool4");  // At first it is believed.
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(**cache_->Get(fmt::format("tool{}", i), {.hint = Hint::kDone, .step = "tool"}));
    }
    Wait(10);
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(**cache_->Get(fmt::format("tool{}", i), {.hint = Hint::kDone, .step = "tool"}));
  }
  Wait(3);
  EXPECT_THAT(cache_->Explain("tool4"), HasSubstr("said to be done"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(cache_->EvictionOrder().at(static_cast<std::size_t>(i)),
                ::testing::StartsWith("human"));
  }
}

TEST_F(ScoreTest, SetInPlaceIsAUseAndIsHeard) {
  Open();
  Teach();
  const std::uint64_t before = cache_->stats().score.returns;
  Wait(10);
  Put("tool1");  // Only its bytes change: it stays in place.
  Wait(3);
  EXPECT_EQ(cache_->stats().score.returns, before + 1);
  EXPECT_EQ(cache_->stats().score.remembered, 0U);
  Put("tool1", {}, Hint::kDone);
  EXPECT_THAT(cache_->Explain("tool1"), HasSubstr("said to be done"));
  EXPECT_THAT(cache_->Explain("tool1"), HasSubstr("Used 11 times in all"));
}

TEST_F(ScoreTest, RemembersKeysThatAreGone) {
  options_.history_entries = 100;
  Open();
  for (int i = 0; i < 300; ++i) {
    clock_->Advance(milliseconds(500));
    Put(fmt::format("k{}", i));
  }
  EXPECT_EQ(cache_->stats().score.remembered, 100U);
  const std::uint64_t before = cache_->stats().score.returns;
  EXPECT_EQ(Get("k200"), "(miss)");
  EXPECT_EQ(Get("k1"), "(miss)");  // Too long ago.
  Put("k200");
  Put("k201");
  EXPECT_EQ(cache_->stats().score.returns, before + 2);
  EXPECT_THAT(cache_->Explain("k200"), HasSubstr("Used 2 times in all"));
  cache_->Erase("k200");
  cache_->Clear();
  EXPECT_LE(cache_->stats().score.remembered, 100U);
}

TEST_F(ScoreTest, NoHistoryIsFineToo) {
  options_.history_entries = 0;
  Open();
  for (int i = 0; i < 300; ++i) Put(fmt::format("k{}", i % 100));
  EXPECT_EQ(cache_->stats().score.remembered, 0U);
}

TEST_F(ScoreTest, AStepOfARunIsASteps) {
  Open();
  const auto graph = cache_->step_graph();
  ASSERT_TRUE(graph->BeginRun("r", {}, cache_->now()));
  ASSERT_TRUE(graph->AddStep("r", {"plan", "planner"}, cache_->now()));
  ASSERT_TRUE(graph->AddStep("r", {"code", "coder"}, cache_->now()));
  ASSERT_TRUE(graph->AddEdge("r", {"plan", "code"}, cache_->now()));
  ASSERT_TRUE(graph->Start("r", "plan", cache_->now()));
  Put("ctx", "r/code");
  Put("other", "r/nothing");  // There is no such step: it is only a name.
  EXPECT_THAT(cache_->Explain("ctx"), HasSubstr("The step graph: 1 steps until its use"));
  EXPECT_THAT(cache_->Explain("ctx"), HasSubstr("accesses/s, by the step graph."));
  EXPECT_THAT(cache_->Explain("ctx"), HasSubstr("waits for code"));
  EXPECT_THAT(cache_->Explain("other"), Not(HasSubstr("The step graph")));
  SetOptions set;
  const std::string name(2000, 'x');
  set.step = name;
  EXPECT_EQ(Set("k", "v", set).error().code, Code::kInvalidArgument);
}

TEST_F(ScoreTest, WhatIsSaidOfAChainIsSaidOfItsEnd) {
  Open();
  SetOptions set;
  Put("a");
  set.parent = "a";
  ASSERT_TRUE(Set("b", "v", set));
  GetOptions said;
  said.hint = Hint::kDone;
  EXPECT_EQ(cache_->GetChain({"a", "b", "c"}, said).size(), 2U);
  EXPECT_THAT(cache_->Explain("b"), HasSubstr("said to be done"));
}

// A device with room for six, a host below that has room for all.
TEST(ScoreBelow, ANewcomerWorthLessGoesBelow) {
  const auto clock = std::make_shared<testing::ManualClock>();
  Options options;
  options.clock = clock;
  options.policy = "score";
  options.ttl.reset();
  options.token_budget.reset();
  Core::Parts parts;
  parts.tiers.device = std::make_unique<VirtualTier>(6 * kMiB);
  parts.tiers.host = std::make_unique<VirtualTier>(1024 * kMiB, "host");
  auto owned = std::make_unique<testing::VirtualTransferQueue>(clock.get(), 10e9);
  testing::VirtualTransferQueue* const transfer_queue = owned.get();
  parts.transfer_queue = std::move(owned);
  parts.total = 6 * kMiB;
  const std::shared_ptr<Core> core = std::move(Core::Open(options, std::move(parts)).value());
  const auto pass = [&](Duration time) {
    clock->Advance(time);
    RunOn(core->strand(), [&] {
      core->engine().Tick(clock->Now());
      core->engine().RunBackground(clock->Now());
    });
    while (transfer_queue->next()) {
      clock->Set(std::max(clock->Now(), *transfer_queue->next()));
      core->strand().Post(transfer_queue->TakeNext());
    }
  };
  static constexpr char kByte = 0;
  const auto put = [&](const std::string& key) {
    ASSERT_TRUE(core->Set(key, Source(&kByte, kMiB), {})) << key;
    pass(milliseconds(100));
  };
  const auto on_device = [&](const std::string& key) {
    const Store& store = core->engine().store();
    const std::uint32_t slot = store.index().Lookup(store.index().HashOf(key), key);
    return slot != kNoSlot && Has(store.slots().record(slot).copies, TierId::kDevice);
  };
  for (int i = 0; i < 6; ++i) put(fmt::format("kept{}", i));
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 10; ++i) pass(seconds(1));
    for (int i = 0; i < 6; ++i) {
      Lease lease;
      EXPECT_TRUE(core->Get(fmt::format("kept{}", i), &lease));
    }
  }
  pass(seconds(3));
  ASSERT_TRUE(core->stats().score.active);
  // Keys like these never return: the first few may still be given a chance.
  for (int i = 0; i < 200; ++i) put(fmt::format("once{}", i));
  EXPECT_GT(core->stats().score.sent_below, 100U);
  EXPECT_EQ(core->stats().refused_blocked, 0U);
  std::size_t kept = 0;
  for (int i = 0; i < 6; ++i) kept += on_device(fmt::format("kept{}", i)) ? 1 : 0;
  EXPECT_GE(kept, 3U);
  EXPECT_EQ(core->stats().entries, 206U);
  while (transfer_queue->next()) core->strand().Post(transfer_queue->TakeNext());
  (void)core->Close();
}

}  // namespace
}  // namespace spillway
