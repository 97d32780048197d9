// SPDX-License-Identifier: Apache-2.0
#include "tier/virtual_tier.h"

#include <gtest/gtest.h>

#include "tier/testing/tier_contract.h"

namespace spillway {
namespace testing {
namespace {

struct VirtualWorld {
  static constexpr bool kKeepsBytes = false;
  explicit VirtualWorld(Bytes capacity) : virtual_tier(capacity) {}
  Tier& tier() { return virtual_tier; }
  Bytes chunk_bytes() const { return 0; }
  VirtualTier virtual_tier;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Virtual, TierContract, VirtualWorld);

}  // namespace
}  // namespace testing

namespace {

TEST(VirtualTier, WithoutACapacityHoldsMoreThanAnyMachine) {
  VirtualTier tier;
  EXPECT_EQ(tier.capacity(), Tier::kUnlimited);
  std::byte* last = nullptr;
  for (int i = 0; i < 100; ++i) {
    const Result<std::byte*> block = tier.Allocate(Bytes{1} << 45);
    ASSERT_TRUE(block);
    EXPECT_NE(*block, last);
    last = *block;
  }
  EXPECT_EQ(tier.allocated(), Bytes{100} << 45);
  EXPECT_NE(tier.Allocate(0).value(), tier.Allocate(0).value());
}

}  // namespace
}  // namespace spillway
