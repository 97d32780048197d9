// SPDX-License-Identifier: Apache-2.0
#include "cache/peer_reservations.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Grants, WhatIsTakenIsKeptFreeNoLonger) {
  PeerReservations reservations;
  EXPECT_EQ(reservations.left(), 0U);
  reservations.See(500);
  reservations.Set(1, 100);
  EXPECT_TRUE(reservations.any());
  EXPECT_EQ(reservations.left(), 100U);
  reservations.See(560);
  EXPECT_EQ(reservations.left(), 40U);
  reservations.See(700);
  EXPECT_EQ(reservations.left(), 0U);
  EXPECT_EQ(reservations.granted(), 100U);
  reservations.See(500);  // Freed, but the grant has not ended: it may be taken again.
  EXPECT_EQ(reservations.left(), 100U);
  reservations.See(500);
  reservations.Set(1, 0);
  EXPECT_FALSE(reservations.any());
  EXPECT_EQ(reservations.left(), 0U);
}

TEST(Grants, WhatSomebodyElseGivesBackDoesNotHideWhatIsTaken) {
  PeerReservations reservations;
  reservations.See(500);
  reservations.Set(1, 100);
  reservations.See(300);  // Another cache gives back its share.
  EXPECT_EQ(reservations.left(), 100U);
  reservations.See(400);
  EXPECT_EQ(reservations.left(), 0U);
}

TEST(Grants, SeveralAddUpAndEndOneByOne) {
  PeerReservations reservations;
  reservations.See(500);
  reservations.Set(1, 100);
  reservations.See(560);
  reservations.See(560);
  reservations.Set(2, 50);
  EXPECT_EQ(reservations.granted(), 150U);
  EXPECT_EQ(reservations.left(), 90U);
  reservations.See(560);
  reservations.Set(1, 0);  // What was taken was its own.
  EXPECT_EQ(reservations.left(), 50U);
  reservations.See(610);
  EXPECT_EQ(reservations.left(), 0U);
  reservations.See(610);
  reservations.Set(2, 0);
  reservations.See(610);
  reservations.Set(3, 10);
  EXPECT_EQ(reservations.left(), 10U);
  reservations.See(610);
  reservations.Set(9, 0);  // There is no such grant.
  EXPECT_EQ(reservations.left(), 10U);
}

TEST(Grants, OneThatShrinksHasTakenWhatItHasTaken) {
  PeerReservations reservations;
  reservations.See(0);
  reservations.Set(1, 100);
  reservations.See(30);
  reservations.See(30);
  reservations.Set(1, 50);
  EXPECT_EQ(reservations.left(), 20U);
}

}  // namespace
}  // namespace spillway
