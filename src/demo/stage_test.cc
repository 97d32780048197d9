#include "demo/stage.h"

#include <stdlib.h>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/testing/fake_gpu.h"
#include "device/testing/scratch_run_dir.h"

namespace spillway::demo {
namespace {

using spillway::testing::FakeGpu;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Stage, ACardOfItsOwn) {
  const spillway::testing::ScratchRunDir run_dir;
  const auto stage = Stage::OnCard("demo-1", 64 * kMiB);
  ASSERT_TRUE(stage) << stage.error().message;
  EXPECT_FALSE((*stage)->on_gpu());
  EXPECT_EQ((*stage)->bytes(), 64 * kMiB);
  EXPECT_THAT((*stage)->Where(), ElementsAre("--card", "demo-1"));
  EXPECT_EQ((*stage)->BytesFor(0.5), 32 * kMiB);
  EXPECT_EQ((*stage)->lead(), Duration::zero());
  EXPECT_EQ((*stage)->Place(), "card demo-1, 64 MiB of this machine's memory");
  Options options;
  (*stage)->Tell(&options);
  EXPECT_EQ(options.card, "demo-1");
  EXPECT_EQ(options.device, "cpu");
  EXPECT_EQ(options.pressure_source, "auto");
  bool started = false;
  EXPECT_TRUE((*stage)->Around([&] { return started = true, Status(); }));
  EXPECT_TRUE(started);
}

class GpuStage : public ::testing::Test {
 protected:
  GpuStage() : gpu_(GpuKind::kCuda, SPILLWAY_FAKES_DIR, {.total = kGiB}) {
    ::setenv("SPILLWAY_CUDA_LIBRARY", gpu_.library().c_str(), 1);
  }
  ~GpuStage() override { ::unsetenv("SPILLWAY_CUDA_LIBRARY"); }
  FakeGpu gpu_;
};

TEST_F(GpuStage, IsFoundAndNothingIsLeftThere) {
  gpu_.SetForeign(256 * kMiB);
  for (const char* name : {"auto", "cuda", "cuda:0"}) {
    const Result<StageGpu> found = FindStageGpu(name);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->name, "cuda:0");
    EXPECT_EQ(found->model, "Fake GPU");
    EXPECT_EQ(found->free, 768 * kMiB);
  }
  EXPECT_EQ(gpu_.used(), 0U);
  EXPECT_EQ(FindStageGpu("cuda:7").error().code, Code::kUnavailable);
  EXPECT_EQ(FindStageGpu("gpu").error().code, Code::kInvalidArgument);
}

TEST_F(GpuStage, APartOfItThatKnowsWhatAProcessCosts) {
  const auto stage = Stage::OnGpu("cuda:0", 64 * kMiB);
  ASSERT_TRUE(stage) << stage.error().message;
  EXPECT_TRUE((*stage)->on_gpu());
  EXPECT_THAT((*stage)->Where(), ElementsAre("--device", "cuda:0"));
  EXPECT_GT((*stage)->lead(), Duration::zero());
  EXPECT_EQ((*stage)->Place(), "64 MiB of cuda:0 (Fake GPU)");
  Options options;
  (*stage)->Tell(&options);
  EXPECT_EQ(options.device, "cuda:0");
  EXPECT_EQ(options.capacity, 64 * kMiB);
  EXPECT_EQ(options.pressure_source, "part:67108864");
  EXPECT_EQ(options.reserve, 0);
  EXPECT_EQ(options.reserve_bytes_min, 64 * kMiB / 10);

  EXPECT_EQ((*stage)->BytesFor(0.5), 32 * kMiB);  // Not known yet.
  const Status failed = (*stage)->Around([] { return Error{Code::kUnavailable, "no daemon"}; });
  EXPECT_EQ(failed.error().message, "no daemon");
  ASSERT_TRUE((*stage)->Around([&] {
    gpu_.SetForeign(10 * kMiB);  // A process has begun to use it.
    return Status();
  }));
  EXPECT_EQ((*stage)->BytesFor(0.5), 22 * kMiB);
  EXPECT_EQ((*stage)->BytesFor(0.1), Bytes{static_cast<Bytes>(6.4 * kMiB) / 8 / 4096 * 4096});
  EXPECT_THAT((*stage)->Note(),
              AllOf(HasSubstr("64 MiB of the 1 GiB that are free on cuda:0 (Fake GPU)"),
                    HasSubstr("more than a quarter"), HasSubstr("10 MiB for each process")));
  // Once is enough: the next daemon comes while strangers may be there.
  ASSERT_TRUE((*stage)->Around([&] {
    gpu_.SetForeign(30 * kMiB);
    return Status();
  }));
  EXPECT_EQ((*stage)->BytesFor(0.5), 22 * kMiB);
}

}  // namespace
}  // namespace spillway::demo
