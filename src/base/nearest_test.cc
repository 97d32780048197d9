// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <array>

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr std::array<std::string_view, 4> kKnown = {"ttl", "dwell", "thresholds.normal", "op"};

TEST(Nearest, FindsWhatWasMistyped) {
  EXPECT_EQ(Nearest("tll", kKnown), "ttl");
  EXPECT_EQ(Nearest("dwel", kKnown), "dwell");
  EXPECT_EQ(Nearest("threshold.normal", kKnown), "thresholds.normal");
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(Nearest("colour", kKnown), "");
  EXPECT_EQ(Nearest("", kKnown), "");
  EXPECT_EQ(Nearest("zz", kKnown), "");  // Both letters of "op" would differ.
  EXPECT_EQ(Nearest(std::string(1000, 't'), kKnown), "");
}

TEST(Nearest, MakesAQuestionOfIt) {
  EXPECT_EQ(DidYouMean("tll", kKnown), "; did you mean 'ttl'?");
  EXPECT_EQ(DidYouMean("colour", kKnown), "");
}

}  // namespace
}  // namespace spillway
