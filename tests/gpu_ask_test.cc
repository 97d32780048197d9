// SPDX-License-Identifier: Apache-2.0
// A cache on a GPU, and a neighbour in another process that asks for the memory of that
// GPU, by the name it has there.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/testing/gpu_fixture.h"
#include "device/testing/scratch_run_dir.h"
#include "run_program.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

class GpuAsk : public GpuCacheTest {
 protected:
  // The program sees a card of the same UUID that is nearly full.
  static ProgramRun Spillway(std::string_view arguments) {
    const FakeGpuOptions card{.total = kTotal, .foreign = kTotal - 4 * kMiB};
    return RunProgram(fmt::format("env SPILLWAY_NVML_LIBRARY= SPILLWAY_FAKE_GPU='{}' {} {}",
                                  card.Text(), SPILLWAY_BIN, arguments));
  }

  ScratchRunDir run_dir_;
};
INSTANTIATE_TEST_SUITE_P(Vendors, GpuAsk, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

TEST_P(GpuAsk, SqueezeIsGivenWhatItLacksAndNothingIsLost) {
  Open();
  constexpr int kKeys = 10;
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(SetOnDevice("k" + std::to_string(i)));
  const Bytes held = cache_->stats().device.held;
  ASSERT_GE(held, kKeys * kMiB);
  const ProgramRun run = Spillway(fmt::format(
      "squeeze 12MiB --device {}:0 --ask --for 0 --step 2MiB --patience 2s", Name(GetParam())));
  EXPECT_THAT(run.out, HasSubstr(fmt::format("pid {} gave ", ::getpid()))) << run.err;
  const Stats after = cache_->stats();
  EXPECT_LE(after.device.held, held - 8 * kMiB);  // 4 MiB were free.
  EXPECT_EQ(after.removed_by_action[static_cast<std::size_t>(Action::kDestroy)], 0U);
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_TRUE(Same(Get(key), Bulk(key, kValue))) << key;
  }
}

TEST_P(GpuAsk, RoomFindsTheOnlyGpuThatListens) {
  Open();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(SetOnDevice("k" + std::to_string(i)));
  const ProgramRun run = Spillway("room 2MiB -- echo ran");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "ran\n");
  EXPECT_THAT(run.err, HasSubstr(fmt::format("pid {} gave ", ::getpid())));
}

}  // namespace
}  // namespace spillway::testing
