// SPDX-License-Identifier: Apache-2.0
// One card of a fake driver, with the few steps that tests of it use.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "device/testing/fake_gpu.h"

namespace spillway::testing {

inline constexpr Bytes kPage = 64 * kKiB;
inline constexpr Bytes kTotal = 16 * kPage;

class FakeBench {
 public:
  explicit FakeBench(GpuKind kind, FakeGpuOptions options = {}, std::string_view variant = {})
      : gpu(kind, SPILLWAY_FAKES_DIR, With(std::move(options)), variant), driver(*gpu.driver()) {
    if (kind == GpuKind::kCuda) {
      EXPECT_EQ(driver.context_retain(&context, 0), 0);
      EXPECT_EQ(driver.context_push(context), 0);
    }
  }
  ~FakeBench() {
    if (driver.kind == GpuKind::kCuda) {
      EXPECT_EQ(driver.context_pop(&context), 0);
      EXPECT_EQ(driver.context_release(0), 0);
    }
  }

  static FakeGpuOptions With(FakeGpuOptions options) {
    options.total = kTotal;
    options.granularity = kPage;
    return options;
  }

  GpuAddress Reserve(Bytes bytes) {
    GpuAddress at = 0;
    EXPECT_EQ(driver.address_reserve(&at, bytes, 0, 0, 0), 0);
    return at;
  }
  GpuHandle Create(Bytes bytes = kPage) {
    GpuHandle handle = 0;
    const GpuMemoryKind kind;
    EXPECT_EQ(driver.memory_create(&handle, bytes, &kind, 0), 0);
    return handle;
  }
  GpuHandle Map(GpuAddress at, Bytes bytes = kPage) {
    const GpuHandle handle = Create(bytes);
    EXPECT_EQ(driver.memory_map(at, bytes, 0, handle, 0), 0);
    const GpuAccess access;
    EXPECT_EQ(driver.memory_access(at, bytes, &access, 1), 0);
    return handle;
  }
  void Unmap(GpuAddress at, GpuHandle handle, Bytes bytes = kPage) {
    EXPECT_EQ(driver.memory_unmap(at, bytes), 0);
    EXPECT_EQ(driver.memory_release(handle), 0);
  }
  Bytes Free() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(driver.memory_info(&free, &total), 0);
    EXPECT_EQ(total, kTotal);
    return free;
  }
  GpuStream Stream() {
    GpuStream stream = nullptr;
    EXPECT_EQ(driver.stream_create(&stream, kGpuNonBlocking, 0), 0);
    return stream;
  }
  GpuEvent Event() {
    GpuEvent event = nullptr;
    EXPECT_EQ(driver.event_create(&event, kGpuNoTiming), 0);
    return event;
  }
  std::byte* Host(Bytes bytes) {
    void* at = nullptr;
    EXPECT_EQ(driver.host_alloc(&at, bytes, kGpuPortable), 0);
    return static_cast<std::byte*>(at);
  }
  int Await(GpuEvent event) {
    int code = kGpuNotReady;
    while (code == kGpuNotReady) {
      code = driver.event_query(event);
      std::this_thread::yield();
    }
    return code;
  }

  FakeGpu gpu;
  const GpuDriver& driver;
  GpuContext context = nullptr;
};

// Two pages of a card, host memory for both, two streams and an event.
class Copies : public FakeBench {
 public:
  explicit Copies(GpuKind kind, FakeGpuOptions options = {}, std::string_view variant = {})
      : FakeBench(kind, std::move(options), variant) {}
  ~Copies() {
    if (gpu.out_of_reach()) gpu.Lose(0);
    EXPECT_EQ(gpu.Finish(), 0);
    EXPECT_EQ(driver.event_destroy(event), 0);
    EXPECT_EQ(driver.stream_destroy(stream), 0);
    EXPECT_EQ(driver.stream_destroy(second), 0);
    EXPECT_EQ(driver.host_free(host), 0);
    Unmap(at, handle, 2 * kPage);
    EXPECT_EQ(driver.address_free(at, 2 * kPage), 0);
  }
  void Record() { EXPECT_EQ(driver.event_record(event, stream), 0); }

  const GpuAddress at = Reserve(2 * kPage);
  const GpuHandle handle = Map(at, 2 * kPage);
  std::byte* const host = Host(2 * kPage);
  const GpuStream stream = Stream();
  const GpuStream second = Stream();
  const GpuEvent event = Event();
};

class FakeGpuTest : public ::testing::TestWithParam<GpuKind> {};

}  // namespace spillway::testing
