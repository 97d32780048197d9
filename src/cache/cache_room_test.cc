// SPDX-License-Identifier: Apache-2.0
// What is evicted for room and under pressure: the public API, on the embedded cpu
// device with time and pressure by hand.
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/core.h"
#include "cache/testing/cache_fixture.h"
#include "spillway/cache.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::CacheTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bytes kThird = 96 * kKiB;

// --- room, budget, ttl ---

TEST_F(CacheTest, RoomIsMadeByLastUseAndNoMoreThanIsLacking) {
  options_.capacity = 300 * kKiB;  // Three of kThird fit, four do not.
  Open();
  const std::string value(kThird, 'v');
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(Set(key, value));
    clock_->Advance(seconds(1));
  }
  Get("a");
  ASSERT_TRUE(Set("d", value));
  EXPECT_THAT(Left(), ElementsAre("b:destroy:room"));
}

TEST_F(CacheTest, ReplacingInAFullTierCostsNobodyElse) {
  options_.capacity = 300 * kKiB;  // Three of kThird fit, four do not.
  Open();
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Set(key, std::string(kThird, key[0])));
  ASSERT_TRUE(Set("c", std::string(kThird, 'C')));
  EXPECT_THAT(Left(), ElementsAre("c:destroy:replaced"));
  EXPECT_EQ(Get("c"), std::string(kThird, 'C'));
}

TEST_F(CacheTest, FullOfLeasesMeansBlockedAndNothingIsLost) {
  options_.capacity = 300 * kKiB;  // Three of kThird fit, four do not.
  Open();
  const std::string value(kThird, 'v');
  ASSERT_TRUE(Set("a", value));
  ASSERT_TRUE(Set("b", value));
  ASSERT_TRUE(Set("c", value));
  Lease a = std::move(**cache_->Get("a"));
  Lease b = std::move(**cache_->Get("b"));
  const Status status = Set("d", std::string(2 * kThird, 'd'));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kBlocked);
  EXPECT_THAT(status.error().message, HasSubstr("is full"));
  EXPECT_EQ(cache_->size(), 3U);
  EXPECT_THAT(Left(), ElementsAre());
}

TEST_F(CacheTest, TheTokenBudgetMakesRoomOrRefuses) {
  options_.token_budget = 100;
  Open();
  ASSERT_TRUE(Set("zero", "z", {.tokens = 0}));
  ASSERT_TRUE(Set("a", "1", {.tokens = 60}));
  clock_->Advance(seconds(1));
  ASSERT_TRUE(Set("b", "2", {.tokens = 40}));
  ASSERT_TRUE(Set("c", "3", {.tokens = 10}));
  EXPECT_THAT(Left(), ElementsAre("a:destroy:budget"));  // Not "zero": it would not help.
  EXPECT_EQ(cache_->total_tokens(), 50);
  ASSERT_TRUE(Set("c", "3", {.tokens = 60}));  // Its old tokens are not counted any more.
  EXPECT_THAT(Left(), ElementsAre("c:destroy:replaced"));
  Lease b = std::move(**cache_->Get("b"));
  Lease c = std::move(**cache_->Get("c"));
  const Status status = Set("d", "4", {.tokens = 10});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kOverBudget);
  EXPECT_EQ(Set("e", "5", {.tokens = 101}).error().code, Code::kOverBudget);
  EXPECT_EQ(cache_->stats().refused_budget, 2U);
}

TEST_F(CacheTest, IdleEntriesExpireAndUsedOnesDoNot) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  ASSERT_TRUE(Set("b", "2"));
  clock_->Advance(minutes(6));
  EXPECT_EQ(Get("b"), "2");
  clock_->Advance(minutes(4));
  cache_->Apply(0.0);  // a is idle for exactly the ttl: not longer.
  EXPECT_THAT(Left(), ElementsAre());
  clock_->Advance(Duration(1));
  cache_->Apply(0.0);
  EXPECT_THAT(Left(), ElementsAre("a:expire:expired"));
}

