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

#include "device/testing/test_seed.h"

namespace spillway::testing {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kPage = 64 * kKiB;
constexpr Bytes kTotal = 16 * kPage;

// One card, with the few steps that every test takes.
class Bench {
 public:
  explicit Bench(GpuKind kind, FakeGpuOptions options = {}, std::string_view variant = {})
      : gpu(kind, SPILLWAY_FAKES_DIR, With(std::move(options)), variant), driver(*gpu.driver()) {
    if (kind == GpuKind::kCuda) {
      EXPECT_EQ(driver.context_retain(&context, 0), 0);
      EXPECT_EQ(driver.context_push(context), 0);
    }
  }
  ~Bench() {
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

class FakeGpuTest : public ::testing::TestWithParam<GpuKind> {};
INSTANTIATE_TEST_SUITE_P(Vendors, FakeGpuTest, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });
using FakeGpuDeathTest = FakeGpuTest;
INSTANTIATE_TEST_SUITE_P(Vendors, FakeGpuDeathTest,
                         ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         [](const auto& kind) { return std::string(Name(kind.param)); });

// Cards

TEST_P(FakeGpuTest, CardsAreAsTheyWereDescribed) {
  Bench bench(GetParam(), {.cards = 2, .name = "Some Card 80GB", .pci = "0001:c1:00.0"});
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

TEST_P(FakeGpuTest, OthersHoldSomethingFromTheBeginning) {
  Bench bench(GetParam(), {.foreign = 3 * kPage});
  EXPECT_EQ(bench.Free(), kTotal - 3 * kPage);
}

TEST_P(FakeGpuTest, MemoryCountsUntilItIsUnmappedAndReleased) {
  Bench bench(GetParam());
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
  Bench bench(GpuKind::kCuda);
  const GpuAddress base = bench.Reserve(kPage);
  EXPECT_EQ(bench.driver.memory_release(bench.Map(base)), 0);
  EXPECT_EQ(bench.Free(), kTotal - kPage);
  EXPECT_EQ(bench.driver.memory_unmap(base, kPage), 0);
  EXPECT_EQ(bench.Free(), kTotal);
  EXPECT_EQ(bench.driver.address_free(base, kPage), 0);
}

TEST(FakeHip, WhatTheRealOneLosesCountOfIsMisuse) {
  Bench bench(GpuKind::kHip);
  const GpuAddress base = bench.Reserve(2 * kPage);
  EXPECT_EQ(bench.driver.memory_release(bench.Map(base)), 0);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("while mapped"));
  const GpuHandle second = bench.Map(base + kPage);
  EXPECT_EQ(bench.driver.memory_unmap(base, 2 * kPage), 0);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("2 handles at once"));
  EXPECT_EQ(bench.driver.memory_release(second), 0);
  EXPECT_EQ(bench.driver.address_free(base, 2 * kPage), 0);
}

TEST_P(FakeGpuTest, AFullCardHasNoMemory) {
  Bench bench(GetParam());
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

TEST_P(FakeGpuTest, MappingHasRules) {
  Bench bench(GetParam());
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

TEST_P(FakeGpuTest, RangesBeginWhereTheyAreAskedTo) {
  Bench bench(GetParam());
  GpuAddress at = 0;
  EXPECT_EQ(bench.driver.address_reserve(&at, kPage, 16 * kMiB, 0, 0), 0);
  EXPECT_EQ(at % (16 * kMiB), 0U);
  EXPECT_EQ(bench.driver.address_free(at, kPage), 0);
}

TEST_P(FakeGpuTest, MemoryIsOfNoUseWithoutAccess) {
  Bench bench(GetParam());
  const GpuAddress base = bench.Reserve(kPage);
  const GpuHandle handle = bench.Create();
  const GpuStream stream = bench.Stream();
  EXPECT_EQ(bench.driver.memory_map(base, kPage, 0, handle, 0), 0);
  EXPECT_NE(bench.driver.fill(base, 1, kPage, stream), 0);
  EXPECT_THAT(bench.gpu.TakeMisuse(), HasSubstr("no access there"));
  GpuAccess access;
  access.flags = 1;
  EXPECT_EQ(bench.driver.memory_access(base, kPage, &access, 1), 0);
  EXPECT_NE(bench.driver.fill(base, 1, kPage, stream), 0);  // To be read only.
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

TEST_P(FakeGpuTest, NewMemoryIsZeroOrHoldsWhatWasThere) {
  for (const bool stale : {false, true}) {
    Bench bench(GetParam(), {.stale = stale});
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
  Bench bench(GetParam());
  const GpuAddress base = bench.Reserve(kPage);
  const GpuHandle handle = bench.Map(base);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(base) = 1, "");
  bench.Unmap(base, handle);
  EXPECT_EQ(bench.driver.address_free(base, kPage), 0);
}

TEST_P(FakeGpuTest, FreeingPlainMemoryWaitsForAllThatIsQueued) {
  Bench bench(GetParam());
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

TEST_P(FakeGpuTest, HostMemoryIsRegisteredOnce) {
  Bench bench(GetParam());
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

// Copies

// Two pages of a card, host memory for both, two streams and an event.
class Copies : public Bench {
 public:
  explicit Copies(GpuKind kind, FakeGpuOptions options = {}, std::string_view variant = {})
      : Bench(kind, std::move(options), variant) {}
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

TEST_P(FakeGpuTest, SourcesAreReadWhenTheirTurnComes) {
  Copies copies(GetParam());
  copies.gpu.Hang(true);
  std::memcpy(copies.host, "before", 6);
  EXPECT_EQ(copies.driver.copy_to_device(copies.at, copies.host, 6, copies.stream), 0);
  copies.Record();
  std::memcpy(copies.host, "after!", 6);
  EXPECT_EQ(copies.driver.event_query(copies.event), kGpuNotReady);
  copies.gpu.Hang(false);
  EXPECT_EQ(copies.Await(copies.event), 0);
  EXPECT_EQ(copies.gpu.Peek(copies.at, 6), "after!");
  EXPECT_EQ(copies.gpu.pageable(), 0U);
}

TEST_P(FakeGpuTest, AStreamKeepsItsOrderAndPollingComesToAnEnd) {
  Copies copies(GetParam());
  for (int round = 0; round < 50; ++round) {
    const auto value = static_cast<unsigned char>(round);
    EXPECT_EQ(copies.driver.fill(copies.at, 0xEE, 100, copies.stream), 0);
    EXPECT_EQ(copies.driver.fill(copies.at, value, 100, copies.stream), 0);
    EXPECT_EQ(copies.driver.copy_on_device(copies.at + kPage, copies.at, 100, copies.stream), 0);
    EXPECT_EQ(copies.driver.copy_to_host(copies.host, copies.at + kPage, 100, copies.stream), 0);
    copies.Record();
    EXPECT_EQ(copies.Await(copies.event), 0);
    EXPECT_EQ(copies.host[99], std::byte{value});
  }
}

TEST_P(FakeGpuTest, StreamsGoOnInAnyOrderUnlessTheyWait) {
  bool first_won = false;
  bool second_won = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Copies copies(GetParam(), {.seed = seed});
    EXPECT_EQ(copies.driver.fill(copies.at, 1, 1, copies.stream), 0);
    EXPECT_EQ(copies.driver.fill(copies.at, 2, 1, copies.second), 0);
    EXPECT_EQ(copies.gpu.Finish(), 0);
    (copies.gpu.Peek(copies.at, 1)[0] == 1 ? first_won : second_won) = true;
    EXPECT_EQ(copies.driver.fill(copies.at, 3, 1, copies.stream), 0);
    copies.Record();
    EXPECT_EQ(copies.driver.stream_wait(copies.second, copies.event, 0), 0);
    // The wait is for the record there was, not for this one.
    EXPECT_EQ(copies.driver.stream_wait(copies.stream, copies.event, 0), 0);
    copies.Record();
    EXPECT_EQ(copies.driver.fill(copies.at, 4, 1, copies.second), 0);
    EXPECT_EQ(copies.gpu.Finish(), 0);
    EXPECT_EQ(copies.gpu.Peek(copies.at, 1)[0], 4);
  }
  EXPECT_TRUE(first_won);
  EXPECT_TRUE(second_won);
}

TEST_P(FakeGpuTest, AnEventNeverRecordedIsDone) {
  Copies copies(GetParam());
  EXPECT_EQ(copies.driver.event_query(copies.event), 0);
  EXPECT_EQ(copies.driver.stream_wait(copies.stream, copies.event, 0), 0);
  EXPECT_EQ(copies.gpu.pending(), 0U);
}

TEST_P(FakeGpuTest, TheDefaultStreamIsAStreamToo) {
  Copies copies(GetParam());
  EXPECT_EQ(copies.driver.fill(copies.at, 7, 10, nullptr), 0);
  EXPECT_EQ(copies.driver.event_record(copies.event, nullptr), 0);
  EXPECT_EQ(copies.driver.stream_wait(copies.stream, copies.event, 0), 0);
  EXPECT_EQ(copies.driver.copy_to_host(copies.host, copies.at, 10, copies.stream), 0);
  copies.Record();
  EXPECT_EQ(copies.Await(copies.event), 0);
  EXPECT_EQ(copies.host[9], std::byte{7});
}

TEST_P(FakeGpuTest, MemoryTheDriverDoesNotKnowIsCopiedAtOnceAndCounted) {
  Copies copies(GetParam());
  std::string text = "pageable";
  EXPECT_EQ(copies.driver.fill(copies.at, 'x', 16, copies.stream), 0);
  EXPECT_EQ(copies.driver.copy_to_device(copies.at, text.data(), 8, copies.stream), 0);
  EXPECT_EQ(copies.gpu.Peek(copies.at, 10), "pageablexx");
  EXPECT_EQ(copies.driver.fill(copies.at, 'y', 4, copies.stream), 0);
  EXPECT_EQ(copies.driver.copy_to_host(text.data(), copies.at, 8, copies.stream), 0);
  EXPECT_EQ(text, "yyyyable");
  EXPECT_EQ(copies.gpu.pageable(), 2U);
}

TEST_P(FakeGpuTest, ACopyReachesOverNoEdgeOfRegisteredMemory) {
  Copies copies(GetParam());
  std::vector<std::byte> memory(8192);
  EXPECT_EQ(copies.driver.host_register(memory.data(), 4096, kGpuPortable), 0);
  const auto copy = [&](Bytes from, Bytes bytes) {
    return copies.driver.copy_to_device(copies.at, memory.data() + from, bytes, copies.stream);
  };
  EXPECT_EQ(copy(4000, 200), 1);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("in part registered"));
  EXPECT_EQ(copies.driver.host_register(memory.data() + 4096, 4096, kGpuPortable), 0);
  EXPECT_EQ(copy(4000, 200), 1);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("in two parts"));
  EXPECT_EQ(copy(4000, 96), 0);
  EXPECT_EQ(copies.gpu.pageable(), 0U);
  EXPECT_EQ(copies.gpu.Finish(), 0);
  EXPECT_EQ(copies.driver.host_unregister(memory.data()), 0);
  EXPECT_EQ(copies.driver.host_unregister(memory.data() + 4096), 0);
}

TEST_P(FakeGpuTest, CopiesTouchOnlyMemoryThatIsThere) {
  Copies copies(GetParam());
  const GpuDriver& driver = copies.driver;
  const auto refused = [&](int code, const char* why) {
    EXPECT_EQ(code, 1);
    EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr(why));
  };
  const GpuAddress hole = copies.Reserve(kPage);
  refused(driver.fill(hole, 0, 1, copies.stream), "no memory");
  refused(driver.copy_to_host(copies.host, copies.at + kPage, kPage + 1, copies.stream),
          "no memory");
  refused(driver.copy_to_host(copies.host, 4096, 1, copies.stream), "other kind");
  refused(driver.copy_to_device(copies.at, reinterpret_cast<void*>(copies.at), 1, copies.stream),
          "other kind");
  refused(driver.copy_on_device(copies.at, copies.at + 10, 11, copies.stream), "overlap");
  EXPECT_EQ(driver.copy_on_device(copies.at, copies.at + 10, 10, copies.stream), 0);
  EXPECT_EQ(driver.address_free(hole, kPage), 0);
}

TEST(FakeCuda, ABatchIsStreamOrderedAndItsPiecesAreNot) {
  for (const std::string_view variant : {"", "without_batch_v2"}) {
    Copies copies(GpuKind::kCuda, {}, variant);
    const GpuDriver& driver = copies.driver;
    const auto batch = [&](std::vector<GpuAddress> to, std::vector<GpuAddress> from,
                           std::vector<std::size_t> bytes, std::vector<GpuCopyKind> kinds,
                           std::vector<std::size_t> first, GpuStream stream) {
      if (driver.copy_batch_v2 != nullptr) {
        return driver.copy_batch_v2(to.data(), from.data(), bytes.data(), to.size(), kinds.data(),
                                    first.data(), kinds.size(), stream);
      }
      std::size_t failed = 0;
      return driver.copy_batch_v1(to.data(), from.data(), bytes.data(), to.size(), kinds.data(),
                                  first.data(), kinds.size(), &failed, stream);
    };
    const auto host = reinterpret_cast<GpuAddress>(copies.host);
    copies.gpu.Hang(true);
    std::memcpy(copies.host, "abcd", 4);
    GpuCopyKind any;
    any.order = 3;
    // The first two by the stream's order, the third at any time: at once.
    EXPECT_EQ(batch({copies.at, copies.at + 1, copies.at + 2}, {host + 2, host, host + 1},
                    {1, 1, 1}, {GpuCopyKind(), any}, {0, 2}, copies.stream),
              0);
    std::memcpy(copies.host, "ABCD", 4);
    copies.gpu.Hang(false);
    EXPECT_EQ(copies.gpu.Finish(), 0);
    EXPECT_EQ(copies.gpu.Peek(copies.at, 3), "CAb");

    const auto refused = [&](int code, const char* why) {
      EXPECT_EQ(code, 1);
      EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr(why));
    };
    GpuCopyKind wrong;
    wrong.order = 0;
    refused(batch({copies.at}, {host}, {1}, {wrong}, {0}, copies.stream), "driver refuses");
    refused(batch({copies.at}, {host}, {1}, {GpuCopyKind()}, {0}, nullptr), "driver refuses");
    refused(batch({copies.at}, {host}, {1}, {GpuCopyKind()}, {1}, copies.stream), "refuses");
    refused(batch({copies.at, copies.at + 5}, {host, host + 10}, {6, 6}, {GpuCopyKind()}, {0},
                  copies.stream),
            "overlap");
  }
}

TEST_P(FakeGpuTest, TheKernelCopiesWhatItsTableSays) {
  Copies copies(GetParam());
  const GpuDriver& driver = copies.driver;
  void* module = nullptr;
  void* gather = nullptr;
  EXPECT_EQ(driver.module_load(&module, "any image"), 0);
  EXPECT_NE(driver.module_function(&gather, module, "another"), 0);
  EXPECT_EQ(driver.module_function(&gather, module, "spillway_gather"), 0);
  copies.gpu.Poke(copies.at, "0123456789");
  struct Piece {
    std::uint64_t to, from, bytes;
  };
  const std::array<Piece, 2> pieces{
      {{copies.at + kPage, copies.at + 5, 3}, {copies.at + kPage + 3, copies.at, 2}}};
  std::uint64_t table = reinterpret_cast<std::uint64_t>(copies.host);
  std::uint32_t count = 2;
  std::array<void*, 2> arguments{&table, &count};
  const auto launch = [&] {
    return driver.launch(gather, 2, 1, 1, 256, 1, 1, 0, copies.stream, arguments.data(), nullptr);
  };
  copies.gpu.Hang(true);
  EXPECT_EQ(launch(), 0);
  table = 0;  // Arguments are read at the call, the table when its turn comes.
  std::memcpy(copies.host, pieces.data(), sizeof(pieces));
  copies.gpu.Hang(false);
  copies.Record();
  EXPECT_EQ(copies.Await(copies.event), 0);
  EXPECT_EQ(copies.gpu.Peek(copies.at + kPage, 5), "56701");

  table = reinterpret_cast<std::uint64_t>(pieces.data());  // Not known to the card.
  EXPECT_EQ(launch(), 0);
  EXPECT_EQ(copies.gpu.Finish(), 700);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("table"));
  EXPECT_EQ(driver.event_query(copies.event), 700);  // And so does every call.
  EXPECT_TRUE(copies.gpu.out_of_reach());
  copies.gpu.Lose(0);
  EXPECT_EQ(driver.module_unload(module), 0);
  EXPECT_NE(launch(), 0);
  EXPECT_THAT(copies.gpu.TakeMisuse(), HasSubstr("not there"));
}

TEST_P(FakeGpuTest, RandomWorkIsTheSameAsInOrder) {
  const std::uint64_t seed = TestSeed(7);
  SCOPED_TRACE(seed);
  for (const bool thread : {false, true}) {
    std::mt19937_64 random(seed);
    Copies copies(GetParam(), {.seed = seed, .thread = thread});
    std::string model(2 * kPage, '\0');
    std::string model_host(2 * kPage, '\xCD');
    for (int i = 0; i < 500; ++i) {
      const Bytes from = random() % kPage;
      const Bytes to = kPage + random() % kPage;
      const Bytes bytes = random() % (2 * kPage - to);
      const GpuStream stream = random() % 2 == 0 ? copies.stream : copies.second;
      // Whoever comes next waits for the one before: the order is fixed.
      EXPECT_EQ(copies.driver.stream_wait(stream, copies.event, 0), 0);
      switch (random() % 4) {
        case 0:
          EXPECT_EQ(
              copies.driver.fill(copies.at + to, static_cast<unsigned char>(i), bytes, stream), 0);
          std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(to), bytes, static_cast<char>(i));
          break;
        case 1:
          EXPECT_EQ(copies.driver.copy_to_host(copies.host + from, copies.at + to, bytes, stream),
                    0);
          model_host.replace(from, bytes, model, to, bytes);
          break;
        case 2:
          EXPECT_EQ(copies.driver.copy_to_device(copies.at + to, copies.host + from, bytes, stream),
                    0);
          model.replace(to, bytes, model_host, from, bytes);
          break;
        default: {
          const Bytes some = std::min(bytes, to - from);
          EXPECT_EQ(copies.driver.copy_on_device(copies.at + to, copies.at + from, some, stream),
                    0);
          model.replace(to, some, std::string(model, from, some));
        }
      }
      EXPECT_EQ(copies.driver.event_record(copies.event, stream), 0);
      if (random() % 8 == 0) {
        EXPECT_EQ(copies.Await(copies.event), 0);
      }
    }
    EXPECT_EQ(copies.Await(copies.event), 0);
    EXPECT_EQ(copies.gpu.Peek(copies.at, 2 * kPage), model);
    EXPECT_EQ(std::memcmp(copies.host, model_host.data(), model_host.size()), 0);
  }
}

