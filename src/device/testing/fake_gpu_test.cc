// SPDX-License-Identifier: Apache-2.0
#include "device/testing/fake_gpu.h"

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
#include "device/testing/test_seed.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

class FakeGpuMemoryTest : public FakeGpuTest {};
INSTANTIATE_TEST_SUITE_P(Vendors, FakeGpuMemoryTest,
                         ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });
class FakeGpuDeathTest : public FakeGpuTest {};
INSTANTIATE_TEST_SUITE_P(Vendors, FakeGpuDeathTest,
                         ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

// Cards

TEST_P(FakeGpuMemoryTest, CardsAreAsTheyWereDescribed) {
  FakeBench bench(GetParam(), {.cards = 2, .name = "Some Card 80GB", .pci = "0001:c1:00.0"});
  const GpuDriver& driver = bench.driver;
  int count = 0;
  EXPECT_EQ(driver.device_count(&count), 0);
  EXPECT_EQ(count, 2);
  int device = -1;
  EXPECT_EQ(driver.device_get(&device, 1), 0);
  EXPECT_NE(driver.device_get(&device, 2), 0);
  std::array<char, 64> text{};
  EXPECT_EQ(driver.device_name(text.data(), 64, device), 0);
  EXPECT_STREQ(text.data(), "Some Card 80GB");
  EXPECT_EQ(driver.pci_bus_id(text.data(), 64, device), 0);
  EXPECT_STREQ(text.data(), "0001:C2:00.0");
  std::array<unsigned char, 16> uuid{};
  EXPECT_EQ(driver.uuid(uuid.data(), device), 0);
  EXPECT_EQ(uuid[0], 0x5b);
  EXPECT_EQ(uuid[15], 0x01);
  EXPECT_EQ(driver.version, 13000);
  EXPECT_EQ(bench.Free(), kTotal);
}

TEST(FakeGpuLibrary, HasVariantsThatLackSomething) {
  const auto load = [](GpuKind kind, std::string_view variant) {
    return GpuDriver::Load(kind, {FakeGpu::Library(kind, SPILLWAY_FAKES_DIR, variant)});
  };
  EXPECT_TRUE(load(GpuKind::kCuda, "").value()->copy_batch_v2 != nullptr);
  EXPECT_TRUE(load(GpuKind::kCuda, "without_batch_v2").value()->copy_batch_v1 != nullptr);
  EXPECT_FALSE(load(GpuKind::kCuda, "without_batch").value()->has_batch());
  EXPECT_TRUE(load(GpuKind::kCuda, "without_modules").value()->module_load == nullptr);
  EXPECT_THAT(load(GpuKind::kCuda, "without_map").error().message, HasSubstr("cuMemMap"));
  EXPECT_FALSE(load(GpuKind::kHip, "without_map").value()->has_vmm());
  EXPECT_TRUE(load(GpuKind::kHip, "").value()->has_vmm());
  EXPECT_THAT(load(GpuKind::kCuda, "no_device").error().message, HasSubstr("no device"));
  EXPECT_THAT(load(GpuKind::kHip, "no_device").error().message, HasSubstr("no device"));
}

// Memory

TEST_P(FakeGpuMemoryTest, OthersHoldSomethingFromTheBeginning) {
  FakeBench bench(GetParam(), {.foreign = 3 * kPage});
  EXPECT_EQ(bench.Free(), kTotal - 3 * kPage);
}

TEST_P(FakeGpuMemoryTest, MemoryCountsUntilItIsUnmappedAndReleased) {
  FakeBench bench(GetParam());
  const GpuAddress base = bench.Reserve(4 * kPage);
  EXPECT_EQ(bench.Free(), kTotal);
  const GpuHandle handle = bench.Map(base + kPage);
  EXPECT_EQ(bench.Free(), kTotal - kPage);
  EXPECT_EQ(bench.driver.memory_unmap(base + kPage, kPage), 0);
  EXPECT_EQ(bench.Free(), kTotal - kPage);
  EXPECT_EQ(bench.driver.memory_release(handle), 0);
  EXPECT_EQ(bench.Free(), kTotal);
  EXPECT_EQ(bench.gpu.used(), 0U);
  EXPECT_EQ(bench.driver.address_free(base, 4 * kPage), 0);
}

TEST(FakeCuda, MemoryReleasedFirstStaysUntilItIsUnmapped) {
  FakeBench bench(GpuKind::kCuda);
  const GpuAddress base = bench.Reserve(kPage);
  EXPECT_EQ(bench.driver.memory_release(bench.Map(base)), 0);
  EXPECT_EQ(bench.Free(), kTotal - kPage);
  EXPECT_EQ(bench.driver.memory_unmap(base, kPage), 0);
  EXPECT_EQ(bench.Free(), kTotal);
  EXPECT_EQ(bench.driver.address_free(base, kPage), 0);
}

TEST(FakeHip, WhatTheRealOneLosesCountOfIsMisuse) {
  FakeBench bench(GpuKind::kHip);
  const GpuAddress base = bench.Reserve(2 * kPage);
  EXPECT_EQ(bench.driver.memory_release(bench.Map(base)), 0);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("while mapped"));
  const GpuHandle second = bench.Map(base + kPage);
  EXPECT_EQ(bench.driver.memory_unmap(base, 2 * kPage), 0);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("2 handles at once"));
  EXPECT_EQ(bench.driver.memory_release(second), 0);
  EXPECT_EQ(bench.driver.address_free(base, 2 * kPage), 0);
}