TEST_F(CacheTest, AnEntrysOwnTtlEndsItWhoeverReadsIt) {
  Open();
  ASSERT_TRUE(Set("a", "1", {.ttl = seconds(5)}));
  ASSERT_TRUE(Set("b", "2", {.parent = "a"}));
  clock_->Advance(seconds(4));
  EXPECT_EQ(Get("a"), "1");
  Lease lease = std::move(**cache_->Get("a"));
  clock_->Advance(seconds(1));
  EXPECT_FALSE(cache_->Contains("a"));
  EXPECT_EQ(Get("a"), "(miss)");
  EXPECT_EQ(lease.text(), "1");
  EXPECT_THAT(Left(), ElementsAre("a:expire:expired"));
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(cache_->Match({"a", "b"}), 0U);
}

// --- pressure ---

TEST_F(CacheTest, EmergencyRefusesSetsAndNothingElse) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  EXPECT_EQ(cache_->Apply(0.96).level, Level::kEmergency);
  EXPECT_TRUE(cache_->is_blocked());
  const Status status = Set("b", "2");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kBlocked);
  EXPECT_THAT(status.error().message, HasSubstr("emergency"));
  EXPECT_EQ(Get("a"), "1");
  EXPECT_TRUE(cache_->Touch("a"));
  EXPECT_TRUE(cache_->Erase("a"));
  EXPECT_EQ(cache_->stats().refused_blocked, 1U);
}

TEST_F(CacheTest, PressureTakesTheHeaviestUntilItsTarget) {
  options_.policy = "documented";
  Open();
  const std::string value(kMiB / 10, 'v');
  ASSERT_TRUE(Set("light", value, {.tokens = 10}));
  ASSERT_TRUE(Set("heavy", value, {.tokens = 1000}));
  ASSERT_TRUE(Set("used", value, {.tokens = 1500}));
  Get("used");
  Get("used");
  const Applied applied = cache_->Apply(0.90);
  ASSERT_EQ(applied.left.size(), 1U);
  EXPECT_EQ(applied.left[0].key, "heavy");
  EXPECT_EQ(events_.at(0).order, "heavy");
  EXPECT_NEAR(*cache_->pressure(), 0.80, 1e-5);
}

TEST_F(CacheTest, UnknownPressureStopsGrowthAndKeepsTheLevel) {
  Open();
  ASSERT_TRUE(Set("a", std::string(1000, 'a')));
  pressure_->Set(std::nullopt);
  cache_->Apply();
  EXPECT_EQ(cache_->pressure(), std::nullopt);
  EXPECT_EQ(cache_->level(), Level::kRelaxed);
  ASSERT_TRUE(Set("b", std::string(1000, 'b')));
  EXPECT_THAT(Left(), ElementsAre("a:destroy:room"));
  EXPECT_EQ(Set("c", std::string(1001, 'c')).error().code, Code::kBlocked);
  EXPECT_EQ(cache_->stats().samples_failed, 1U);
  pressure_->Set(0.1);
  cache_->Apply();
  EXPECT_TRUE(Set("c", std::string(1001, 'c')));
}

TEST_F(CacheTest, UnknownPressureBringsAnOverfullTierBack) {
  Open();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(Set("k" + std::to_string(i), std::string(kMiB / 10, 'x')));
  pressure_->Set(std::nullopt);
  cache_->Apply();
  EXPECT_EQ(cache_->size(), 8U);
}

