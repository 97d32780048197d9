// SPDX-License-Identifier: Apache-2.0
#include "policy/policy.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::seconds;

class NoFacts : public FactReader {
 public:
  bool Read(EntryId, Facts*) const override { return false; }
  RankMarks* Marks(EntryId) const override { return nullptr; }
};

TEST(DocumentedRule, RelaxedAsksForNothing) {
  const auto rule = MakeDocumentedRule({});
  EXPECT_EQ(rule->For(Level::kRelaxed, {1000, false}).size, 0U);
}

TEST(DocumentedRule, NormalTakesTheIdleUntilUnderItsExit) {
  const Relief relief = MakeDocumentedRule({})->For(Level::kNormal, {1000, false});
  ASSERT_EQ(relief.size, 1U);
  const Stage& stage = *relief.begin();
  EXPECT_EQ(stage.idle_over, Duration(seconds(120)));
  EXPECT_EQ(stage.reason, Reason::kIdle);
  EXPECT_DOUBLE_EQ(*stage.target, 0.68);
}

TEST(DocumentedRule, PressureGoesByOrderAndDestroysOffTheLastTier) {
  const Relief relief = MakeDocumentedRule({})->For(Level::kPressure, {1000, false});
  ASSERT_EQ(relief.size, 1U);
  EXPECT_FALSE(relief.begin()->idle_over);
  EXPECT_EQ(relief.begin()->reason, Reason::kHeavy);
  EXPECT_EQ(relief.begin()->action, Action::kDestroy);
  EXPECT_DOUBLE_EQ(*relief.begin()->target, 0.83);
}

TEST(DocumentedRule, CriticalOffloadsWhereThereIsALowerTier) {
  const auto rule = MakeDocumentedRule({});
  const Relief alone = rule->For(Level::kCritical, {1000, false});
  ASSERT_EQ(alone.size, 1U);
  EXPECT_EQ(alone.begin()->action, Action::kDestroy);
  const Relief tiered = rule->For(Level::kCritical, {1000, true});
  ASSERT_EQ(tiered.size, 2U);
  for (const Stage& stage : tiered) EXPECT_EQ(stage.action, Action::kDemote);
}

TEST(DocumentedRule, EmergencyDestroysOnlyTheIdle) {
  const auto rule = MakeDocumentedRule({});
  const Relief alone = rule->For(Level::kEmergency, {1000, false});
  ASSERT_EQ(alone.size, 1U);
  EXPECT_EQ(alone.begin()->idle_over, Duration(seconds(30)));
  EXPECT_FALSE(alone.begin()->target);
  EXPECT_EQ(rule->For(Level::kEmergency, {1000, true}).stages[1].action, Action::kDemote);
}

TEST(SeedRule, PressureTakesAQuarterAndAtLeastOne) {
  const auto rule = MakeSeedRule();
  EXPECT_EQ(rule->For(Level::kPressure, {1, false}).begin()->count, 1U);
  EXPECT_EQ(rule->For(Level::kPressure, {7, false}).begin()->count, 1U);
  EXPECT_EQ(rule->For(Level::kPressure, {8, false}).begin()->count, 2U);
}

TEST(SeedRule, RunsAfterSetsFromPressureOn) {
  const auto rule = MakeSeedRule();
  EXPECT_FALSE(rule->RunsAfterSet(Level::kNormal));
  EXPECT_TRUE(rule->RunsAfterSet(Level::kPressure));
  EXPECT_TRUE(rule->RunsAfterSet(Level::kEmergency));
  EXPECT_FALSE(rule->RunsOnEverySample());
  EXPECT_FALSE(rule->keeps_lineage());
  EXPECT_EQ(rule->ForUnknown().size, 0U);
}

TEST(Policy, UnknownNamesListTheKnownOnes) {
  NoFacts facts;
  Ranking idle(KeyByLastUse, &facts, RankMark{1});
  const auto policy = MakePolicy("lfu", {}, {&facts, &idle, RankMark{2}});
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().code, Code::kInvalidArgument);
  EXPECT_NE(policy.error().message.find("documented, lru, hybrid, workflow, score, seed"),
            std::string::npos);
}

TEST(Policy, OtherOrdersGiveOrderAsTheirReason) {
  NoFacts facts;
  Ranking idle(KeyByLastUse, &facts, RankMark{1});
  for (const char* name : {"lru", "hybrid"}) {
    const auto policy = MakePolicy(name, {}, {&facts, &idle, RankMark{2}});
    ASSERT_TRUE(policy);
    EXPECT_EQ(policy->rule->For(Level::kPressure, {}).begin()->reason, Reason::kOrder) << name;
    EXPECT_EQ(policy->order->name(Level::kPressure), name);
  }
}

TEST(DocumentedOrder, RanksByLastUseThenByWeight) {
  NoFacts facts;
  Ranking idle(KeyByLastUse, &facts, RankMark{1});
  const auto order = MakeDocumentedOrder({&facts, &idle, RankMark{2}});
  EXPECT_EQ(order->name(Level::kRelaxed), "lru");
  EXPECT_EQ(order->name(Level::kNormal), "lru");
  EXPECT_EQ(order->name(Level::kPressure), "heavy");
  EXPECT_EQ(order->name(Level::kEmergency), "heavy");
}

}  // namespace
}  // namespace spillway
