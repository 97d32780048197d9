// SPDX-License-Identifier: Apache-2.0
#include "monitor/pace.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "monitor/governor.h"

namespace spillway {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kCheap = microseconds(7);

// Reads `pressure` (a function of seconds) like the poller.
class Watcher {
 public:
  explicit Watcher(std::function<std::optional<double>(double)> pressure)
      : pressure_(std::move(pressure)) {}

  void RunFor(Duration duration) {
    const TimePoint end = now + duration;
    while (now < end) {
      const std::optional<double> at =
          pressure_(std::chrono::duration<double>(now.time_since_epoch()).count());
      const Level before = governor.level();
      if (governor.Sample(at, now) != before) ++changes;
      ++looks;
      last_wait = pace.After(at, cost, now);
      now += last_wait;
    }
  }

  int looks = 0;
  int changes = 0;
  Duration cost = kCheap;
  Duration last_wait{};
  TimePoint now;
  Governor governor{Governor::Settings{}};
  Pace pace{Pace::Settings{}};

 private:
  const std::function<std::optional<double>(double)> pressure_;
};

TEST(Pace, IsSlowWhereNothingIsNearAndNothingMoves) {
  Watcher watcher([](double) { return 0.3; });
  watcher.RunFor(seconds(10));
  EXPECT_EQ(watcher.last_wait, milliseconds(50));
  EXPECT_LE(watcher.looks, 201);
}

TEST(Pace, IsFastAJumpAwayFromAThresholdHoweverQuietItIs) {
  for (const double threshold : {0.70, 0.85, 0.92, 0.96}) {
    for (const double under : {0.005, 0.02, 0.03}) {
      Watcher watcher([&](double) { return threshold - under; });
      watcher.RunFor(seconds(20));
      EXPECT_EQ(watcher.last_wait, milliseconds(8)) << threshold << " - " << under;
    }
  }
}

TEST(Pace, GoesFromNearToFarWithoutASteep) {
  Duration before{};
  for (const double distance : {0.05, 0.07, 0.09, 0.11, 0.13}) {
    Watcher watcher([&](double) { return 0.70 - distance; });
    watcher.RunFor(seconds(5));
    EXPECT_GE(watcher.last_wait, before);
    before = watcher.last_wait;
  }
  EXPECT_EQ(before, milliseconds(50));
}

TEST(Pace, LooksEveryMillisecondWhileItMovesAndCalmsDown) {
  Watcher watcher([](double t) { return std::min(0.2 + 0.3 * t, 0.5); });
  watcher.RunFor(milliseconds(900));
  EXPECT_LE(watcher.last_wait, milliseconds(2));
  watcher.RunFor(seconds(3));
  EXPECT_EQ(watcher.last_wait, milliseconds(50));
  EXPECT_LT(watcher.pace.rise_per_second(), 1e-6);
}

TEST(Pace, FarFromAThresholdMovementIsOfLessConcern) {
  const auto saw = [](double middle) {
    return [middle](double t) { return middle + (std::fmod(t, 0.04) < 0.02 ? 0.007 : 0.0); };
  };
  Watcher near(saw(0.60));
  Watcher far(saw(0.25));
  near.RunFor(seconds(5));
  far.RunFor(seconds(5));
  EXPECT_GT(near.looks, 4500);
  EXPECT_LT(far.looks, 2000);
}

TEST(Pace, ASteadyRiseIsMetBeforeTheThreshold) {
  // 1 % a second: too slow for a single reading to detect.
  Watcher watcher([](double t) { return 0.60 + 0.01 * t; });
  watcher.RunFor(milliseconds(9'900));
  EXPECT_LE(watcher.last_wait, milliseconds(8));
  EXPECT_GT(watcher.pace.rise_per_second(), 0.005);
}

TEST(Pace, OverTheLastThresholdItStaysAwake) {
  Watcher watcher([](double) { return 0.99; });
  watcher.RunFor(seconds(1));
  EXPECT_EQ(watcher.last_wait, milliseconds(8));
}

TEST(Pace, ADearCallIsMadeSeldom) {
  Watcher watcher([](double) { return 0.69; });
  watcher.cost = milliseconds(3);
  watcher.RunFor(seconds(1));
  EXPECT_EQ(watcher.last_wait, milliseconds(60));
  watcher.cost = milliseconds(500);
  watcher.RunFor(seconds(1));
  EXPECT_EQ(watcher.last_wait, Pace::kLongestBackOff);
}

// Its calls wait while a neighbour is busy in the driver.
TEST(Pace, LooksOnWhereSomeCallsAreSlow) {
  Watcher watcher([](double) { return 0.3; });
  for (int times = 0; times < 5; ++times) {
    watcher.cost = kCheap;
    watcher.RunFor(milliseconds(100));
    watcher.cost = milliseconds(20);
    watcher.RunFor(milliseconds(300));
    EXPECT_EQ(watcher.last_wait, milliseconds(50));
  }
}

TEST(Pace, BacksOffFromASourceThatFailsAndIsBackWithinTwoSeconds) {
  bool broken = true;
  Watcher watcher([&](double) { return broken ? std::nullopt : std::optional(0.3); });
  watcher.RunFor(seconds(60));
  EXPECT_EQ(watcher.last_wait, Pace::kLongestBackOff);
  EXPECT_LT(watcher.looks, 90);
  EXPECT_TRUE(watcher.governor.unknown());
  broken = false;
  watcher.RunFor(seconds(2));
  EXPECT_FALSE(watcher.governor.unknown());
  EXPECT_EQ(watcher.last_wait, milliseconds(50));
}

TEST(Pace, AfterActingItLooksAtOnce) {
  EXPECT_EQ(Pace(Pace::Settings{}).AfterActing(), milliseconds(1));
}

// +-3 % around each threshold, 5 times a second, for a minute.
TEST(PaceAndGovernor, ASawtoothDoesNotMakeTheLevelFlap) {
  for (const double threshold : {0.70, 0.85, 0.92, 0.96}) {
    Watcher watcher([&](double t) {
      if (t < 5) return threshold - 0.03;  // Starts at rest, not from nothing.
      const double phase = t * 5 - std::floor(t * 5);
      return std::min(threshold - 0.03 + 0.06 * phase, 1.0);
    });
    watcher.RunFor(seconds(5));
    const int at_rest = watcher.changes;
    for (int ten_seconds = 0; ten_seconds < 6; ++ten_seconds) {
      const int before = watcher.changes;
      watcher.RunFor(seconds(10));
      EXPECT_LE(watcher.changes - before, 1) << threshold << ", after " << ten_seconds * 10 << " s";
    }
    EXPECT_EQ(watcher.changes, at_rest + 1) << threshold;
  }
}

TEST(PaceAndGovernor, AStepIsAnEmergencyWithTheVeryNextSample) {
  Watcher watcher([](double t) { return t < 1 ? 0.5 : 0.97; });
  watcher.RunFor(seconds(1));
  const int looks = watcher.looks;
  EXPECT_EQ(watcher.governor.level(), Level::kRelaxed);
  watcher.RunFor(watcher.last_wait);
  EXPECT_LE(watcher.looks - looks, 1 + 50);
  EXPECT_EQ(watcher.governor.level(), Level::kEmergency);
  EXPECT_EQ(watcher.changes, 1);
}

}  // namespace
}  // namespace spillway
