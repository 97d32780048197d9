#include "policy/guard.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

// One window of requests of 1000 blocks each.
void Window(Guard* guard, double* now, std::size_t cache, std::size_t recency,
            std::size_t frequency) {
  for (std::size_t i = 0; i < Guard::kWindowRequests + 1; ++i) {
    guard->Observe(*now, 1000, cache, recency, frequency);
    *now += Guard::kWindowS / static_cast<double>(Guard::kWindowRequests);
  }
}

TEST(Guard, LeavesTheScoreAloneWithinHalfAPoint) {
  Guard guard;
  double now = 0;
  for (int i = 0; i < 5; ++i) Window(&guard, &now, 500, 504, 100);
  EXPECT_EQ(guard.leader(), Leader::kScore);
  EXPECT_EQ(guard.fallbacks(), 0U);
}

TEST(Guard, FollowsTheBetterShadowAndTriesAgain) {
  Guard guard;
  double now = 0;
  Window(&guard, &now, 500, 520, 560);
  EXPECT_EQ(guard.leader(), Leader::kFrequency);
  Window(&guard, &now, 560, 520, 560);
  EXPECT_EQ(guard.leader(), Leader::kScore);
}

TEST(Guard, StepsBackForLongerEachTimeInARow) {
  Guard guard;
  double now = 0;
  int windows_led = 0;
  for (int i = 0; i < 60; ++i) {
    const bool score = guard.leader() == Leader::kScore;
    if (!score) ++windows_led;
    Window(&guard, &now, score ? 400 : 600, 600, 100);
    if (score) {
      EXPECT_EQ(guard.leader(), Leader::kRecency);
    }
  }
  EXPECT_GE(windows_led, 50);  // The score had few of the sixty.
  EXPECT_LE(guard.fallbacks(), 8U);
}

TEST(Guard, JudgesOnlyAfterTimeAndRequests) {
  Guard guard;
  for (std::size_t i = 0; i < 10 * Guard::kWindowRequests; ++i) guard.Observe(1, 10, 0, 10, 0);
  EXPECT_EQ(guard.leader(), Leader::kScore);  // No time has passed.
  guard.Observe(1 + Guard::kWindowS, 10, 0, 10, 0);
  EXPECT_EQ(guard.leader(), Leader::kRecency);
}

}  // namespace
}  // namespace spillway
