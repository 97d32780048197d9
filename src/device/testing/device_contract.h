// SPDX-License-Identifier: Apache-2.0
// The contract of every Device, as tests. An implementation instantiates them:
//
//   struct MyWorld {
//     static std::unique_ptr<Device> Make(Bytes total, Bytes chunk_bytes);
//     static void Done();  // Optional hook: the device was destroyed.
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, DeviceContract, MyWorld);
#pragma once

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"

namespace spillway::testing {

template <typename World>
class DeviceContract : public ::testing::Test {
 protected:
  static constexpr Bytes kChunk = 64 * kKiB;
  static constexpr Bytes kChunks = 8;

  void SetUp() override {
    device_ = World::Make(kChunks * kChunk, kChunk);
    ASSERT_NE(device_, nullptr);
    Result<std::byte*> range = device_->ReserveRange(kRange);
    ASSERT_TRUE(range);
    base_ = *range;
  }
  void TearDown() override {
    if (base_ == nullptr) return;
    for (std::byte* chunk : mapped_) device_->UnmapChunk(chunk);
    device_->ReleaseRange(base_, kRange);
    device_.reset();
    if constexpr (requires { World::Done(); }) World::Done();
  }

  std::byte* ChunkAt(Bytes index) { return base_ + index * kChunk; }
  Status Map(Bytes index) {
    Status mapped = device_->MapChunk(ChunkAt(index));
    if (mapped) mapped_.push_back(ChunkAt(index));
    return mapped;
  }
  void Unmap(Bytes index) {
    device_->UnmapChunk(ChunkAt(index));
    std::erase(mapped_, ChunkAt(index));
  }
  Bytes Free() { return device_->ReadMemory().value().free; }
  std::string Out(const std::byte* from, Bytes bytes) {
    std::string text(bytes, '?');
    EXPECT_TRUE(device_->CopyOut(from, bytes, Sink(text.data(), text.size())));
    return text;
  }

  static constexpr Bytes kRange = 4 * kChunks * kChunk;
  std::unique_ptr<Device> device_;
  std::byte* base_ = nullptr;
  std::vector<std::byte*> mapped_;
};

TYPED_TEST_SUITE_P(DeviceContract);

TYPED_TEST_P(DeviceContract, SaysWhatItIs) {
  EXPECT_FALSE(this->device_->name().empty());
  EXPECT_EQ(this->device_->total(), this->kChunks * this->kChunk);
  EXPECT_EQ(this->device_->chunk_bytes(), this->kChunk);
  EXPECT_TRUE(std::has_single_bit(this->device_->chunk_bytes()));
}

TYPED_TEST_P(DeviceContract, RangesAreAlignedToChunksAndTakeNoMemory) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this->base_) % this->kChunk, 0U);
  EXPECT_EQ(this->Free(), this->device_->total());
  const Result<std::byte*> second = this->device_->ReserveRange(this->kChunk);
  ASSERT_TRUE(second);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*second) % this->kChunk, 0U);
  EXPECT_EQ(this->Free(), this->device_->total());
  this->device_->ReleaseRange(*second, this->kChunk);
}

TYPED_TEST_P(DeviceContract, MappingTakesOneChunkAndUnmappingReturnsIt) {
  const Bytes before = this->Free();
  ASSERT_TRUE(this->Map(3));
  EXPECT_EQ(this->Free(), before - this->kChunk);
  ASSERT_TRUE(this->Map(9));
  EXPECT_EQ(this->Free(), before - 2 * this->kChunk);
  this->Unmap(3);
  EXPECT_EQ(this->Free(), before - this->kChunk);
  this->Unmap(9);
  EXPECT_EQ(this->Free(), before);
}

TYPED_TEST_P(DeviceContract, AFullCardRefusesAndNothingChanges) {
  for (Bytes i = 0; i < this->kChunks; ++i) ASSERT_TRUE(this->Map(2 * i));
  EXPECT_EQ(this->Free(), 0U);
  const Status refused = this->Map(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoMemory);
  EXPECT_FALSE(refused.error().message.empty());
  EXPECT_EQ(this->Free(), 0U);
  this->Unmap(4);
  EXPECT_TRUE(this->Map(1));
  EXPECT_EQ(this->Free(), 0U);
}

TYPED_TEST_P(DeviceContract, FragmentsComeInAndGoOutInOrder) {
  ASSERT_TRUE(this->Map(0));
  const std::string one = "one ";
  const std::string three = "three";
  EXPECT_TRUE(this->device_->CopyIn(
      this->base_ + 100,
      Source(std::vector<Fragment>{{one.data(), one.size(), Place::kHost},
                                   {nullptr, 0, Place::kHost},
                                   {"two ", 4, Place::kHost},
                                   {three.data(), three.size(), Place::kHost}})));
  EXPECT_EQ(this->Out(this->base_ + 100, 13), "one two three");
  std::string head(5, '?');
  std::string tail(12, '?');
  EXPECT_TRUE(
      this->device_->CopyOut(this->base_ + 100, 13,
                             Sink(std::vector<MutableFragment>{{head.data(), 5, Place::kHost},
                                                               {nullptr, 0, Place::kHost},
                                                               {tail.data(), 12, Place::kHost}})));
  EXPECT_EQ(head, "one t");
  EXPECT_EQ(tail, "wo three????");  // Not written past the value's end.
}

TYPED_TEST_P(DeviceContract, BytesOnTheDeviceMayTravelToTheDevice) {
  ASSERT_TRUE(this->Map(0));
  ASSERT_TRUE(this->Map(5));
  EXPECT_TRUE(this->device_->CopyIn(this->base_, Source("context")));
  EXPECT_TRUE(this->device_->CopyIn(
      this->ChunkAt(5), Source(std::vector<Fragment>{{this->base_, 7, Place::kDevice}})));
  EXPECT_EQ(this->Out(this->ChunkAt(5), 7), "context");
}

TYPED_TEST_P(DeviceContract, ValuesCrossChunksThatLieSideBySide) {
  ASSERT_TRUE(this->Map(6));
  ASSERT_TRUE(this->Map(7));
  std::string value(this->kChunk + 1000, 'x');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>('a' + i % 23);
  std::byte* at = this->ChunkAt(7) - this->kChunk / 2 - 500;
  EXPECT_TRUE(this->device_->CopyIn(at, Source(value)));
  EXPECT_EQ(this->Out(at, value.size()), value);
}

TYPED_TEST_P(DeviceContract, AChunkMappedAgainIsUsableAgain) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(this->Map(2));
    const std::string value = "round " + std::to_string(round);
    EXPECT_TRUE(this->device_->CopyIn(this->ChunkAt(2), Source(value)));
    EXPECT_EQ(this->Out(this->ChunkAt(2), value.size()), value);
    this->Unmap(2);
  }
  EXPECT_EQ(this->Free(), this->device_->total());
}

REGISTER_TYPED_TEST_SUITE_P(DeviceContract, SaysWhatItIs, RangesAreAlignedToChunksAndTakeNoMemory,
                            MappingTakesOneChunkAndUnmappingReturnsIt,
                            AFullCardRefusesAndNothingChanges, FragmentsComeInAndGoOutInOrder,
                            BytesOnTheDeviceMayTravelToTheDevice,
                            ValuesCrossChunksThatLieSideBySide, AChunkMappedAgainIsUsableAgain);

}  // namespace spillway::testing
