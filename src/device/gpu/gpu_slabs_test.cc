// SPDX-License-Identifier: Apache-2.0
// Chunks as plain allocations, for drivers whose virtual memory management
// fails its trial.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/gpu/vmm_trial.h"
#include "device/testing/gpu_bench.h"
#include "spillway/log.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;
using Memory = GpuDeviceOptions::Memory;

class GpuSlabs : public ::testing::Test {
 protected:
  void SetUp() override { SetLog(LogLevel::kOff); }
  void TearDown() override { SetLog(LogLevel::kInfo); }

  static std::unique_ptr<GpuDevice> Open(const FakeGpu& gpu, GpuKind kind,
                                         Memory memory = Memory::kAuto) {
    GpuDeviceOptions options = GpuBench::OptionsFor(gpu, kind);
    options.memory = memory;
    return GpuDevice::Open(options).value();
  }
};

TEST_F(GpuSlabs, AreUsedOnlyWhereTheTrialFails) {
  struct Case {
    const char* vmm;
    const char* why;
  };
  for (const auto& [vmm, why] :
       {Case{"good", ""}, Case{"keeps", "not free again"}, Case{"leaks", "not free again"},
        Case{"forgets", "holds something else"}, Case{"refuses", "giving access failed: 1"}}) {
    const FakeGpu gpu(GpuKind::kHip, SPILLWAY_FAKES_DIR, GpuBench::With({.vmm = vmm}));
    const auto device = Open(gpu, GpuKind::kHip);
    EXPECT_EQ(device->why_slabs().empty(), *why == '\0') << vmm << ": " << device->why_slabs();
    EXPECT_THAT(device->why_slabs(), HasSubstr(why));
    EXPECT_EQ(device->has_addresses(), *why == '\0') << vmm;
    EXPECT_EQ(gpu.misuse(), "") << vmm;
    // At most three trials of two of the smallest chunks are lost for good.
    EXPECT_LE(gpu.used(), std::string(vmm) == "leaks" ? 6 * GpuBench::kChunk : 0) << vmm;
  }
}

TEST_F(GpuSlabs, CudaIsNotTried) {
  const FakeGpu gpu(GpuKind::kCuda, SPILLWAY_FAKES_DIR, GpuBench::With({.vmm = "forgets"}));
  const std::uint64_t before = gpu.calls("memory_create");
  EXPECT_EQ(Open(gpu, GpuKind::kCuda)->why_slabs(), "");
  EXPECT_EQ(gpu.calls("memory_create"), before);
}

TEST_F(GpuSlabs, AHipWithoutTheFunctionsHasThem) {
  const FakeGpu gpu(GpuKind::kHip, SPILLWAY_FAKES_DIR, GpuBench::With({}), "without_map");
  GpuDeviceOptions options = GpuBench::OptionsFor(gpu, GpuKind::kHip);
  options.chunk_bytes = 2 * kMiB;
  const auto device = GpuDevice::Open(options);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_THAT((*device)->why_slabs(), HasSubstr("no virtual memory management"));
}

// Other processes that allocate during the trial do not make a good driver look bad.
TEST_F(GpuSlabs, AFullCardIsNoReasonAgainstLargeChunks) {
  FakeGpu gpu(GpuKind::kHip, SPILLWAY_FAKES_DIR, GpuBench::With({}));
  gpu.SetForeign(32 * kMiB - 2 * GpuBench::kChunk);
  GpuDeviceOptions options = GpuBench::OptionsFor(gpu, GpuKind::kHip);
  options.chunk_bytes = 4 * kMiB;
  EXPECT_EQ(GpuDevice::Open(options).value()->why_slabs(), "");
}