TEST_P(FakeGpuMemoryTest, AFullCardHasNoMemory) {
  FakeBench bench(GetParam());
  bench.gpu.SetForeign(kTotal - 2 * kPage);
  EXPECT_EQ(bench.Free(), 2 * kPage);
  const GpuHandle one = bench.Create();
  const GpuHandle two = bench.Create();
  GpuHandle three = 0;
  const GpuMemoryKind kind;
  EXPECT_EQ(bench.driver.memory_create(&three, kPage, &kind, 0), kGpuNoMemory);
  GpuAddress plain = 0;
  EXPECT_EQ(bench.driver.memory_alloc(&plain, 1), kGpuNoMemory);
  bench.gpu.SetForeign(kTotal);
  EXPECT_EQ(bench.Free(), 0U);
  bench.gpu.SetForeign(0);
  EXPECT_EQ(bench.Free(), kTotal - 2 * kPage);
  EXPECT_EQ(bench.driver.memory_release(one), 0);
  EXPECT_EQ(bench.driver.memory_release(two), 0);
}

TEST_P(FakeGpuMemoryTest, MappingHasRules) {
  FakeBench bench(GetParam());
  const GpuDriver& driver = bench.driver;
  const auto refused = [&](int code, const char* why) {
    EXPECT_NE(code, 0);
    EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr(why));
  };
  GpuAddress none = 0;
  GpuHandle handle = 0;
  const GpuMemoryKind kind;
  const GpuAccess access;
  refused(driver.address_reserve(&none, kPage + 1, 0, 0, 0), "no whole pages");
  refused(driver.address_reserve(&none, kPage, 3 * kPage, 0, 0), "power of two");
  refused(driver.memory_create(&handle, kPage / 2, &kind, 0), "no whole pages");
  const GpuAddress base = bench.Reserve(4 * kPage);
  const GpuHandle two = bench.Create(2 * kPage);
  refused(driver.memory_map(base, kPage, 0, two, 0), "only whole handles");
  refused(driver.memory_map(base, kPage, kPage, two, 0), "only whole handles");
  refused(driver.memory_map(base + 4096, 2 * kPage, 0, two, 0), "at whole pages");
  refused(driver.memory_map(base + 3 * kPage, 2 * kPage, 0, two, 0), "not reserved");
  refused(driver.memory_access(base, 2 * kPage, &access, 1), "not whole mappings");
  EXPECT_EQ(driver.memory_map(base + kPage, 2 * kPage, 0, two, 0), 0);
  const GpuHandle other = bench.Create(2 * kPage);
  refused(driver.memory_map(base, 2 * kPage, 0, other, 0), "something is mapped there");
  refused(driver.memory_unmap(base + kPage, kPage), "not whole mappings");
  refused(driver.memory_unmap(base, 3 * kPage), "not whole mappings");
  refused(driver.address_free(base, 4 * kPage), "memory is mapped there");
  refused(driver.address_free(base, kPage), "not reserved so");
  bench.Unmap(base + kPage, two, 2 * kPage);
  refused(driver.memory_release(two), "not held");
  refused(driver.memory_map(base, 2 * kPage, 0, two, 0), "not held");
  EXPECT_EQ(driver.memory_release(other), 0);
  EXPECT_EQ(driver.address_free(base, 4 * kPage), 0);
}

TEST_P(FakeGpuMemoryTest, RangesBeginWhereTheyAreAskedTo) {
  FakeBench bench(GetParam());
  GpuAddress at = 0;
  EXPECT_EQ(bench.driver.address_reserve(&at, kPage, 16 * kMiB, 0, 0), 0);
  EXPECT_EQ(at % (16 * kMiB), 0U);
  EXPECT_EQ(bench.driver.address_free(at, kPage), 0);
}

