// SPDX-License-Identifier: Apache-2.0
#include "tier/size_classes.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(SizeClasses, EveryBlockGetsTheSmallestClassThatHoldsIt) {
  for (Bytes bytes = 1; bytes <= kSmallBlockMax; ++bytes) {
    const std::size_t size_class = SizeClassOf(bytes);
    ASSERT_LT(size_class, kSizeClasses);
    ASSERT_GE(SizeClassBytes(size_class), bytes);
    if (size_class > 0) {
      ASSERT_LT(SizeClassBytes(size_class - 1), bytes);
    }
  }
}

TEST(SizeClasses, FromAHalfKibibyteUpLessThanAnEighthIsWasted) {
  for (Bytes bytes = 512; bytes <= kSmallBlockMax; ++bytes) {
    ASSERT_LT((SizeClassBytes(SizeClassOf(bytes)) - bytes) * 8, bytes) << bytes;
  }
}

TEST(SizeClasses, From64BytesUpAllAreMultiplesOf64) {
  for (std::size_t i = SizeClassOf(64); i < kSizeClasses; ++i) {
    EXPECT_EQ(SizeClassBytes(i) % 64, 0U);
  }
}

}  // namespace
}  // namespace spillway
