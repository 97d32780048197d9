// SPDX-License-Identifier: Apache-2.0
#include "replay/seconds.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Seconds, AreExactToTheNanosecond) {
  const std::pair<const char*, Duration::rep> table[] = {
      {"0", 0},
      {"-0", 0},
      {"0.0", 0},
      {"2", 2'000'000'000},
      {"0.1", 100'000'000},
      {"0.000000001", 1},
      {"30.000000001", 30'000'000'001},
      {"1.5e3", 1'500'000'000'000},
      {"1E-9", 1},
      {"15e-10", 2},
      {"1e+2", 100'000'000'000},
      {"123456789.123456789", 123'456'789'123'456'789},
      {"9223372036.854775807", 9'223'372'036'854'775'807},
  };
  for (const auto& [text, ns] : table) {
    ASSERT_TRUE(ParseSeconds(text)) << text;
    EXPECT_EQ(ParseSeconds(text)->count(), ns) << text;
  }
}

TEST(Seconds, WhatAProgramMadeOfADecimalIsThatDecimal) {
  EXPECT_EQ(ParseSeconds("0.30000000000000004")->count(), 300'000'000);  // 0.1 + 0.2
  EXPECT_EQ(ParseSeconds("29.999999999999996")->count(), 30'000'000'000);
}

TEST(Seconds, RoundToTheNearest) {
  EXPECT_EQ(ParseSeconds("0.0000000004")->count(), 0);
  EXPECT_EQ(ParseSeconds("0.0000000005")->count(), 1);
  EXPECT_EQ(ParseSeconds("0.00000000049999")->count(), 0);
  EXPECT_EQ(ParseSeconds("1e-400000000000")->count(), 0);
  EXPECT_EQ(ParseSeconds("-1e-30")->count(), 0);
}

TEST(Seconds, BeyondTheirRangeAreNone) {
  for (const char* text : {"-1", "-0.5", "9223372036.854775808", "9223372036.8547758075", "1e10",
                           "1e400000000000", "99999999999999999999"}) {
    EXPECT_FALSE(ParseSeconds(text)) << text;
  }
  EXPECT_FALSE(ParseSeconds("1" + std::string(100, '0')));
  EXPECT_TRUE(ParseSeconds("0e99"));
}

}  // namespace
}  // namespace spillway
