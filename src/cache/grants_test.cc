#include "cache/grants.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Grants, WhatIsTakenIsKeptFreeNoLonger) {
  Grants grants;
  EXPECT_EQ(grants.left(), 0U);
  grants.See(500);
  grants.Set(1, 100);
  EXPECT_TRUE(grants.any());
  EXPECT_EQ(grants.left(), 100U);
  grants.See(560);
  EXPECT_EQ(grants.left(), 40U);
  grants.See(700);
  EXPECT_EQ(grants.left(), 0U);
  EXPECT_EQ(grants.granted(), 100U);
  grants.See(500);  // Given back, and not yet over: it may be taken again.
  EXPECT_EQ(grants.left(), 100U);
  grants.See(500);
  grants.Set(1, 0);
  EXPECT_FALSE(grants.any());
  EXPECT_EQ(grants.left(), 0U);
}

TEST(Grants, WhatSomebodyElseGivesBackDoesNotHideWhatIsTaken) {
  Grants grants;
  grants.See(500);
  grants.Set(1, 100);
  grants.See(300);  // Another cache gives its share.
  EXPECT_EQ(grants.left(), 100U);
  grants.See(400);
  EXPECT_EQ(grants.left(), 0U);
}

TEST(Grants, SeveralAddUpAndEndOneByOne) {
  Grants grants;
  grants.See(500);
  grants.Set(1, 100);
  grants.See(560);
  grants.See(560);
  grants.Set(2, 50);
  EXPECT_EQ(grants.granted(), 150U);
  EXPECT_EQ(grants.left(), 90U);
  grants.See(560);
  grants.Set(1, 0);  // What was taken was its own.
  EXPECT_EQ(grants.left(), 50U);
  grants.See(610);
  EXPECT_EQ(grants.left(), 0U);
  grants.See(610);
  grants.Set(2, 0);
  grants.See(610);
  grants.Set(3, 10);
  EXPECT_EQ(grants.left(), 10U);
  grants.See(610);
  grants.Set(9, 0);  // Nobody's.
  EXPECT_EQ(grants.left(), 10U);
}

TEST(Grants, OneThatShrinksHasTakenWhatItHasTaken) {
  Grants grants;
  grants.See(0);
  grants.Set(1, 100);
  grants.See(30);
  grants.See(30);
  grants.Set(1, 50);
  EXPECT_EQ(grants.left(), 20U);
}

}  // namespace
}  // namespace spillway
