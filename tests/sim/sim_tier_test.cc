// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_tier.h"

#include <gtest/gtest.h>

#include "tier/arena_tier.h"
#include "tier/testing/tier_contract.h"

namespace spillway {
namespace testing {
namespace {

struct SimWorld {
  static constexpr bool kKeepsBytes = true;
  explicit SimWorld(Bytes capacity)
      : device({.total = capacity, .chunk_bytes = 4 * kKiB}),
        seen(ArenaTier::Open(&device, {.capacity = capacity, .keep_one_empty = false}).value(),
             &device, &verdict) {}
  ~SimWorld() { EXPECT_FALSE(verdict.failed()) << verdict.what(); }
  Tier& tier() { return seen; }
  Bytes chunk_bytes() const { return device.chunk_bytes(); }
  FakeDevice device;
  sim::Verdict verdict{nullptr};
  sim::SimTier seen;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Sim, TierContract, SimWorld);

}  // namespace
}  // namespace testing

namespace sim {
namespace {

using testing::FakeDevice;

class SimTierTest : public ::testing::Test {
 protected:
  FakeDevice device_{{.total = kMiB, .chunk_bytes = 64 * kKiB}};
  Verdict verdict_{nullptr};
  SimTier tier_{ArenaTier::Open(&device_).value(), &device_, &verdict_};
};

TEST_F(SimTierTest, SeesAMarkThatIsNotWhatFreeSays) {
  std::byte* const block = tier_.Allocate(1000).value();
  tier_.SetClean(block, 1000, true);
  tier_.CheckMemory();
  EXPECT_FALSE(verdict_.failed()) << verdict_.what();
  EXPECT_EQ(tier_.clean(), 64 * kKiB);
  tier_.Free(block, 1000);
  EXPECT_EQ(verdict_.invariant(), kAccounting);
  EXPECT_EQ(verdict_.what(), "a block of 1000 bytes was freed that was backed");
}

TEST_F(SimTierTest, SeesAMarkThatDoesNotChange) {
  std::byte* const block = tier_.Allocate(1000).value();
  tier_.SetClean(block, 1000, false);
  EXPECT_EQ(verdict_.what(), "a block of 1000 bytes was no longer backed that was not backed");
}

}  // namespace
}  // namespace sim
}  // namespace spillway
