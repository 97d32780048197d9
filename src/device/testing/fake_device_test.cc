// SPDX-License-Identifier: Apache-2.0
#include "device/testing/fake_device.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "device/testing/device_contract.h"

namespace spillway::testing {
namespace {

struct Fake {
  static std::unique_ptr<Device> Make(Bytes total, Bytes chunk_bytes) {
    return std::make_unique<FakeDevice>(
        FakeDeviceOptions{.total = total, .chunk_bytes = chunk_bytes});
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, DeviceContract, Fake);

class FakeDeviceTest : public ::testing::Test {
 protected:
  static constexpr Bytes kChunk = 4 * kKiB;
  ~FakeDeviceTest() override {
    for (Bytes i = 0; i < kMiB; i += kChunk) {
      if (device_.IsMapped(base_ + i, kChunk)) device_.UnmapChunk(base_ + i);
    }
    device_.ReleaseRange(base_, kMiB);
  }
  FakeDevice device_{{.total = 64 * kKiB, .chunk_bytes = kChunk}};
  std::byte* base_ = device_.ReserveRange(kMiB).value();
};
using FakeDeviceDeathTest = FakeDeviceTest;

TEST_F(FakeDeviceTest, NeighboursTakeWhatTheCardHasAndNoMore) {
  ASSERT_TRUE(device_.MapChunk(base_));
  EXPECT_EQ(device_.SetForeign(40 * kKiB), 40 * kKiB);
  EXPECT_EQ(device_.ReadMemory().value().free, 20 * kKiB);
  EXPECT_EQ(device_.SetForeign(kMiB), 60 * kKiB);
  EXPECT_EQ(device_.MapChunk(base_ + kChunk).error().code, Code::kNoMemory);
  EXPECT_EQ(device_.SetForeign(0), 0U);
  EXPECT_TRUE(device_.MapChunk(base_ + kChunk));
}

TEST_F(FakeDeviceTest, MapsFailWhenToldTo) {
  device_.FailMapAt(2);
  EXPECT_TRUE(device_.MapChunk(base_));
  EXPECT_FALSE(device_.MapChunk(base_ + kChunk));
  EXPECT_TRUE(device_.MapChunk(base_ + kChunk));
  device_.FailMapAt(1, true);
  EXPECT_FALSE(device_.MapChunk(base_ + 2 * kChunk));
  EXPECT_FALSE(device_.MapChunk(base_ + 2 * kChunk));
  device_.ClearMapFault();
  EXPECT_TRUE(device_.MapChunk(base_ + 2 * kChunk));
  const FakeDevice::Counts counts = device_.counts();
  EXPECT_EQ(counts.maps, 3U);
  EXPECT_EQ(counts.map_failures, 3U);
  EXPECT_EQ(counts.mapped, 3 * kChunk);
  device_.SetReserveFails(true);
  EXPECT_FALSE(device_.ReserveRange(kMiB));
}

TEST_F(FakeDeviceTest, ReadingsFailLieAndHangWhenToldTo) {
  device_.SetReadFails(true);
  EXPECT_EQ(device_.ReadMemory().error().code, Code::kUnavailable);
  device_.SetReadFails(false);
  device_.SetLie(Reading{.total = 100, .free = 1});
  EXPECT_EQ(device_.ReadMemory().value().free, 1U);
  device_.SetLie(std::nullopt);
  EXPECT_EQ(device_.ReadMemory().value().free, 64 * kKiB);
  device_.SetHangs(true);
  EXPECT_TRUE(device_.hanging());
  std::atomic<bool> answered{false};
  std::thread reader([&] {
    (void)device_.ReadMemory();
    answered = true;
  });
  while (device_.counts().reads < 4) std::this_thread::yield();
  EXPECT_FALSE(answered);
  device_.SetHangs(false);
  reader.join();
  EXPECT_TRUE(answered);
}

TEST_F(FakeDeviceTest, MemoryNotMappedIsPoison) {
  ASSERT_TRUE(device_.MapChunk(base_));
  EXPECT_EQ(base_[17], FakeDevice::kPoison);
  EXPECT_TRUE(device_.CopyIn(base_, Source("context")));
  device_.UnmapChunk(base_);
  EXPECT_EQ(std::count(base_, base_ + kChunk, FakeDevice::kPoison), kChunk);
}

TEST_F(FakeDeviceTest, AKilledOwnersShareReturnsToTheOthers) {
  SimCard card(64 * kKiB);
  FakeDevice one({.chunk_bytes = kChunk, .card = &card});
  FakeDevice two({.chunk_bytes = kChunk, .card = &card});
  std::byte* range = two.ReserveRange(kChunk).value();
  ASSERT_TRUE(two.MapChunk(range));
  EXPECT_EQ(one.ReadMemory().value().free, 60 * kKiB);
  two.Kill();
  EXPECT_EQ(one.ReadMemory().value().free, 64 * kKiB);
}

TEST_F(FakeDeviceDeathTest, MisuseStopsTheProgram) {
  ASSERT_TRUE(device_.MapChunk(base_));
  EXPECT_DEATH((void)device_.MapChunk(base_).has_value(), "maps a chunk twice");
  EXPECT_DEATH((void)device_.MapChunk(base_ + 1).has_value(), "unaligned chunk");
  EXPECT_DEATH(device_.UnmapChunk(base_ + kChunk), "not mapped");
  EXPECT_DEATH((void)device_.CopyIn(base_ + kChunk - 3, Source("context")).has_value(),
               "not mapped");
  char sink[2];
  EXPECT_DEATH((void)device_.CopyOut(base_ + kChunk, 1, Sink(sink, 2)).has_value(), "not mapped");
  EXPECT_DEATH((void)device_.CopyOut(base_, 3, Sink(sink, 2)).has_value(), "too small");
  EXPECT_DEATH(device_.ReleaseRange(base_, kMiB), "mapped chunks");
  EXPECT_DEATH((void)device_.MapChunk(base_ - kMiB).has_value(), "outside every range");
}

}  // namespace
}  // namespace spillway::testing