TEST_P(FakeGpuTest, ThreadsShareACard) {
  for (const bool thread : {false, true}) {
    Copies copies(GetParam(), {.thread = thread});
    const GpuDriver& driver = copies.driver;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const GpuScope scope(driver, 0, copies.context);
        const GpuStream stream = copies.Stream();
        const GpuEvent event = copies.Event();
        for (std::size_t round = 0; round < 100; ++round) {
          std::byte* const mine = copies.host + i * 4096;
          const std::byte value{static_cast<unsigned char>(i * 50 + round)};
          std::fill_n(mine, 4096, value);
          EXPECT_EQ(driver.copy_to_device(copies.at + i * 4096, mine, 4096, stream), 0);
          EXPECT_EQ(driver.event_record(event, stream), 0);
          EXPECT_EQ(copies.Await(event), 0);
          std::fill_n(mine, 4096, std::byte{0});
          EXPECT_EQ(driver.copy_to_host(mine, copies.at + i * 4096, 4096, stream), 0);
          EXPECT_EQ(driver.event_record(event, stream), 0);
          EXPECT_EQ(copies.Await(event), 0);
          EXPECT_EQ(mine[4095], value);
        }
        EXPECT_EQ(driver.event_destroy(event), 0);
        EXPECT_EQ(driver.stream_destroy(stream), 0);
      });
    }
    for (std::thread& each : threads) each.join();
  }
}

