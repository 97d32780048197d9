#include "demo/lru_shadow.h"

#include <gtest/gtest.h>

namespace spillway::demo {
namespace {

TEST(LruShadow, TheLeastRecentlyUsedGoesFirst) {
  LruShadow lru;
  lru.SetCapacity(30);
  for (const char* key : {"a", "b", "c"}) lru.Touch(key, 10);
  lru.Touch("a", 10);
  lru.Touch("d", 10);
  EXPECT_TRUE(lru.Holds("a"));
  EXPECT_FALSE(lru.Holds("b"));
  EXPECT_TRUE(lru.Holds("c"));
  EXPECT_TRUE(lru.Holds("d"));
  EXPECT_EQ(lru.bytes(), 30U);
}

TEST(LruShadow, WhatIsTakenFromItIsGoneThoughItComesBack) {
  LruShadow lru;
  lru.SetCapacity(30);
  for (const char* key : {"a", "b", "c"}) lru.Touch(key, 10);
  lru.SetCapacity(10);
  lru.SetCapacity(30);
  EXPECT_FALSE(lru.Holds("a"));
  EXPECT_FALSE(lru.Holds("b"));
  EXPECT_TRUE(lru.Holds("c"));
}

TEST(LruShadow, ForgottenOnesLeaveRoom) {
  LruShadow lru;
  lru.SetCapacity(20);
  lru.Touch("a", 10);
  lru.Touch("b", 10);
  lru.Forget("b");
  lru.Forget("nobody");
  lru.Touch("c", 10);
  EXPECT_TRUE(lru.Holds("a"));
  EXPECT_TRUE(lru.Holds("c"));
  EXPECT_EQ(lru.bytes(), 20U);
}

TEST(LruShadow, OneThatIsTooLargeIsNotHeld) {
  LruShadow lru;
  lru.SetCapacity(20);
  lru.Touch("a", 10);
  lru.Touch("large", 21);
  EXPECT_FALSE(lru.Holds("large"));
  EXPECT_EQ(lru.bytes(), 0U);
}

}  // namespace
}  // namespace spillway::demo
