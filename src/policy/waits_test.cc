#include "policy/waits.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Waits, OneWhoIsMuchOlderThanAtTheLastLookPassesEveryBin) {
  Waits waits;
  double now = 0;
  for (int i = 0; i < 5000; ++i) {
    const WaitId id = waits.Begin(ReturnTable::kAll, now);
    now += 100;
    waits.Advance(now);
    waits.Return(id, 1, now);
  }
  EXPECT_EQ(waits.size(), 0U);
  // All are back after 100 s, so a place is held 100 s for one of them.
  EXPECT_NEAR(waits.WorthAtOnce(ReturnTable::kAll, now), 0.01, 0.005);
  EXPECT_GT(waits.table().Worth(ReturnTable::kAll, 80, now),
            waits.WorthAtOnce(ReturnTable::kAll, now));
}

TEST(Waits, ThoseOfferedLeaveOldestFirstWhenNothingIsKnown) {
  Waits waits;
  const WaitId a = waits.Begin(ReturnTable::kAll, 0);
  const WaitId b = waits.Begin(ReturnTable::kAll, 10);
  const WaitId c = waits.Begin(ReturnTable::kAll, 20);
  waits.Advance(1000);
  EXPECT_FALSE(waits.Least(1000));
  waits.Offer(b);
  waits.Offer(c);
  EXPECT_EQ(waits.Least(1000)->id, b);
  waits.Offer(a);  // Late, and the oldest all the same.
  EXPECT_EQ(waits.Least(1000)->id, a);
  EXPECT_EQ(waits.LeastBy([&](WaitId id) { return waits.since(id); }), a);
  waits.Withdraw(a);
  waits.Return(b, 1, 1000);
  EXPECT_EQ(waits.Least(1000)->id, c);
}

TEST(Waits, OneWhoMovesToAClassThatNeverReturnsLeavesFirst) {
  Waits waits;
  const ReturnClass good = waits.table().Under(ReturnTable::kAll, 1);
  const ReturnClass bad = waits.table().Under(ReturnTable::kAll, 2);
  double now = 0;
  for (int i = 0; i < 100; ++i) {
    const WaitId back = waits.Begin(good, now);
    waits.Begin(bad, now);
    now += 5;
    waits.Advance(now);
    waits.Return(back, 1, now);
  }
  const WaitId old = waits.Begin(good, now);
  const WaitId young = waits.Begin(good, now + 3);
  waits.Offer(old);
  waits.Offer(young);
  waits.Advance(now + 4);
  waits.Move(young, bad, now + 4);
  EXPECT_EQ(waits.class_of(young), bad);
  EXPECT_EQ(waits.Least(now + 4)->id, young);
}

TEST(Waits, PartsThatReturnLeaveTheRestWaiting) {
  Waits waits;
  const WaitId id = waits.Begin(ReturnTable::kAll, 0);
  waits.Return(id, 0.5, 10);
  EXPECT_EQ(waits.size(), 1U);
  waits.Return(id, 1, 20);
  EXPECT_EQ(waits.size(), 0U);
}

TEST(Waits, ForgetsTheOldestOfThoseThatMayGo) {
  Waits waits(16);
  std::vector<WaitId> forgotten;
  const WaitId kept = waits.Begin(ReturnTable::kAll, 0);
  for (int i = 1; i <= 1000; ++i) {
    waits.Begin(ReturnTable::kAll, i);
    waits.Advance(i);
    waits.ForgetOldest(i, [&](WaitId id) { return id != kept; }, &forgotten);
    ASSERT_LE(waits.size(), 16U);
  }
  EXPECT_EQ(waits.since(kept), 0);
  EXPECT_GE(forgotten.size(), 1000U - 16U);
  waits.Return(kept, 1, 1001);  // Still counted.
}

}  // namespace
}  // namespace spillway
