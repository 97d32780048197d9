// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/testing/fake_bench.h"
#include "device/testing/fake_gpu.h"
#include "device/testing/test_seed.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

class FakeGpuMisuseTest : public FakeGpuTest {};
INSTANTIATE_TEST_SUITE_P(Vendors, FakeGpuMisuseTest,
                         ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

// Misuse

TEST_P(FakeGpuMisuseTest, MemoryIsInUseUntilItsEventWasSeen) {
  FakeBench bench(GetParam());
  const GpuDriver& driver = bench.driver;
  const GpuAddress base = bench.Reserve(kPage);
  std::vector<std::byte> memory(4096);
  const GpuStream stream = bench.Stream();
  const GpuStream later = bench.Stream();
  const GpuEvent event = bench.Event();
  const GpuEvent after = bench.Event();
  for (const bool waits : {false, true}) {
    const GpuHandle handle = bench.Map(base);
    EXPECT_EQ(driver.host_register(memory.data(), 4096, kGpuPortable), 0);
    std::byte* const host = bench.Host(100);
    EXPECT_EQ(driver.copy_to_device(base, memory.data(), 100, stream), 0);
    EXPECT_EQ(driver.copy_to_host(host, base, 100, stream), 0);
    EXPECT_EQ(driver.event_record(event, stream), 0);
    EXPECT_EQ(driver.stream_wait(later, event, 0), 0);
    EXPECT_EQ(driver.event_record(after, later), 0);
    if (waits) {
      EXPECT_EQ(bench.Await(after), 0);  // Which comes after the other one.
    }
    EXPECT_EQ(driver.host_unregister(memory.data()), 0);
    const std::string first = bench.gpu.TakeMisuse();
    EXPECT_EQ(driver.host_free(host), 0);
    const std::string second = bench.gpu.TakeMisuse();
    bench.Unmap(base, handle);
    const std::string third = bench.gpu.TakeMisuse();
    EXPECT_EQ(first.empty(), waits) << first;
    EXPECT_EQ(second.empty(), waits) << second;
    EXPECT_EQ(third.empty(), waits) << third;
    if (waits) continue;
    EXPECT_THAT(first, HasSubstr("in use by operation 1"));
    EXPECT_THAT(second, HasSubstr("in use by operation 2"));
    EXPECT_THAT(third, HasSubstr("in use by operation 1"));
    bench.gpu.Lose(700);  // Queued work has no memory there any more.
    bench.gpu.Lose(0);
  }
  EXPECT_EQ(driver.event_destroy(event), 0);
  EXPECT_EQ(driver.event_destroy(after), 0);
  EXPECT_EQ(driver.stream_destroy(stream), 0);
  EXPECT_EQ(driver.stream_destroy(later), 0);
  EXPECT_EQ(driver.address_free(base, kPage), 0);
}

TEST_P(FakeGpuMisuseTest, WhatWasDestroyedIsNotUsed) {
  FakeBench bench(GetParam());
  const GpuDriver& driver = bench.driver;
  const GpuStream stream = bench.Stream();
  const GpuEvent event = bench.Event();
  EXPECT_EQ(driver.event_record(event, stream), 0);
  EXPECT_EQ(driver.stream_destroy(stream), 0);
  EXPECT_EQ(bench.Await(event), 0);  // Queued work is still done.
  EXPECT_NE(driver.event_record(event, stream), 0);
  EXPECT_NE(driver.stream_destroy(stream), 0);
  EXPECT_EQ(driver.event_destroy(event), 0);
  EXPECT_NE(driver.event_query(event), 0);
  EXPECT_NE(driver.event_destroy(event), 0);
  const std::string misuse = bench.gpu.TakeMisuse();
  EXPECT_EQ(std::ranges::count(misuse, '\n'), 4) << misuse;
}

TEST(FakeCuda, CallsNeedAContext) {
  FakeGpu gpu(GpuKind::kCuda, SPILLWAY_FAKES_DIR);
  const GpuDriver& driver = *gpu.driver();
  std::size_t free = 0, total = 0;
  EXPECT_EQ(driver.memory_info(&free, &total), 201);
  EXPECT_THAT(gpu.TakeMisuse(), HasSubstr("memory_info without a current context"));
  GpuContext context = nullptr;
  EXPECT_EQ(driver.context_retain(&context, 0), 0);
  EXPECT_THAT(gpu.leaks(), HasSubstr("context of card 0"));
  {
    const GpuScope scope(driver, 0, context);
    EXPECT_EQ(scope.code(), 0);
    EXPECT_EQ(gpu.current(), 1);
    EXPECT_EQ(driver.memory_info(&free, &total), 0);
  }
  EXPECT_EQ(gpu.current(), 0);
  EXPECT_EQ(driver.context_release(0), 0);
  EXPECT_EQ(driver.context_release(0), 201);
  EXPECT_EQ(driver.context_push(context), 201);
  EXPECT_EQ(driver.context_pop(&context), 201);
  const std::string misuse = gpu.TakeMisuse();
  EXPECT_EQ(std::ranges::count(misuse, '\n'), 3) << misuse;
}

TEST(FakeHip, CallsConcernTheDeviceThatIsCurrent) {
  FakeGpu gpu(GpuKind::kHip, SPILLWAY_FAKES_DIR, {.cards = 2, .granularity = kPage});
  const GpuDriver& driver = *gpu.driver();
  GpuAddress at = 0;
  GpuStream stream = nullptr;
  {
    const GpuScope scope(driver, 1, nullptr);
    EXPECT_EQ(driver.memory_alloc(&at, kPage), 0);
    EXPECT_EQ(driver.stream_create(&stream, kGpuNonBlocking, 0), 0);
    EXPECT_EQ(driver.fill(at, 1, kPage, stream), 0);
  }
  EXPECT_EQ(gpu.used(0), 0U);
  EXPECT_EQ(gpu.used(1), kPage);
  EXPECT_NE(driver.fill(at, 1, kPage, stream), 0);
  EXPECT_THAT(gpu.TakeMisuse(), HasSubstr("of card 1, not 0"));
  EXPECT_NE(driver.fill(at, 1, kPage, nullptr), 0);
  EXPECT_THAT(gpu.TakeMisuse(), HasSubstr("no access there"));
  EXPECT_EQ(driver.stream_destroy(stream), 0);
  EXPECT_EQ(driver.memory_free(at), 0);
}

TEST_P(FakeGpuMisuseTest, TheLedgerNamesAllThatIsLeft) {
  FakeBench bench(GetParam());
  const GpuDriver& driver = bench.driver;
  const std::string before = bench.gpu.leaks();
  const GpuAddress base = bench.Reserve(2 * kPage);
  const GpuHandle handle = bench.Map(base);
  GpuAddress plain = 0;
  EXPECT_EQ(driver.memory_alloc(&plain, 1), 0);
  std::byte* const host = bench.Host(10);
  std::vector<std::byte> memory(10);
  EXPECT_EQ(driver.host_register(memory.data(), 10, kGpuPortable), 0);
  const GpuStream stream = bench.Stream();
  const GpuEvent event = bench.Event();
  void* module = nullptr;
  EXPECT_EQ(driver.module_load(&module, "image"), 0);
  const std::string leaks = bench.gpu.leaks();
  for (const char* each : {"handle ", "mapping at ", "reservation at ", "device memory at ",
                           "host memory at ", "registration of ", "stream ", "event ", "module "}) {
    EXPECT_THAT(leaks, HasSubstr(each));
  }
  EXPECT_EQ(driver.module_unload(module), 0);
  EXPECT_EQ(driver.event_destroy(event), 0);
  EXPECT_EQ(driver.stream_destroy(stream), 0);
  EXPECT_EQ(driver.host_unregister(memory.data()), 0);
  EXPECT_EQ(driver.host_free(host), 0);
  EXPECT_EQ(driver.memory_free(plain), 0);
  bench.Unmap(base, handle);
  EXPECT_EQ(driver.address_free(base, 2 * kPage), 0);
  EXPECT_EQ(bench.gpu.leaks(), before);
}

// Faults

TEST_P(FakeGpuMisuseTest, TheNthCallFailsOnceOrForGood) {
  FakeBench bench(GetParam());
  const GpuDriver& driver = bench.driver;
  int count = 0;
  const std::uint64_t calls = bench.gpu.calls();
  bench.gpu.Fail(2, 2);
  EXPECT_EQ(driver.device_count(&count), 0);
  EXPECT_EQ(driver.device_count(&count), 2);
  EXPECT_EQ(driver.device_count(&count), 0);
  EXPECT_EQ(bench.gpu.calls(), calls + 3);
  EXPECT_EQ(bench.gpu.failed(), "device_count");
  bench.gpu.Fail(1, 304, true);
  EXPECT_EQ(driver.device_count(&count), 304);
  EXPECT_EQ(driver.device_count(&count), 304);
  EXPECT_TRUE(bench.gpu.out_of_reach());
  bench.gpu.Fail(0, 0);
  EXPECT_EQ(driver.device_count(&count), 0);
  bench.gpu.FailFunction("stream_create", 2, 999);
  const GpuStream stream = bench.Stream();
  GpuStream second = nullptr;
  EXPECT_EQ(driver.stream_create(&second, kGpuNonBlocking, 0), 999);
  EXPECT_EQ(bench.gpu.calls("stream_create"), 2U);
  EXPECT_EQ(driver.stream_destroy(stream), 0);
}

TEST_P(FakeGpuMisuseTest, AGiveBackThatFailsIsDoneUnlessItIsStrict) {
  for (const bool strict : {false, true}) {
    FakeBench bench(GetParam(), {.strict = strict});
    const GpuDriver& driver = bench.driver;
    const GpuAddress base = bench.Reserve(kPage);
    const GpuHandle handle = bench.Map(base);
    bench.gpu.FailFunction("memory_unmap", 1, 2);
    EXPECT_EQ(driver.memory_unmap(base, kPage), 2);
    EXPECT_EQ(bench.gpu.leaks().find("mapping") != std::string::npos, strict);
    EXPECT_EQ(driver.memory_unmap(base, kPage), 0);  // Trying again is right in any case,
    EXPECT_EQ(driver.memory_unmap(base, kPage), 1);  // once.
    EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("not whole mappings"));
    bench.gpu.FailFunction("memory_release", 1, 2);
    EXPECT_EQ(driver.memory_release(handle), 2);
    EXPECT_EQ(bench.gpu.used(), strict ? kPage : 0U);
    EXPECT_EQ(driver.memory_release(handle), 0);
    EXPECT_EQ(bench.gpu.used(), 0U);
    EXPECT_EQ(driver.address_free(base, kPage), 0);
  }
}

