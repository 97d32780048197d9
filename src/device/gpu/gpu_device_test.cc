// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_device.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/testing/device_contract.h"
#include "device/testing/gpu_bench.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

template <GpuKind Kind>
struct OnFake {
  static inline std::unique_ptr<FakeGpu> gpu;

  static std::unique_ptr<Device> Make(Bytes total, Bytes chunk_bytes) {
    gpu = std::make_unique<FakeGpu>(Kind, SPILLWAY_FAKES_DIR,
                                    FakeGpuOptions{.total = total, .granularity = chunk_bytes});
    GpuDeviceOptions options = GpuBench::OptionsFor(*gpu, Kind);
    options.chunk_bytes = chunk_bytes;
    return GpuDevice::Open(options).value();
  }
  static void Done() { gpu.reset(); }
};
// An AMD driver whose virtual memory management does not work.
struct OnSlabs : OnFake<GpuKind::kHip> {
  static std::unique_ptr<Device> Make(Bytes total, Bytes chunk_bytes) {
    gpu = std::make_unique<FakeGpu>(
        GpuKind::kHip, SPILLWAY_FAKES_DIR,
        FakeGpuOptions{.total = total, .granularity = chunk_bytes, .vmm = "forgets"});
    GpuDeviceOptions options = GpuBench::OptionsFor(*gpu, GpuKind::kHip);
    options.chunk_bytes = chunk_bytes;
    return GpuDevice::Open(options).value();
  }
};
using Worlds = ::testing::Types<OnFake<GpuKind::kCuda>, OnFake<GpuKind::kHip>, OnSlabs>;
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, DeviceContract, Worlds);

class GpuDeviceTest : public ::testing::TestWithParam<GpuKind> {
 protected:
  Result<std::unique_ptr<GpuDevice>> Open(const FakeGpu& gpu, std::string which) {
    GpuDeviceOptions options = GpuBench::OptionsFor(gpu, GetParam());
    options.which = std::move(which);
    return GpuDevice::Open(options);
  }
};
INSTANTIATE_TEST_SUITE_P(Vendors, GpuDeviceTest, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         NameOf);

// --- opening ---

TEST_P(GpuDeviceTest, IsFoundByNumberUuidAndPci) {
  const FakeGpu gpu(GetParam(), SPILLWAY_FAKES_DIR, GpuBench::With({.cards = 3}));
  const std::string uuid = "GPU-5b1e0c2f-7a44-4d8e-9c31-d2f60a8b7e01";
  const std::string second = std::string(Name(GetParam())) + ":1";
  for (const std::string& which : {std::string("1"), uuid,
                                   std::string("gpu-5B1E0C2F-7a44-4d8e-9c31-"
                                               "d2f60a8b7e01"),
                                   uuid.substr(4), std::string("0000:42:00.0")}) {
    auto device = Open(gpu, which);
    ASSERT_TRUE(device) << which << ": " << device.error().message;
    EXPECT_EQ((*device)->name(), second) << which;
    EXPECT_EQ((*device)->id(), uuid);
    EXPECT_EQ((*device)->pci(), "0000:42:00.0");
    EXPECT_EQ((*device)->model(), "Fake GPU");
  }
  EXPECT_EQ(Open(gpu, "").value()->name(), std::string(Name(GetParam())) + ":0");
}

TEST_P(GpuDeviceTest, AWrongOneIsNamedTogetherWithThoseThereAre) {
  const FakeGpu gpu(GetParam(), SPILLWAY_FAKES_DIR, GpuBench::With({.cards = 2}));
  for (const char* which : {"2", "-1", "GPU-00", "0000:99:00.0", "1x"}) {
    const auto device = Open(gpu, which);
    ASSERT_FALSE(device) << which;
    EXPECT_EQ(device.error().code, Code::kUnavailable);
    EXPECT_THAT(device.error().message, HasSubstr(std::string("'") + which + "'"));
    EXPECT_THAT(device.error().message, HasSubstr("1 (GPU-5b1e0c2f"));
  }
}

TEST_P(GpuDeviceTest, ChunksMustFitTheDriversGranularity) {
  const FakeGpu gpu(GetParam(), SPILLWAY_FAKES_DIR, GpuBench::With({}));
  GpuDeviceOptions options = GpuBench::OptionsFor(gpu, GetParam());
  for (const Bytes chunk : {32 * kKiB, 192 * kKiB}) {
    options.chunk_bytes = chunk;
    const auto device = GpuDevice::Open(options);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Code::kInvalidArgument);
    EXPECT_THAT(device.error().message, HasSubstr("64 KiB"));
  }
}