// Misuse

TEST_P(FakeGpuTest, MemoryIsInUseUntilItsEventWasSeen) {
  Bench bench(GetParam());
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
      EXPECT_EQ(bench.Await(after), 0);  // Which comes after the other.
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
    bench.gpu.Lose(700);  // What is queued there has no memory any more.
    bench.gpu.Lose(0);
  }
  EXPECT_EQ(driver.event_destroy(event), 0);
  EXPECT_EQ(driver.event_destroy(after), 0);
  EXPECT_EQ(driver.stream_destroy(stream), 0);
  EXPECT_EQ(driver.stream_destroy(later), 0);
  EXPECT_EQ(driver.address_free(base, kPage), 0);
}

TEST_P(FakeGpuTest, WhatWasDestroyedIsNotUsed) {
  Bench bench(GetParam());
  const GpuDriver& driver = bench.driver;
  const GpuStream stream = bench.Stream();
  const GpuEvent event = bench.Event();
  EXPECT_EQ(driver.event_record(event, stream), 0);
  EXPECT_EQ(driver.stream_destroy(stream), 0);
  EXPECT_EQ(bench.Await(event), 0);  // What was queued is still done.
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

TEST_P(FakeGpuTest, TheLedgerNamesAllThatIsLeft) {
  Bench bench(GetParam());
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

TEST_P(FakeGpuTest, TheNthCallFailsOnceOrForGood) {
  Bench bench(GetParam());
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

TEST_P(FakeGpuTest, AGiveBackThatFailsIsDoneUnlessItIsStrict) {
  for (const bool strict : {false, true}) {
    Bench bench(GetParam(), {.strict = strict});
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

TEST_P(FakeGpuTest, AFatalCodeEndsWhatIsQueued) {
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

TEST_P(FakeGpuTest, ACardThatHangsIsNeverDone) {
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

TEST_P(FakeGpuTest, ALostCardAnswersNothingElse) {
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