TEST_P(FakeGpuMisuseTest, AFatalCodeEndsWhatIsQueued) {
  Copies copies(GetParam());
  copies.gpu.Hang(true);
  EXPECT_EQ(copies.driver.fill(copies.at, 9, 10, copies.stream), 0);
  copies.Record();
  copies.gpu.FailFunction("event_query", 1, 2);
  EXPECT_EQ(copies.driver.event_query(copies.event), 2);
  EXPECT_EQ(copies.gpu.pending(), 2U);
  copies.gpu.FailFunction("event_query", 1, 700);
  EXPECT_EQ(copies.driver.event_query(copies.event), 700);
  EXPECT_EQ(copies.gpu.pending(), 0U);
  EXPECT_EQ(copies.driver.event_query(copies.event), 700);  // It will never be done.
  copies.gpu.Hang(false);
  EXPECT_EQ(copies.gpu.Peek(copies.at, 1), std::string(1, '\0'));
  copies.Record();
  EXPECT_EQ(copies.Await(copies.event), 0);
}

TEST_P(FakeGpuMisuseTest, ACardThatHangsIsNeverDone) {
  Copies copies(GetParam());
  copies.gpu.Hang(true);
  EXPECT_EQ(copies.driver.fill(copies.at, 9, 10, copies.stream), 0);
  copies.Record();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(copies.driver.event_query(copies.event), kGpuNotReady);
  std::string pageable(10, 'p');
  EXPECT_NE(copies.driver.copy_to_device(copies.at, pageable.data(), 10, copies.stream), 0);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("hangs"));
  copies.gpu.Hang(false);
  EXPECT_EQ(copies.Await(copies.event), 0);
}

TEST_P(FakeGpuMisuseTest, ALostCardAnswersNothingElse) {
  Copies copies(GetParam());
  EXPECT_EQ(copies.driver.fill(copies.at, 9, 10, copies.stream), 0);
  copies.gpu.Lose(46);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(copies.driver.memory_info(&free, &total), 46);
  EXPECT_EQ(copies.driver.event_query(copies.event), 46);
  EXPECT_EQ(copies.gpu.pending(), 0U);
  EXPECT_TRUE(copies.gpu.out_of_reach());
}

}  // namespace
}  // namespace spillway::testing
