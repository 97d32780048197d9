// SPDX-License-Identifier: Apache-2.0
#include "cache/pressure_estimator.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr Bytes kTotal = 100 * kGiB;
constexpr Bytes kReserve = 4 * kGiB;

// A card on which others hold `others` bytes, and we nothing.
class PressureEstimatorTest : public ::testing::Test {
 protected:
  void See(double others, Duration after = std::chrono::milliseconds(8)) {
    now_ += after;
    estimator_.Sampled(others / static_cast<double>(kTotal), kTotal, 0, others, now_);
  }
  double Extra() const { return static_cast<double>(estimator_.Raised(kReserve) - kReserve); }

  static constexpr double kGiBs = static_cast<double>(kGiB);
  PressureEstimator estimator_;
  TimePoint now_{std::chrono::seconds(1000)};
};

TEST_F(PressureEstimatorTest, TheReserveIsRaisedByWhatOthersTook) {
  See(10 * kGiBs);
  EXPECT_EQ(Extra(), 0) << "what was there before we looked was not taken from us";
  See(12 * kGiBs);
  EXPECT_NEAR(Extra(), 2 * kGiBs, 0.02 * kGiBs);
  See(13 * kGiBs);
  EXPECT_NEAR(Extra(), 3 * kGiBs, 0.03 * kGiBs);
}

TEST_F(PressureEstimatorTest, ItIsForgottenWithinSeconds) {
  See(10 * kGiBs);
  See(12 * kGiBs);
  for (int i = 0; i < 250; ++i) See(12 * kGiBs);  // 2 s.
  EXPECT_NEAR(Extra(), kGiBs, 0.03 * kGiBs);
  for (int i = 0; i < 2500; ++i) See(12 * kGiBs);
  EXPECT_LT(Extra(), 0.01 * kGiBs);
}

TEST_F(PressureEstimatorTest, HowOftenWeLookMakesNoDifference) {
  See(10 * kGiBs);
  See(12 * kGiBs);
  PressureEstimator seldom = estimator_;
  for (int i = 0; i < 2000; ++i) See(12 * kGiBs, std::chrono::milliseconds(1));
  seldom.Sampled(0.12, kTotal, 0, 12 * kGiBs, now_);
  EXPECT_NEAR(static_cast<double>(seldom.Raised(kReserve)),
              static_cast<double>(estimator_.Raised(kReserve)), 0.01 * kGiBs);
}

TEST_F(PressureEstimatorTest, NeverOverATenthOfTheCard) {
  See(10 * kGiBs);
  See(60 * kGiBs);
  EXPECT_EQ(estimator_.Raised(kReserve), kTotal / 10);
  EXPECT_EQ(estimator_.Raised(kTotal / 8), kTotal / 8) << "a larger reserve stays as it is";
}

TEST_F(PressureEstimatorTest, WhatIsGivenBackAndTakenAgainCountsOnce) {
  See(10 * kGiBs);
  See(12 * kGiBs);
  See(10 * kGiBs);
  See(12 * kGiBs);
  EXPECT_NEAR(Extra(), 2 * kGiBs, 0.1 * kGiBs);
}

// Our own chunks change between a reading and our account of them.
TEST_F(PressureEstimatorTest, WhatWaversIsNotTaken) {
  for (int i = 0; i < 5000; ++i) See((i % 2 == 0 ? 10 : 10.5) * kGiBs);
  EXPECT_LT(Extra(), 0.6 * kGiBs) << "no more than it wavers by";
}

TEST_F(PressureEstimatorTest, ReservedMemoryIsNoSurprise) {
  See(10 * kGiBs);
  now_ += std::chrono::milliseconds(1);
  estimator_.Sampled(0.15, kTotal, 0, 15 * kGiBs, now_, 4 * kGiB);
  EXPECT_NEAR(Extra(), 1 * kGiBs, 0.1 * kGiBs);
  now_ += std::chrono::milliseconds(1);
  estimator_.Sampled(0.15, kTotal, 0, 15 * kGiBs, now_, 4 * kGiB);
  EXPECT_NEAR(Extra(), 1 * kGiBs, 0.1 * kGiBs) << "nor does it make up for others";
}

TEST_F(PressureEstimatorTest, AFailureForgetsIt) {
  See(10 * kGiBs);
  See(12 * kGiBs);
  estimator_.Failed();
  See(14 * kGiBs);
  EXPECT_EQ(Extra(), 0) << "there was nothing to compare with";
}

}  // namespace
}  // namespace spillway
