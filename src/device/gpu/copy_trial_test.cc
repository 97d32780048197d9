// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/copy_trial.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/testing/gpu_bench.h"

namespace spillway::testing {
namespace {

using std::chrono::microseconds;

TEST(CopyTrial, GathersUpToTheLargestPieceThatGains) {
  CopyTrial trial;
  EXPECT_EQ(trial.GatherBelow(), 0U);
  trial.rows = {{8 * kKiB, microseconds(10), microseconds(90)},
                {16 * kKiB, microseconds(10), microseconds(50)},
                {32 * kKiB, microseconds(98), microseconds(100)},  // Within the noise.
                {64 * kKiB, microseconds(12), microseconds(10)}};
  EXPECT_EQ(trial.GatherBelow(), 32 * kKiB);
  trial.rows.back().direct = microseconds(90);
  EXPECT_EQ(trial.GatherBelow(), 128 * kKiB);
}

TEST(CopyTrial, MeasuresBothWaysAndGivesAllBack) {
  const FakeGpu gpu(GpuKind::kCuda, SPILLWAY_FAKES_DIR, GpuBench::With({}));
  const auto device = GpuDevice::Open(GpuBench::OptionsFor(gpu, GpuKind::kCuda)).value();
  const Bytes used = gpu.used();
  const Result<CopyTrial> trial = device->TryCopies();
  ASSERT_TRUE(trial) << trial.error().message;
  ASSERT_GE(trial->rows.size(), 3U);
  for (std::size_t i = 0; i < trial->rows.size(); ++i) {
    EXPECT_EQ(trial->rows[i].piece, (8 * kKiB) << i);
    EXPECT_GT(trial->rows[i].gathered, Duration::zero());
    EXPECT_GT(trial->rows[i].direct, Duration::zero());
  }
  EXPECT_GT(gpu.calls("launch"), 0U);
  EXPECT_EQ(gpu.used(), used);
  EXPECT_EQ(device->registered(), 0U);
  EXPECT_EQ(gpu.misuse(), "");
}

TEST(CopyTrial, AnOlderDriverHasOneWayOnly) {
  const FakeGpu gpu(GpuKind::kHip, SPILLWAY_FAKES_DIR, GpuBench::With({}));
  const auto device = GpuDevice::Open(GpuBench::OptionsFor(gpu, GpuKind::kHip)).value();
  const Result<CopyTrial> trial = device->TryCopies();
  ASSERT_FALSE(trial);
  EXPECT_EQ(trial.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace spillway::testing