// Values that cross chunks, each of which has addresses of its own.
TEST_F(GpuSlabs, KeepEveryByteAcrossTheirBorders) {
  for (const GpuKind kind : {GpuKind::kCuda, GpuKind::kHip}) {
    FakeGpu gpu(kind, SPILLWAY_FAKES_DIR, GpuBench::With({}));
    const auto device = Open(gpu, kind, Memory::kSlabs);
    constexpr Bytes kChunks = 8;
    constexpr Bytes kRange = kChunks * GpuBench::kChunk;
    std::byte* const base = device->ReserveRange(2 * kRange).value();
    // Not in the order of their addresses, so that no two are adjacent by chance.
    for (Bytes i = 0; i < kChunks; ++i) {
      ASSERT_TRUE(device->MapChunk(base + (i * 3 % kChunks) * GpuBench::kChunk));
    }
    EXPECT_EQ(gpu.used(), kRange);
    EXPECT_EQ(device->ledger().held, kRange);
    const Bytes bytes = kRange - 1000;
    const std::string text = RandomText(7, bytes);
    std::string out(bytes, '?');
    ASSERT_TRUE(device->CopyIn(base + 500, Source(text)));
    ASSERT_TRUE(device->CopyOut(base + 500, bytes, Sink(out.data(), out.size())));
    EXPECT_TRUE(out == text);
    // With reports of progress, and scattered.
    out.assign(bytes, '?');
    Bytes arrived = 0;
    const auto count = [&](Bytes so_far) {
      EXPECT_GE(so_far, arrived);
      arrived = so_far;
      return true;
    };
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    ASSERT_TRUE(device->CopyToHost(base + 500, bytes, to, count));
    EXPECT_EQ(arrived, bytes);
    EXPECT_TRUE(out == text);
    const std::string other = RandomText(8, bytes);
    std::vector<Hash128> hashes(3);
    ASSERT_TRUE(device->CopyFromHost(
        base + 300, reinterpret_cast<const std::byte*>(other.data()), bytes,
        [](Bytes) { return true; }, &hashes));
    EXPECT_TRUE(hashes.empty());  // Not possible: pieces cross slabs.
    std::vector<MutableFragment> pieces;
    for (Bytes at = 0; at < bytes; at += 777) {
      pieces.push_back({out.data() + at, std::min<Bytes>(777, bytes - at), Place::kHost});
    }
    ASSERT_TRUE(device->CopyOut(base + 300, bytes, Sink(pieces)));
    EXPECT_TRUE(out == other);
    ASSERT_TRUE(device->Zero(base + 300, bytes));
    ASSERT_TRUE(device->CopyOut(base + 300, bytes, Sink(out.data(), out.size())));
    EXPECT_TRUE(out == std::string(bytes, '\0'));
    for (Bytes i = 0; i < kChunks; ++i) device->UnmapChunk(base + i * GpuBench::kChunk);
    EXPECT_EQ(gpu.used(), 0U);
    EXPECT_EQ(device->ledger().created, device->ledger().released);
    device->ReleaseRange(base, 2 * kRange);
  }
}

TEST_F(GpuSlabs, AreZeroedBeforeTheyGo) {
  FakeGpu gpu(GpuKind::kHip, SPILLWAY_FAKES_DIR, GpuBench::With({.stale = true, .vmm = "refuses"}));
  const auto device = Open(gpu, GpuKind::kHip);
  device->set_zero_before_release(true);
  std::byte* const base = device->ReserveRange(GpuBench::kChunk).value();
  ASSERT_TRUE(device->MapChunk(base));
  ASSERT_TRUE(device->CopyIn(base, Source("secret")));
  device->UnmapChunk(base);
  ASSERT_TRUE(device->MapChunk(base));
  std::string out(6, '?');
  ASSERT_TRUE(device->CopyOut(base, 6, Sink(out.data(), 6)));
  EXPECT_EQ(out, std::string(6, '\0'));
  EXPECT_EQ(device->ledger().unzeroed, 0U);
  device->UnmapChunk(base);
  device->ReleaseRange(base, GpuBench::kChunk);
}

// --- the trial ---

class VmmTrialTest : public ::testing::TestWithParam<GpuKind> {};
INSTANTIATE_TEST_SUITE_P(Vendors, VmmTrialTest, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         NameOf);

TEST_P(VmmTrialTest, GivesBackAllItTookWhateverFails) {
  for (const char* step :
       {"address_reserve", "stream_create", "event_create", "host_alloc", "memory_create",
        "memory_map", "memory_access", "copy_to_device", "copy_to_host", "memory_unmap",
        "memory_release", "memory_info", "event_record"}) {
    for (const std::uint64_t n : {1U, 2U}) {
      FakeGpu gpu(GetParam(), SPILLWAY_FAKES_DIR, GpuBench::With({.strict = true}));
      const auto device = GpuDevice::Open(GpuBench::OptionsFor(gpu, GetParam())).value();
      gpu.FailFunction(step, n, 1);
      const VmmTrial trial = device->TryVmm(std::chrono::seconds(5));
      EXPECT_FALSE(trial.broken) << step;
      EXPECT_EQ(trial.good, trial.why_not.empty()) << step << ": " << trial.why_not;
      EXPECT_EQ(gpu.used(), 0U) << step << " " << n;
      gpu.FailFunction(step, 0, 0);
      EXPECT_TRUE(device->TryVmm(std::chrono::seconds(5)).good) << step;
    }
  }
}

TEST_P(VmmTrialTest, EndsWithinItsBound) {
  FakeGpu gpu(GetParam(), SPILLWAY_FAKES_DIR, GpuBench::With({}));
  const auto device = GpuDevice::Open(GpuBench::OptionsFor(gpu, GetParam())).value();
  gpu.Hang(true);
  const VmmTrial trial = device->TryVmm(std::chrono::milliseconds(20));
  EXPECT_FALSE(trial.good);
  EXPECT_TRUE(trial.broken);
  EXPECT_THAT(trial.why_not, HasSubstr("did not end in time"));
  gpu.Lose();
}

}  // namespace
}  // namespace spillway::testing