TEST_F(CacheTest, StartSensesAndStopForgets) {
  options_.sample_period = milliseconds(1);
  Options options = WithWorld();
  options.clock = nullptr;
  cache_ = std::move(*Cache::Open(options));
  pressure_->Set(0.97);
  EXPECT_FALSE(cache_->is_blocked());  // Nothing samples yet.
  ASSERT_TRUE(cache_->Start());
  ASSERT_TRUE(cache_->Start());
  // The sampler works in real time; if 20 s are not enough, it does not work.
  for (int i = 0; i < 20'000 && !cache_->is_blocked(); ++i) usleep(1000);  // real world: a thread
  EXPECT_TRUE(cache_->is_blocked());
  cache_->Stop();
  cache_->Stop();
  EXPECT_FALSE(cache_->is_blocked());
  EXPECT_TRUE(Set("a", "1"));
}

TEST_F(CacheTest, ReclaimSaysWhyItFreesNothing) {
  Open();
  ASSERT_TRUE(Set("a", "1"));
  const Reclaimed reclaimed = cache_->Reclaim(100, seconds(1));
  EXPECT_EQ(reclaimed.freed, 0U);
  EXPECT_THAT(reclaimed.why_not_more, HasSubstr("never destroys"));
  EXPECT_EQ(cache_->Reclaim(0, seconds(1)).why_not_more, "");
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(CacheTest, HybridCountsEachAccessAsTenSeconds) {
  options_.policy = "hybrid";
  options_.capacity = 2 * kThird;
  Open();
  const std::string value(kThird, 'v');
  ASSERT_TRUE(Set("often", value));
  Get("often");
  Get("often");  // Worth 30 s by now.
  clock_->Advance(seconds(15));
  ASSERT_TRUE(Set("late", value));  // 15 s + 10 s.
  ASSERT_TRUE(Set("new", value));
  EXPECT_THAT(Left(), ElementsAre("late:destroy:room"));
}

TEST_F(CacheTest, NormalWithHybridTakesTheIdleInItsOrder) {
  options_.policy = "hybrid";
  Open();
  const std::string value(kMiB / 20, 'v');
  ASSERT_TRUE(Set("often", value));
  for (int i = 0; i < 3; ++i) Get("often");
  clock_->Advance(seconds(5));
  ASSERT_TRUE(Set("once", value));
  clock_->Advance(seconds(121));
  ASSERT_TRUE(Set("fresh", value));
  cache_->Apply(0.71);
  EXPECT_THAT(Left(), ElementsAre("once:destroy:idle"));
}

// --- sets that wait ---

struct Waiting : Engine::PendingSet {
  int number = 0;
  std::vector<std::string>* told = nullptr;
};

bool Tell(Engine::PendingSet* pending_set, bool expired) {
  auto* const waiting = static_cast<Waiting*>(pending_set);
  waiting->told->push_back(std::to_string(waiting->number) + (expired ? " expired" : ""));
  return true;
}

TEST_F(CacheTest, WhoWaitsForRoomIsAskedInTheOrderOfComingWhoeverGivesUp) {
  Open();
  ASSERT_TRUE(Set("k", "v"));
  Core* const core = Core::Of(*cache_);
  Engine& engine = core->engine();
  std::vector<std::string> told;
  std::array<Waiting, 7> waiting;
  RunOn(core->strand(), [&] {
    for (int i = 0; i < 6; ++i) {
      Waiting& one = waiting.at(static_cast<std::size_t>(i));
      one.number = i;
      one.told = &told;
      one.retry = &Tell;
      one.deadline = i == 1 || i == 4 ? clock_->Now() : TimePoint::max();
      engine.AddPendingSet(&one);
    }
    engine.RemovePendingSet(waiting.data() + 3);
    engine.RemovePendingSet(waiting.data());      // The first.
    engine.RemovePendingSet(waiting.data() + 5);  // The last.
    waiting[6] = waiting[2];
    waiting[6].number = 6;
    engine.AddPendingSet(waiting.data() + 6);
    while (engine.Tick(clock_->Now())) {
    }
  });
  EXPECT_THAT(told, ElementsAre("1 expired", "4 expired", "2", "6"));
  EXPECT_FALSE(engine.has_pending_sets());
}

// Walking past all the others for each of them would take minutes.
TEST_F(CacheTest, WaitingCostsTheSameHoweverManyWait) {
  constexpr std::size_t kMany = 300'000;
  Open();
  Core* const core = Core::Of(*cache_);
  std::vector<std::string> told;
  std::vector<Waiting> waiting(kMany);
  RunOn(core->strand(), [&] {
    for (Waiting& one : waiting) {
      one.told = &told;
      one.retry = &Tell;
      core->engine().AddPendingSet(&one);
    }
    while (waiting.size() > 1) {
      core->engine().RemovePendingSet(&waiting.back());
      waiting.pop_back();
    }
    core->engine().RemovePendingSet(waiting.data());
  });
  EXPECT_FALSE(core->engine().has_pending_sets());
  EXPECT_TRUE(told.empty());
}

}  // namespace
}  // namespace spillway