TEST_P(FakeGpuMemoryTest, MemoryIsOfNoUseWithoutAccess) {
  FakeBench bench(GetParam());
  const GpuAddress base = bench.Reserve(kPage);
  const GpuHandle handle = bench.Create();
  const GpuStream stream = bench.Stream();
  EXPECT_EQ(bench.driver.memory_map(base, kPage, 0, handle, 0), 0);
  EXPECT_NE(bench.driver.fill(base, 1, kPage, stream), 0);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("no access there"));
  GpuAccess access;
  access.flags = 1;
  EXPECT_EQ(bench.driver.memory_access(base, kPage, &access, 1), 0);
  EXPECT_NE(bench.driver.fill(base, 1, kPage, stream), 0);  // It is read-only.
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("no access there"));
  access.flags = 3;
  EXPECT_EQ(bench.driver.memory_access(base, kPage, &access, 1), 0);
  EXPECT_EQ(bench.driver.fill(base, 1, kPage, stream), 0);
  EXPECT_EQ(bench.gpu.Finish(), 0);
  EXPECT_EQ(bench.gpu.Peek(base, kPage), std::string(kPage, 1));
  EXPECT_EQ(bench.driver.stream_destroy(stream), 0);
  bench.Unmap(base, handle);
  EXPECT_EQ(bench.driver.address_free(base, kPage), 0);
}

TEST_P(FakeGpuMemoryTest, NewMemoryIsZeroOrHoldsWhatWasThere) {
  for (const bool stale : {false, true}) {
    FakeBench bench(GetParam(), {.stale = stale});
    const GpuAddress base = bench.Reserve(kPage);
    GpuHandle handle = bench.Map(base);
    EXPECT_EQ(bench.gpu.Peek(base, 4), stale ? "\xDB\xDB\xDB\xDB" : std::string(4, '\0'));
    bench.gpu.Poke(base, "left");
    bench.Unmap(base, handle);
    handle = bench.Map(base);
    EXPECT_EQ(bench.gpu.Peek(base, 4), stale ? "left" : std::string(4, '\0'));
    bench.Unmap(base, handle);
    EXPECT_EQ(bench.driver.address_free(base, kPage), 0);
  }
}

TEST_P(FakeGpuDeathTest, FollowingADeviceAddressEndsTheProgram) {
  FakeBench bench(GetParam());
  const GpuAddress base = bench.Reserve(kPage);
  const GpuHandle handle = bench.Map(base);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(base) = 1, "");
  bench.Unmap(base, handle);
  EXPECT_EQ(bench.driver.address_free(base, kPage), 0);
}

TEST_P(FakeGpuMemoryTest, FreeingPlainMemoryWaitsForAllThatIsQueued) {
  FakeBench bench(GetParam());
  GpuAddress at = 0;
  EXPECT_EQ(bench.driver.memory_alloc(&at, 1000), 0);
  EXPECT_EQ(bench.Free(), kTotal - kPage);
  std::byte* host = bench.Host(1000);
  const GpuStream stream = bench.Stream();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(bench.driver.copy_to_host(host, at, 1000, stream), 0);
  }
  EXPECT_GT(bench.gpu.pending(), 0U);
  EXPECT_NE(bench.driver.copy_to_host(host, at + 500, 600, stream), 0);  // Past its end.
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("no memory"));
  EXPECT_EQ(bench.driver.memory_free(at), 0);
  EXPECT_EQ(bench.gpu.pending(), 0U);
  EXPECT_EQ(bench.gpu.calls("memory_free"), 1U);
  EXPECT_EQ(bench.Free(), kTotal);
  EXPECT_EQ(bench.driver.host_free(host), 0);
  EXPECT_EQ(bench.driver.stream_destroy(stream), 0);
}

TEST_P(FakeGpuMemoryTest, HostMemoryIsRegisteredOnce) {
  FakeBench bench(GetParam());
  std::vector<std::byte> memory(std::size_t{4} * 4096);
  EXPECT_EQ(bench.driver.host_register(memory.data() + 4096, 4096, kGpuPortable), 0);
  EXPECT_EQ(bench.driver.host_register(memory.data(), 4097, kGpuPortable), 712);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("known already"));
  EXPECT_EQ(bench.driver.host_register(memory.data(), 4096, kGpuPortable), 0);
  EXPECT_EQ(bench.driver.host_unregister(memory.data() + 1), 713);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("not registered"));
  EXPECT_EQ(bench.driver.host_unregister(memory.data()), 0);
  EXPECT_EQ(bench.driver.host_unregister(memory.data() + 4096), 0);
  EXPECT_EQ(bench.driver.host_unregister(memory.data()), 713);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("not registered"));
  EXPECT_EQ(bench.driver.host_free(memory.data()), 1);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("not allocated"));
}

}  // namespace
}  // namespace spillway::testing
