// SPDX-License-Identifier: Apache-2.0
#include "monitor/governor.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint At(double s) { return TimePoint(Duration(static_cast<Duration::rep>(s * 1e9))); }

TEST(Governor, EntersALevelWithTheSampleThatReachesIt) {
  Governor governor({});
  EXPECT_EQ(governor.Sample(0.6999, At(0)), Level::kRelaxed);
  EXPECT_EQ(governor.Sample(0.70, At(1)), Level::kNormal);
  EXPECT_EQ(governor.Sample(0.85, At(2)), Level::kPressure);
  EXPECT_EQ(governor.Sample(0.92, At(3)), Level::kCritical);
  EXPECT_EQ(governor.Sample(0.96, At(4)), Level::kEmergency);
}

TEST(Governor, JumpsUpOverSeveralLevelsAtOnce) {
  Governor governor({});
  EXPECT_EQ(governor.Sample(0.97, At(0)), Level::kEmergency);
}

TEST(Governor, LeavesCriticalOnlyBelowItsExitBand) {
  Governor governor({});
  governor.Sample(0.93, At(0));
  EXPECT_EQ(governor.Sample(0.91, At(1)), Level::kCritical);
  EXPECT_EQ(governor.Sample(0.91, At(100)), Level::kCritical);
  EXPECT_EQ(governor.Sample(0.90, At(101)), Level::kCritical);
  EXPECT_EQ(governor.Sample(0.90, At(102.999)), Level::kCritical);
  EXPECT_EQ(governor.Sample(0.90, At(103)), Level::kPressure);
}

TEST(Governor, FallsThroughAllLevelsThatHaveBeenLowLongEnough) {
  Governor governor({});
  governor.Sample(0.97, At(0));
  governor.Sample(0.10, At(1));
  EXPECT_EQ(governor.Tick(0.10, At(2.9)), Level::kEmergency);
  EXPECT_EQ(governor.Tick(0.10, At(3)), Level::kRelaxed);
}

TEST(Governor, ARiseStartsTheDwellAgain) {
  Governor governor({});
  governor.Sample(0.97, At(0));
  governor.Sample(0.10, At(1));
  governor.Sample(0.95, At(2));  // Not under 0.94.
  governor.Sample(0.10, At(2.5));
  EXPECT_EQ(governor.Tick(0.10, At(4)), Level::kEmergency);
  EXPECT_EQ(governor.Tick(0.10, At(4.5)), Level::kRelaxed);
}

TEST(Governor, LookingNeverRaises) {
  Governor governor({});
  governor.Sample(0.5, At(0));
  EXPECT_EQ(governor.Tick(0.99, At(1)), Level::kRelaxed);
}

TEST(Governor, UnknownKeepsTheLevelAndForgetsTheDwell) {
  Governor governor({});
  governor.Sample(0.93, At(0));
  governor.Sample(0.10, At(1));
  EXPECT_EQ(governor.Sample(std::nullopt, At(2)), Level::kCritical);
  EXPECT_TRUE(governor.unknown());
  EXPECT_EQ(governor.Tick(0.10, At(50)), Level::kCritical);
  EXPECT_EQ(governor.Sample(0.10, At(60)), Level::kCritical);
  EXPECT_EQ(governor.Sample(0.10, At(62)), Level::kRelaxed);
}

TEST(Governor, WithoutBandAndDwellTheLevelIsAFunctionOfTheSample) {
  Governor governor({{}, 0, Duration::zero()});
  const std::pair<double, Level> table[] = {{0.97, Level::kEmergency},  {0.96, Level::kEmergency},
                                            {0.9599, Level::kCritical}, {0.92, Level::kCritical},
                                            {0.85, Level::kPressure},   {0.8499, Level::kNormal},
                                            {0.70, Level::kNormal},     {0.6999, Level::kRelaxed}};
  for (const auto& [pressure, level] : table) {
    EXPECT_EQ(governor.Sample(pressure, At(0)), level) << pressure;
  }
}

// 0.70 - 0.02 is less than 0.68 in binary, but not as billionths.
TEST(Governor, ComparesAsPeopleWriteNumbers) {
  Governor governor({});
  governor.Sample(0.70, At(0));
  governor.Sample(0.68, At(1));
  EXPECT_EQ(governor.Tick(0.68, At(3)), Level::kRelaxed);
}

TEST(Governor, RefusesThresholdsOutOfOrder) {
  Governor::Settings settings;
  settings.thresholds.critical = 0.80;
  const Status status = Governor::Check(settings);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("thresholds.critical is 0.8"), std::string::npos);
  settings = {};
  settings.thresholds.emergency = 1.2;
  EXPECT_FALSE(Governor::Check(settings));
  settings = {};
  settings.exit_band = 0.7;
  EXPECT_FALSE(Governor::Check(settings));
  settings = {};
  settings.dwell = -seconds(1);
  EXPECT_FALSE(Governor::Check(settings));
  EXPECT_TRUE(Governor::Check({}));
}

// A sawtooth of +-3 % around each threshold, 5 Hz, 60 s: no flapping.
TEST(Governor, DoesNotFlapAroundAThreshold) {
  for (const double threshold : {0.70, 0.85, 0.92}) {
    Governor governor({});
    Level before = Level::kRelaxed;
    int changes = 0;
    for (int i = 0; i < 60 * 50; ++i) {
      const double phase = (i % 10) / 10.0;  // 50 samples a second, 5 teeth a second.
      const Level level =
          governor.Sample(threshold - 0.03 + 0.06 * phase, TimePoint(milliseconds(20 * i)));
      changes += level != before ? 1 : 0;
      before = level;
    }
    EXPECT_LE(changes, 2) << threshold;
  }
}

}  // namespace
}  // namespace spillway
