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

// Looks at `pressure` (a function of seconds) as the poller would.
class Watcher {
 public:
  explicit Watcher(std::function<std::optional<double>(double)> pressure)
      : pressure_(std::move(pressure)) {}

  void RunFor(Duration duration) {
    const TimePoint end = now_ + duration;
    while (now_ < end) {
      const std::optional<double> at =
          pressure_(std::chrono::duration<double>(now_.time_since_epoch()).count());
      const Level before = governor_.level();
      if (governor_.Sample(at, now_) != before) ++changes_;
      ++looks_;
      last_wait_ = pace_.After(at, cost_, now_);
      now_ += last_wait_;
    }
  }

  int looks_ = 0;
  int changes_ = 0;
  Duration cost_ = kCheap;
  Duration last_wait_{};
  TimePoint now_;
  Governor governor_{Governor::Settings{}};
  Pace pace_{Pace::Settings{}};

 private:
  const std::function<std::optional<double>(double)> pressure_;
};

TEST(Pace, IsSlowWhereNothingIsNearAndNothingMoves) {
  Watcher watcher([](double) { return 0.3; });
  watcher.RunFor(seconds(10));
  EXPECT_EQ(watcher.last_wait_, milliseconds(50));
  EXPECT_LE(watcher.looks_, 201);
}

TEST(Pace, IsFastAJumpAwayFromAThresholdHoweverQuietItIs) {
  for (const double threshold : {0.70, 0.85, 0.92, 0.96}) {
    for (const double under : {0.005, 0.02, 0.03}) {
      Watcher watcher([&](double) { return threshold - under; });
      watcher.RunFor(seconds(20));
      EXPECT_EQ(watcher.last_wait_, milliseconds(8)) << threshold << " - " << under;
    }
  }
}

TEST(Pace, GoesFromNearToFarWithoutASteep) {
  Duration before{};
  for (const double distance : {0.05, 0.07, 0.09, 0.11, 0.13}) {
    Watcher watcher([&](double) { return 0.70 - distance; });
    watcher.RunFor(seconds(5));
    EXPECT_GE(watcher.last_wait_, before);
    before = watcher.last_wait_;
  }
  EXPECT_EQ(before, milliseconds(50));
}

TEST(Pace, LooksEveryMillisecondWhileItMovesAndCalmsDown) {
  Watcher watcher([](double t) { return std::min(0.2 + 0.3 * t, 0.5); });
  watcher.RunFor(milliseconds(900));
  EXPECT_LE(watcher.last_wait_, milliseconds(2));
  watcher.RunFor(seconds(3));
  EXPECT_EQ(watcher.last_wait_, milliseconds(50));
  EXPECT_LT(watcher.pace_.rise_per_second(), 1e-6);
}

TEST(Pace, FarFromAThresholdMovementIsOfLessConcern) {
  const auto saw = [](double middle) {
    return [middle](double t) { return middle + (std::fmod(t, 0.04) < 0.02 ? 0.007 : 0.0); };
  };
  Watcher near(saw(0.60));
  Watcher far(saw(0.25));
  near.RunFor(seconds(5));
  far.RunFor(seconds(5));
  EXPECT_GT(near.looks_, 4500);
  EXPECT_LT(far.looks_, 2000);
}

TEST(Pace, ASteadyRiseIsMetBeforeTheThreshold) {
  // 1 % a second: too slow for one look to notice.
  Watcher watcher([](double t) { return 0.60 + 0.01 * t; });
  watcher.RunFor(milliseconds(9'900));
  EXPECT_LE(watcher.last_wait_, milliseconds(8));
  EXPECT_GT(watcher.pace_.rise_per_second(), 0.005);
}

TEST(Pace, OverTheLastThresholdItStaysAwake) {
  Watcher watcher([](double) { return 0.99; });
  watcher.RunFor(seconds(1));
  EXPECT_EQ(watcher.last_wait_, milliseconds(8));
}

TEST(Pace, ADearCallIsMadeSeldom) {
  Watcher watcher([](double) { return 0.69; });
  watcher.cost_ = milliseconds(3);
  watcher.RunFor(seconds(1));
  EXPECT_EQ(watcher.last_wait_, milliseconds(60));
  watcher.cost_ = milliseconds(500);
  watcher.RunFor(seconds(1));
  EXPECT_EQ(watcher.last_wait_, Pace::kLongestBackOff);
}

TEST(Pace, BacksOffFromASourceThatFailsAndIsBackWithinTwoSeconds) {
  bool broken = true;
  Watcher watcher([&](double) { return broken ? std::nullopt : std::optional(0.3); });
  watcher.RunFor(seconds(60));
  EXPECT_EQ(watcher.last_wait_, Pace::kLongestBackOff);
  EXPECT_LT(watcher.looks_, 90);
  EXPECT_TRUE(watcher.governor_.unknown());
  broken = false;
  watcher.RunFor(seconds(2));
  EXPECT_FALSE(watcher.governor_.unknown());
  EXPECT_EQ(watcher.last_wait_, milliseconds(50));
}

TEST(Pace, AfterActingItLooksAtOnce) {
  EXPECT_EQ(Pace(Pace::Settings{}).AfterActing(), milliseconds(1));
}

// +-3 % around each threshold, 5 times a second, for a minute.
TEST(PaceAndGovernor, ASawtoothDoesNotMakeTheLevelFlap) {
  for (const double threshold : {0.70, 0.85, 0.92, 0.96}) {
    Watcher watcher([&](double t) {
      if (t < 5) return threshold - 0.03;  // From rest, not from nothing.
      const double phase = t * 5 - std::floor(t * 5);
      return std::min(threshold - 0.03 + 0.06 * phase, 1.0);
    });
    watcher.RunFor(seconds(5));
    const int at_rest = watcher.changes_;
    for (int ten_seconds = 0; ten_seconds < 6; ++ten_seconds) {
      const int before = watcher.changes_;
      watcher.RunFor(seconds(10));
      EXPECT_LE(watcher.changes_ - before, 1)
          << threshold << ", after " << ten_seconds * 10 << " s";
    }
    EXPECT_EQ(watcher.changes_, at_rest + 1) << threshold;
  }
}

TEST(PaceAndGovernor, AStepIsAnEmergencyWithTheVeryNextSample) {
  Watcher watcher([](double t) { return t < 1 ? 0.5 : 0.97; });
  watcher.RunFor(seconds(1));
  const int looks = watcher.looks_;
  EXPECT_EQ(watcher.governor_.level(), Level::kRelaxed);
  watcher.RunFor(watcher.last_wait_);
  EXPECT_LE(watcher.looks_ - looks, 1 + 50);
  EXPECT_EQ(watcher.governor_.level(), Level::kEmergency);
  EXPECT_EQ(watcher.changes_, 1);
}

}  // namespace
}  // namespace spillway
