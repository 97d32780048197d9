// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "device/cpu/card_source.h"
#include "device/testing/device_contract.h"
#include "device/testing/scratch_run_dir.h"

namespace spillway {
namespace testing {
namespace {

struct PrivateCard {
  static std::unique_ptr<Device> Make(Bytes total, Bytes chunk_bytes) {
    return CpuDevice::Open({.name = "", .total = total, .chunk_bytes = chunk_bytes}).value();
  }
};
struct NamedCard {
  static std::unique_ptr<Device> Make(Bytes total, Bytes chunk_bytes) {
    static auto* run_dir = new ScratchRunDir;
    (void)run_dir;
    return CpuDevice::Open({.name = "contract", .total = total, .chunk_bytes = chunk_bytes})
        .value();
  }
};
using Worlds = ::testing::Types<PrivateCard, NamedCard>;
INSTANTIATE_TYPED_TEST_SUITE_P(Cpu, DeviceContract, Worlds);

}  // namespace
}  // namespace testing

namespace {

using testing::ScratchRunDir;

Bytes ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  Bytes virtual_pages = 0;
  Bytes resident_pages = 0;
  statm >> virtual_pages >> resident_pages;
  return resident_pages * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

TEST(CpuDevice, ChunksAreAboutA256thOfTheCard) {
  EXPECT_EQ(CpuDevice::ChunkBytesFor(64 * kGiB), 32 * kMiB);
  EXPECT_EQ(CpuDevice::ChunkBytesFor(8 * kGiB), 32 * kMiB);
  EXPECT_EQ(CpuDevice::ChunkBytesFor(3 * kGiB), 8 * kMiB);
  EXPECT_EQ(CpuDevice::ChunkBytesFor(kGiB), 4 * kMiB);
  EXPECT_EQ(CpuDevice::ChunkBytesFor(kMiB), 64 * kKiB);
  EXPECT_EQ(CpuDevice::ChunkBytesFor(40'000), 32 * kKiB);
  EXPECT_EQ(CpuDevice::ChunkBytesFor(1), 4 * kKiB);
}

TEST(CpuDevice, RefusesSizesThatMakeNoSense) {
  for (const Bytes chunk : {Bytes{0}, Bytes{5000}, Bytes{2048}, 2 * kMiB}) {
    const auto refused = CpuDevice::Open({.name = "", .total = kMiB, .chunk_bytes = chunk});
    ASSERT_FALSE(refused) << chunk;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(CpuDevice::Open({.name = "", .total = 1000, .chunk_bytes = {}}).error().message,
            "a card of 1000 bytes is too small: it needs at least 4 KiB");
  EXPECT_FALSE(CpuDevice::Open({.name = "no/path", .total = kMiB, .chunk_bytes = {}}));
}

TEST(CpuDevice, KnowsItsNameAndWhetherOthersUseItsCard) {
  const ScratchRunDir run_dir;
  const auto alone = CpuDevice::Open({.name = "", .total = kMiB, .chunk_bytes = {}}).value();
  const auto shared = CpuDevice::Open({.name = "demo", .total = kMiB, .chunk_bytes = {}}).value();
  EXPECT_EQ(alone->name(), "cpu");
  EXPECT_FALSE(alone->shared());
  EXPECT_EQ(shared->name(), "cpu:demo");
  EXPECT_TRUE(shared->shared());
}

TEST(CpuDevice, AnUnmappedChunksPagesAreBackWithTheKernel) {
  constexpr Bytes kChunk = 32 * kMiB;
  constexpr Bytes kChunks = 4;
  const auto device =
      CpuDevice::Open({.name = "", .total = kChunks * kChunk, .chunk_bytes = kChunk}).value();
  std::byte* base = device->ReserveRange(kChunks * kChunk).value();
  const Bytes before = ResidentBytes();
  for (Bytes i = 0; i < kChunks; ++i) {
    ASSERT_TRUE(device->MapChunk(base + i * kChunk));
    std::memset(base + i * kChunk, 1, kChunk);
  }
  const Bytes full = ResidentBytes();
  EXPECT_GE(full, before + kChunks * kChunk - kMiB);
  for (Bytes i = 0; i < kChunks; ++i) {
    device->UnmapChunk(base + i * kChunk);
    EXPECT_LE(ResidentBytes(), full - (i + 1) * kChunk + kMiB);
  }
  EXPECT_EQ(device->held(), 0U);
  device->ReleaseRange(base, kChunks * kChunk);
}

TEST(CpuDevice, AMappedChunkAgainIsZeroAndAnUnmappedOneIsOutOfReach) {
  const auto device =
      CpuDevice::Open({.name = "", .total = kMiB, .chunk_bytes = 64 * kKiB}).value();
  std::byte* base = device->ReserveRange(kMiB).value();
  ASSERT_TRUE(device->MapChunk(base));
  base[5] = std::byte{7};
  device->UnmapChunk(base);
  EXPECT_DEATH(base[5] = std::byte{1}, "");
  ASSERT_TRUE(device->MapChunk(base));
  EXPECT_EQ(base[5], std::byte{0});
  device->UnmapChunk(base);
  device->ReleaseRange(base, kMiB);
}

TEST(CpuDevice, AFewChunksOfAPrivateCardKeepTheirPages) {
  constexpr Bytes kChunk = 64 * kKiB;
  const CpuDeviceOptions options{
      .name = "", .total = kMiB, .chunk_bytes = kChunk, .warm_bytes = 2 * kChunk};
  const auto device = CpuDevice::Open(options).value();
  std::byte* const base = device->ReserveRange(4 * kChunk).value();
  for (Bytes at = 0; at < 4 * kChunk; at += kChunk) {
    ASSERT_TRUE(device->MapChunk(base + at));
    base[at] = std::byte{7};
  }
  for (Bytes at = 0; at < 4 * kChunk; at += kChunk) device->UnmapChunk(base + at);
  EXPECT_EQ(device->held(), 0U);  // With or without warm chunks.
  for (Bytes at = 0; at < 4 * kChunk; at += kChunk) {
    ASSERT_TRUE(device->MapChunk(base + at));
    EXPECT_EQ(base[at], at < 2 * kChunk ? std::byte{0} : std::byte{7}) << at;
    base[at] = std::byte{1};
  }
  EXPECT_EQ(device->held(), 4 * kChunk);
  for (Bytes at = 0; at < 4 * kChunk; at += kChunk) device->UnmapChunk(base + at);
  device->ReleaseRange(base, 4 * kChunk);

  CpuDeviceOptions shared = options;
  shared.name = "warm";
  const auto with_others = CpuDevice::Open(shared).value();
  std::byte* const other = with_others->ReserveRange(kChunk).value();
  ASSERT_TRUE(with_others->MapChunk(other));
  *other = std::byte{7};
  with_others->UnmapChunk(other);
  ASSERT_TRUE(with_others->MapChunk(other));
  EXPECT_EQ(*other, std::byte{0});
  with_others->UnmapChunk(other);
  with_others->ReleaseRange(other, kChunk);
}

TEST(CpuDevice, APinnedChunksPagesGoBackToo) {
  const auto device =
      CpuDevice::Open({.name = "", .total = kMiB, .chunk_bytes = 64 * kKiB}).value();
  std::byte* base = device->ReserveRange(kMiB).value();
  ASSERT_TRUE(device->MapChunk(base));
  if (::mlock(base, 64 * kKiB) != 0) {
    device->UnmapChunk(base);
    device->ReleaseRange(base, kMiB);
    GTEST_SKIP() << "needs to lock memory: RLIMIT_MEMLOCK of a few MiB, or root";
  }
  base[5] = std::byte{7};
  device->UnmapChunk(base);
  ASSERT_TRUE(device->MapChunk(base));
  EXPECT_EQ(base[5], std::byte{0});
  device->UnmapChunk(base);
  device->ReleaseRange(base, kMiB);
}

TEST(CpuDevice, RefusedAddressSpaceIsNoMemoryInTheSystemsWords) {
  const auto device = CpuDevice::Open({.name = "", .total = kGiB, .chunk_bytes = {}}).value();
  const Result<std::byte*> range = device->ReserveRange(kGiB << 20);  // More than a machine has.
  ASSERT_FALSE(range);
  EXPECT_EQ(range.error().code, Code::kNoMemory);
  EXPECT_TRUE(range.error().message.ends_with(std::strerror(ENOMEM))) << range.error().message;
  EXPECT_EQ(device->held(), 0U);
}

TEST(CpuDevice, AMapThatTheSystemRefusesLeavesTheCardAsItWas) {
  const auto device = CpuDevice::Open({.name = "", .total = kMiB, .chunk_bytes = {}}).value();
  const Bytes chunk = device->chunk_bytes();
  std::byte* base = device->ReserveRange(kMiB).value();
  ::munmap(base + chunk, chunk);  // A hole: mprotect on it returns ENOMEM.
  const Status refused = device->MapChunk(base + chunk);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoMemory);
  EXPECT_TRUE(refused.error().message.ends_with(std::strerror(ENOMEM))) << refused.error().message;
  EXPECT_EQ(device->held(), 0U);
  EXPECT_EQ(device->ReadMemory().value().free, kMiB);
  device->ReleaseRange(base, kMiB);
}

TEST(CardSource, ReportsWhatTheCardHas) {
  const ScratchRunDir run_dir;
  const std::shared_ptr<CpuDevice> device =
      CpuDevice::Open({.name = "demo", .total = kMiB, .chunk_bytes = {}}).value();
  CardSource source(device, device->card_name());
  EXPECT_EQ(source.name(), "card:demo");
  EXPECT_EQ(CardSource(device, "").name(), "card");
  const auto neighbour = Card::Open({.name = "demo", .total = kMiB}).value();
  ASSERT_TRUE(neighbour->Take(kMiB / 4));
  EXPECT_EQ(source.Read().value().total, kMiB);
  EXPECT_EQ(source.Read().value().free, kMiB - kMiB / 4);
}

}  // namespace
}  // namespace spillway
