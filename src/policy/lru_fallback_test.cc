// SPDX-License-Identifier: Apache-2.0
#include "policy/lru_fallback.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

// One window of uses with a weight of 1000 each.
void Window(LruFallback* guard, double* now, std::size_t cache, std::size_t by_last_use) {
  for (std::size_t i = 0; i < LruFallback::kWindowUses + 1; ++i) {
    guard->Observe(*now, 1000, cache, by_last_use);
    *now += LruFallback::kWindowS / static_cast<double>(LruFallback::kWindowUses);
  }
}

TEST(LruFallback, LeavesTheScoreAloneWithinHalfAPoint) {
  LruFallback guard;
  double now = 0;
  for (int i = 0; i < 5; ++i) Window(&guard, &now, 500, 504);
  EXPECT_FALSE(guard.steps_back());
  EXPECT_EQ(guard.fallbacks(), 0U);
}

TEST(LruFallback, StepsBackBehindLastUseAndTriesAgain) {
  LruFallback guard;
  double now = 0;
  Window(&guard, &now, 500, 520);
  EXPECT_TRUE(guard.steps_back());
  Window(&guard, &now, 520, 520);
  EXPECT_FALSE(guard.steps_back());
}

TEST(LruFallback, StepsBackForLongerEachTimeInARow) {
  LruFallback guard;
  double now = 0;
  int windows_led = 0;
  for (int i = 0; i < 60; ++i) {
    const bool score = !guard.steps_back();
    if (!score) ++windows_led;
    Window(&guard, &now, score ? 400 : 600, 600);
    if (score) {
      EXPECT_TRUE(guard.steps_back());
    }
  }
  EXPECT_GE(windows_led, 50);  // The score led in only a few of the sixty.
  EXPECT_LE(guard.fallbacks(), 8U);
}

TEST(LruFallback, JudgesOnlyAfterTimeAndUses) {
  LruFallback guard;
  for (std::size_t i = 0; i < 10 * LruFallback::kWindowUses; ++i) guard.Observe(1, 10, 0, 10);
  EXPECT_FALSE(guard.steps_back());  // No time has passed.
  guard.Observe(1 + LruFallback::kWindowS, 10, 0, 10);
  EXPECT_TRUE(guard.steps_back());
}

}  // namespace
}  // namespace spillway
