// SPDX-License-Identifier: Apache-2.0
#include "policy/return_table.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(AgeBins, EveryAgeIsInsideItsBin) {
  const auto& edges = AgeEdges();
  for (const double age : {0.0, 0.1, 0.25, 0.26, 1.0, 59.9, 60.0, 3600.0, 86400.0, 400000.0}) {
    const std::size_t bin = AgeBin(age);
    EXPECT_GE(age, edges[bin] * (1 - 1e-12)) << age;
    EXPECT_LT(age, edges[bin + 1]) << age;
  }
  EXPECT_EQ(AgeBin(-1), 0U);
  EXPECT_EQ(AgeBin(1e300), kAgeBins - 1);
}

TEST(ReturnTable, RanksByAgeBeforeItHasSeenAnything) {
  ReturnTable table;
  double before = table.Worth(ReturnTable::kAll, 0, 0);
  for (const double age : {1.0, 5.0, 30.0, 200.0, 3000.0, 50000.0}) {
    const double worth = table.Worth(ReturnTable::kAll, age, 0);
    EXPECT_LT(worth, before) << age;
    before = worth;
  }
}

// Entries of class `c` wait `wait` seconds, one after another, and return or not.
void Wait(ReturnTable* table, ReturnClass c, double wait, bool back, double* now) {
  const auto& edges = AgeEdges();
  const double since = *now;
  const std::size_t last = AgeBin(wait);
  double entered = since;
  for (std::size_t bin = 0; bin < last; ++bin) {
    table->Enter(c, bin, 1, entered);
    table->Leave(c, bin, 1, entered, since + edges[bin + 1]);
    entered = since + edges[bin + 1];
  }
  table->Enter(c, last, 1, entered);
  *now = since + wait;
  if (back) {
    table->ReturnAfter(c, last, 1, entered, since, wait);
  } else {
    table->Leave(c, last, 1, entered, *now);
  }
}

TEST(ReturnTable, FindsTheRateOfThoseWhoComeAtRandom) {
  ReturnTable table;
  std::mt19937_64 dice(7);
  std::exponential_distribution<double> wait(0.1);
  double now = 0;
  for (int i = 0; i < 4000; ++i) Wait(&table, ReturnTable::kAll, wait(dice), true, &now);
  EXPECT_NEAR(table.Worth(ReturnTable::kAll, 0, now), 0.1, 0.02);
  EXPECT_NEAR(table.Worth(ReturnTable::kAll, 10, now), 0.1, 0.02);  // The process has no memory.
}

TEST(ReturnTable, CountsTheTimeOfThoseWhoNeverCome) {
  ReturnTable table;
  double now = 0;
  for (int i = 0; i < 500; ++i) {
    Wait(&table, ReturnTable::kAll, 10, true, &now);
    for (int k = 0; k < 3; ++k) Wait(&table, ReturnTable::kAll, 1000, false, &now);
  }
  // A quarter return after 10 s: holding all of them for 10 s is the best horizon.
  EXPECT_NEAR(table.Worth(ReturnTable::kAll, 0, now), 0.25 / 10, 0.012);
  EXPECT_LT(table.Worth(ReturnTable::kAll, 100, now), 0.002);
}

TEST(ReturnTable, WhoWaitsStillCountsToo) {
  ReturnTable some;
  ReturnTable many;
  double now = 0;
  for (int i = 0; i < 20; ++i) Wait(&some, ReturnTable::kAll, 20, true, &now);
  double again = 0;
  for (int i = 0; i < 20; ++i) Wait(&many, ReturnTable::kAll, 20, true, &again);
  const std::size_t bin = AgeBin(20);
  for (int i = 0; i < 200; ++i) many.Enter(ReturnTable::kAll, bin, 1, again - 3);
  EXPECT_LT(many.Worth(ReturnTable::kAll, 15, again), some.Worth(ReturnTable::kAll, 15, now) / 2);
}

TEST(ReturnTable, AClassLeansOnTheOneAboveUntilItHasItsOwn) {
  ReturnTable table;
  const ReturnClass quick = table.Under(ReturnTable::kAll, 1);
  const ReturnClass slow = table.Under(ReturnTable::kAll, 2);
  double now = 0;
  for (int i = 0; i < 300; ++i) Wait(&table, quick, 5, true, &now);
  const double leant = table.Worth(slow, 0, now);
  EXPECT_NEAR(leant, table.Worth(quick, 0, now), leant * 0.2);
  for (int i = 0; i < 300; ++i) Wait(&table, slow, 500, true, &now);
  EXPECT_LT(table.Worth(slow, 0, now), table.Worth(quick, 0, now) / 10);
}

TEST(ReturnTable, KnowsNoMoreClassesThanItMay) {
  ReturnTable table;
  EXPECT_EQ(table.Under(ReturnTable::kAll, 5), table.Under(ReturnTable::kAll, 5));
  for (std::uint32_t i = 0; i < 2 * ReturnTable::kClassesMax; ++i) {
    table.Under(ReturnTable::kAll, i);
  }
  EXPECT_EQ(table.classes(), ReturnTable::kClassesMax);
  EXPECT_EQ(table.Under(ReturnTable::kAll, 1U << 30), ReturnTable::kAll);
}

}  // namespace
}  // namespace spillway