TEST_P(GpuDeviceTest, ALibraryThatIsNotThereOrLacksSomethingIsAnError) {
  GpuDeviceOptions options;
  options.kind = GetParam();
  options.libraries = {"libnothing-of-the-kind.so.1"};
  const auto none = GpuDevice::Open(options);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  EXPECT_THAT(none.error().message, HasSubstr("libnothing-of-the-kind.so.1"));
  if (GetParam() == GpuKind::kCuda) {  // HIP then uses slabs.
    options.libraries = {FakeGpu::Library(GetParam(), SPILLWAY_FAKES_DIR, "without_map")};
    const auto lacking = GpuDevice::Open(options);
    ASSERT_FALSE(lacking);
    EXPECT_THAT(lacking.error().message, HasSubstr("MemMap"));
  }
  options.libraries = {FakeGpu::Library(GetParam(), SPILLWAY_FAKES_DIR, "no_device")};
  const auto empty = GpuDevice::Open(options);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kUnavailable);
  EXPECT_THAT(empty.error().message, HasSubstr("no device"));
}

// As packaged by a distribution, on a machine without such a card.
TEST(GpuDeviceReal, HipOfTheSystemWithoutACardIsAbsent) {
  GpuDeviceOptions options;
  options.kind = GpuKind::kHip;
  options.libraries = {"libamdhip64.so.5"};
  const auto device = GpuDevice::Open(options);
  if (device) GTEST_SKIP() << "libamdhip64.so.5 has a device here";
  if (device.error().message.find("cannot open shared object") != std::string::npos) {
    GTEST_SKIP() << "libamdhip64.so.5 is not installed";
  }
  EXPECT_EQ(device.error().code, Code::kUnavailable);
  EXPECT_THAT(device.error().message, HasSubstr("hip"));
}

// --- chunks ---

TEST_P(GpuDeviceTest, AMappingThatFailsHalfwayIsUndone) {
  for (const char* step : {"memory_create", "memory_map", "memory_access"}) {
    GpuBench bench(GetParam());
    bench.Map(GpuBench::kChunk);
    const Bytes used = bench.gpu.used();
    bench.gpu.FailFunction(step, 1, 2);
    const Status refused = bench.device->MapChunk(bench.base + GpuBench::kChunk);
    ASSERT_FALSE(refused) << step;
    EXPECT_EQ(refused.error().code, Code::kNoMemory);
    EXPECT_EQ(bench.gpu.used(), used) << step;
    EXPECT_EQ(bench.device->ledger().held, GpuBench::kChunk);
    bench.Map(2 * GpuBench::kChunk);
    EXPECT_EQ(bench.gpu.used(), used + GpuBench::kChunk);
  }
}

TEST_P(GpuDeviceTest, GivingBackWaitsForNothing) {
  GpuBench bench(GetParam());
  bench.Map(kMiB);
  const std::string text = RandomText(1, kMiB);
  ASSERT_TRUE(bench.device->CopyIn(bench.base, Source(text)));
  for (int i = 0; i < 16; ++i) bench.Unmap(bench.mapped.back());
  EXPECT_EQ(bench.gpu.calls("memory_free"), 0U);
  EXPECT_EQ(bench.device->ledger().held, 0U);
  EXPECT_EQ(bench.device->ledger().created, bench.device->ledger().released);
}

TEST_P(GpuDeviceTest, AChunkThatIsNotTakenBackAtOnceIsTakenBackLater) {
  for (const bool strict : {false, true}) {
    for (const char* step : {"memory_unmap", "memory_release"}) {
      GpuBench bench(GetParam(), {.strict = strict});
      bench.Map(2 * GpuBench::kChunk);
      bench.gpu.FailFunction(step, 1, 1);
      bench.Unmap(bench.mapped.back());
      EXPECT_EQ(bench.device->ledger().stuck, 0U);
      EXPECT_EQ(bench.gpu.used(), GpuBench::kChunk) << step << strict;
      bench.Map(2 * GpuBench::kChunk);
    }
  }
}

TEST_P(GpuDeviceTest, WhatIsZeroedBeforeItGoesTellsNobodyAnything) {
  FakeGpu gpu(GetParam(), SPILLWAY_FAKES_DIR, GpuBench::With({.stale = true}));
  GpuDeviceOptions options = GpuBench::OptionsFor(gpu, GetParam());
  options.zero_before_release = true;
  auto device = GpuDevice::Open(options).value();
  std::byte* const base = device->ReserveRange(GpuBench::kChunk).value();
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(device->MapChunk(base));
    const std::string first = gpu.Peek(reinterpret_cast<GpuAddress>(base), 6);
    if (round > 0) {
      EXPECT_EQ(first, std::string(6, '\0'));
    }
    ASSERT_TRUE(device->CopyIn(base, Source("secret")));
    device->UnmapChunk(base);
  }
  device->ReleaseRange(base, GpuBench::kChunk);
}

TEST_P(GpuDeviceTest, TwoDevicesHaveARangeEach) {
  FakeGpu gpu(GetParam(), SPILLWAY_FAKES_DIR, GpuBench::With({.cards = 2}));
  const auto first = Open(gpu, "0").value();
  const auto second = Open(gpu, "1").value();
  std::byte* const a = first->ReserveRange(GpuBench::kChunk).value();
  std::byte* const b = second->ReserveRange(GpuBench::kChunk).value();
  ASSERT_TRUE(first->MapChunk(a));
  ASSERT_TRUE(second->MapChunk(b));
  EXPECT_TRUE(first->Owns(a) && !first->Owns(b) && second->Owns(b) && !second->Owns(a));
  EXPECT_EQ(gpu.used(0), GpuBench::kChunk);
  EXPECT_EQ(gpu.used(1), GpuBench::kChunk);
  gpu.SetForeign(8 * kMiB, 1);
  EXPECT_EQ(first->ReadMemory().value().free, 32 * kMiB - GpuBench::kChunk);
  EXPECT_EQ(second->ReadMemory().value().free, 24 * kMiB - GpuBench::kChunk);
  ASSERT_TRUE(first->CopyIn(a, Source("of the first")));
  ASSERT_TRUE(second->CopyIn(b, Source("of the other")));
  std::string out(12, '?');
  ASSERT_TRUE(first->CopyOut(a, 12, Sink(out.data(), 12)));
  EXPECT_EQ(out, "of the first");
  ASSERT_TRUE(second->CopyOut(b, 12, Sink(out.data(), 12)));
  EXPECT_EQ(out, "of the other");
  first->UnmapChunk(a);
  second->UnmapChunk(b);
  first->ReleaseRange(a, GpuBench::kChunk);
  second->ReleaseRange(b, GpuBench::kChunk);
}

// --- a lost device ---

TEST_P(GpuDeviceTest, ALostOneAnswersErrorsAndNothingElse) {
  GpuBench bench(GetParam());
  bench.Map(kMiB);
  std::string text = RandomText(2, kMiB);
  ASSERT_TRUE(bench.device->CopyIn(bench.base, Source(text)));
  bench.gpu.Lose();
  const auto unavailable = [&](const Status& status) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kUnavailable);
    EXPECT_THAT(status.error().message, HasSubstr("999"));
  };
  unavailable(bench.device->CopyOut(bench.base, kMiB, Sink(text.data(), text.size())));
  EXPECT_FALSE(bench.device->lost().empty());
  unavailable(bench.device->CopyIn(bench.base, Source(text)));
  unavailable(bench.device->MapChunk(bench.base + 2 * kMiB));
  EXPECT_FALSE(bench.device->ReserveRange(kMiB));
  EXPECT_FALSE(bench.device->ReadMemory());
}

TEST_P(GpuDeviceTest, ACopyThatHangsEndsWithinItsBoundAndTheDeviceWithIt) {
  // The bound also applies to good copies, however busy the machine is.
  GpuBench bench(GetParam(), {}, {}, std::chrono::seconds(1));
  bench.Map(kMiB);
  std::string text = RandomText(3, kMiB);
  ASSERT_TRUE(bench.device->CopyIn(bench.base, Source(text)));
  bench.gpu.Hang(true);
  const Status hung = bench.device->CopyOut(bench.base, kMiB, Sink(text.data(), text.size()));
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code, Code::kUnavailable);
  EXPECT_THAT(hung.error().message, HasSubstr("not done"));
  EXPECT_FALSE(bench.device->ReadMemory());
  EXPECT_FALSE(bench.device->MapChunk(bench.base + 2 * kMiB));
  EXPECT_FALSE(bench.device->CopyIn(bench.base, Source(text)));
  // Memory that the card may still use is left alone; none of it can be freed.
  const std::uint64_t before = bench.gpu.calls();
  while (!bench.mapped.empty()) bench.Unmap(bench.mapped.back());
  EXPECT_EQ(bench.gpu.calls(), before);
  EXPECT_EQ(bench.device->ledger().stuck, 16U);
  EXPECT_EQ(bench.gpu.misuse(), "");
  bench.gpu.Lose();
}

}  // namespace
}  // namespace spillway::testing
