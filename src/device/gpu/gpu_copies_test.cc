// SPDX-License-Identifier: Apache-2.0
// Copies in every way, in whatever order the card executes them.
#include "device/gpu/gpu_copies.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "device/testing/gpu_bench.h"
#include "device/testing/test_seed.h"

namespace spillway::testing {
namespace {

using Random = std::mt19937_64;

Bytes Between(Random& random, Bytes least, Bytes most) {
  return std::uniform_int_distribution<Bytes>(least, most)(random);
}

// Mostly small, sometimes a few MiB.
Bytes SomeSize(Random& random) {
  switch (Between(random, 0, 5)) {
    case 0:
      return 1;
    case 1:
      return Between(random, 1, 100);
    case 2:
    case 3:
      return Between(random, 100, 20 * kKiB);
    case 4:
      return Between(random, 20 * kKiB, 200 * kKiB);
    default:
      return Between(random, 200 * kKiB, 2 * kMiB);
  }
}

// Contiguous host memory: all of it registered, none of it, or parts.
class HostMemory {
 public:
  HostMemory(GpuBench* bench, Bytes bytes, int how)
      : bytes_(bytes), at_(static_cast<char*>(std::aligned_alloc(4096, bytes))) {
    if (how == 1) bench->Pin(at_, bytes);
    if (how == 2) {  // Two adjacent chunks and an unregistered part.
      bench->Pin(at_, kMiB);
      bench->Pin(at_ + kMiB, kMiB);
    }
  }
  ~HostMemory() { std::free(at_); }  // NOLINT(cppcoreguidelines-no-malloc)
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  char* at(Bytes offset = 0) const { return at_ + offset; }
  Bytes bytes() const { return bytes_; }

 private:
  const Bytes bytes_;
  char* const at_;
};

class GpuCopiesTest : public ::testing::TestWithParam<std::pair<GpuKind, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Vendors, GpuCopiesTest,
                         ::testing::Values(std::pair(GpuKind::kCuda, ""),
                                           std::pair(GpuKind::kCuda, "without_batch"),
                                           std::pair(GpuKind::kCuda, "without_batch_v2"),
                                           std::pair(GpuKind::kCuda, "without_modules"),
                                           std::pair(GpuKind::kHip, "")),
                         [](const auto& one) {
                           return std::string(Name(one.param.first)) +
                                  (*one.param.second == '\0' ? "" : "_") + one.param.second;
                         });

// The upper half of the range belongs to a program whose pieces are scattered.
class Scene {
 public:
  static constexpr Bytes kValue = 4 * kMiB;
  static constexpr Bytes kTheirs = 8 * kMiB;

  Scene(GpuBench* bench, HostMemory* host, std::uint64_t seed)
      : bench_(bench), host_(host), random_(seed) {}

  // Copies a value of random pieces from random places in, compares it, and
  // copies it out again to other places. `to` and `own`: its place on the
  // device and its size there.
  void CopyOnce(Bytes to, Bytes own, Bytes theirs, Bytes theirs_bytes) {
    struct Part {
      Bytes at = 0;
      Bytes bytes = 0;
      Place place = Place::kHost;
    };
    const auto plan = [&](Bytes total) {
      std::vector<Part> parts;
      Bytes host = Between(random_, 0, 5000);
      Bytes device = theirs;
      const int kind = static_cast<int>(Between(random_, 0, 3));  // Host, device, both, uniform.
      const Bytes uniform = Between(random_, 1, 12 * kKiB);
      const bool dense = Between(random_, 0, 1) == 0;
      while (total > 0) {
        Part part;
        part.bytes = std::min(total, kind == 3 ? uniform : SomeSize(random_));
        part.place =
            kind == 0 || (kind >= 2 && Between(random_, 0, 1) == 0) ? Place::kHost : Place::kDevice;
        Bytes& next = part.place == Place::kHost ? host : device;
        const Bytes end = part.place == Place::kHost ? host_->bytes() : theirs + theirs_bytes;
        if (next + part.bytes > end) part.bytes = end - next;
        if (part.bytes == 0) break;
        part.at = next;
        next += part.bytes + (dense ? 0 : Between(random_, 0, 200));
        next = std::min(next, end);
        total -= part.bytes;
        parts.push_back(part);
      }
      if (dense || Between(random_, 0, 1) == 0) return parts;
      std::ranges::shuffle(parts, random_);
      return parts;
    };
    Bytes bytes = 0;
    std::string value;
    std::vector<Fragment> from;
    for (const Part& part : plan(std::min(own, SomeSize(random_) * Between(random_, 1, 8)))) {
      const std::string text = RandomText(random_(), part.bytes);
      value += text;
      bytes += part.bytes;
      if (part.place == Place::kHost) {
        std::memcpy(host_->at(part.at), text.data(), part.bytes);
        from.push_back({host_->at(part.at), part.bytes, Place::kHost});
      } else {
        bench_->Poke(part.at, text);
        from.push_back({bench_->base + part.at, part.bytes, Place::kDevice});
      }
    }
    const Status in = bench_->device->CopyIn(bench_->base + to, Source(std::move(from)));
    ASSERT_TRUE(in) << in.error().message;
    ASSERT_EQ(bench_->Peek(to, bytes), value);

    std::memset(host_->at(), '?', host_->bytes());
    std::vector<MutableFragment> into;
    const std::vector<Part> parts = plan(bytes);
    Bytes room = 0;
    for (const Part& part : parts) {
      room += part.bytes;
      if (part.place == Place::kHost) {
        into.push_back({host_->at(part.at), part.bytes, Place::kHost});
      } else {
        into.push_back({bench_->base + part.at, part.bytes, Place::kDevice});
      }
    }
    bytes = std::min(bytes, room);
    const Status out = bench_->device->CopyOut(bench_->base + to, bytes, Sink(std::move(into)));
    ASSERT_TRUE(out) << out.error().message;
    Bytes at = 0;
    for (const Part& part : parts) {
      const Bytes take = std::min(part.bytes, bytes - at);
      const std::string got = part.place == Place::kHost ? std::string(host_->at(part.at), take)
                                                         : bench_->Peek(part.at, take);
      ASSERT_EQ(got, value.substr(at, take));
      at += take;
    }
    copies_ += 2;
    bytes_ += 2 * bytes;
  }
  int copies() const { return copies_; }
  Bytes bytes() const { return bytes_; }

 private:
  GpuBench* const bench_;
  HostMemory* const host_;
  Random random_;
  int copies_ = 0;
  Bytes bytes_ = 0;
};

TEST_P(GpuCopiesTest, ScatteredPiecesArriveBitForBit) {
  const std::uint64_t seed = TestSeed(20);
  SCOPED_TRACE(seed);
  int copies = 0;
  Bytes bytes = 0;
  for (int how = 0; how < 3; ++how) {
    for (const bool thread : {false, true}) {
      GpuBench bench(
          GetParam().first,
          {.seed = seed + static_cast<std::uint64_t>(how), .stale = true, .thread = thread},
          GetParam().second);
      HostMemory host(&bench, 6 * kMiB, how);
      bench.Map(GpuBench::kRange);
      Scene scene(&bench, &host, seed * 10 + static_cast<std::uint64_t>(how));
      for (int round = 0; round < 25 && !::testing::Test::HasFatalFailure(); ++round) {
        scene.CopyOnce(round % 2 == 0 ? 0 : 12345, Scene::kValue, Scene::kTheirs, 7 * kMiB);
      }
      copies += scene.copies();
      bytes += scene.bytes();
      EXPECT_EQ(bench.gpu.pageable(), 0U);
      if (how > 0 && GetParam().first == GpuKind::kCuda) {
        const bool modules = std::string_view(GetParam().second) != "without_modules";
        EXPECT_EQ(bench.gpu.calls("launch") > 0, modules);
      }
    }
  }
  RecordProperty("copies", copies);
  RecordProperty("bytes", std::to_string(bytes));
}

TEST_P(GpuCopiesTest, ThreadsCopySideBySide) {
  const std::uint64_t seed = TestSeed(30);
  SCOPED_TRACE(seed);
  GpuBench bench(GetParam().first, {.seed = seed, .thread = true}, GetParam().second);
  bench.Map(GpuBench::kRange);
  constexpr Bytes kThreads = 6;
  std::vector<std::unique_ptr<HostMemory>> memory;
  for (Bytes i = 0; i < kThreads; ++i) {
    memory.push_back(std::make_unique<HostMemory>(&bench, 3 * kMiB, static_cast<int>(i % 3)));
  }
  std::vector<std::thread> threads;
  for (Bytes i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Scene scene(&bench, memory[i].get(), seed + i);
      for (int round = 0; round < 12; ++round) {
        scene.CopyOnce(i * kMiB, kMiB, 6 * kMiB + i * kMiB, kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- order ---

class GpuOrderTest : public ::testing::TestWithParam<GpuKind> {};
INSTANTIATE_TEST_SUITE_P(Vendors, GpuOrderTest, ::testing::Values(GpuKind::kCuda, GpuKind::kHip),
                         NameOf);

TEST_P(GpuOrderTest, ASourceIsReadAfterWhatItsOrderNames) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    GpuBench bench(GetParam(), {.seed = seed});
    bench.Map(4 * kMiB);
    const GpuDriver& driver = *bench.gpu.driver();
    GpuContext context = nullptr;
    GpuStream stream = nullptr;
    GpuEvent event = nullptr;
    if (driver.kind == GpuKind::kCuda) {
      ASSERT_EQ(driver.context_retain(&context, 0), 0);
      ASSERT_EQ(driver.context_push(context), 0);
    }
    ASSERT_EQ(driver.stream_create(&stream, kGpuNonBlocking, 0), 0);
    ASSERT_EQ(driver.event_create(&event, kGpuNoTiming), 0);
    for (const bool by_event : {false, true}) {
      // Work queued by the program: many steps, of which only the last writes
      // the final bytes.
      const auto last = static_cast<unsigned char>(by_event ? 'e' : 's');
      for (unsigned char i = 0; i < 30; ++i) {
        ASSERT_EQ(driver.fill(bench.At(kMiB), i, 300 * kKiB, stream), 0);
      }
      ASSERT_EQ(driver.fill(bench.At(kMiB), last, 300 * kKiB, stream), 0);
      if (by_event) {
        ASSERT_EQ(driver.event_record(event, stream), 0);
      }
      const DeviceOrder order = by_event ? DeviceOrder::Event(event) : DeviceOrder::Stream(stream);
      std::vector<Fragment> pieces;  // Scattered, so that a kernel gathers them.
      for (Bytes at = 0; at < 300 * kKiB; at += 6 * kKiB) {
        pieces.push_back({bench.base + kMiB + at, 5 * kKiB, Place::kDevice});
      }
      ASSERT_TRUE(bench.device->CopyIn(bench.base, Source(pieces, order)));
      ASSERT_EQ(bench.Peek(0, 250 * kKiB), std::string(250 * kKiB, static_cast<char>(last)));
      // Also into host memory, as the cache does for a value that finds no room
      // on the device.
      std::string out(250 * kKiB, '?');
      ASSERT_TRUE(
          bench.device->CopyIn(reinterpret_cast<std::byte*>(out.data()), Source(pieces, order)));
      ASSERT_EQ(out, std::string(250 * kKiB, static_cast<char>(last)));
    }
    // A sink is written only after earlier readers of it: they see the old bytes.
    bench.Poke(2 * kMiB, std::string(100 * kKiB, 'o'));
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(driver.copy_on_device(bench.At(3 * kMiB), bench.At(2 * kMiB), 100 * kKiB, stream),
                0);
    }
    const std::string fresh(100 * kKiB, 'n');
    ASSERT_TRUE(bench.device->CopyIn(bench.base, Source(fresh)));
    ASSERT_TRUE(bench.device->CopyOut(bench.base, fresh.size(),
                                      Sink({{bench.base + 2 * kMiB, fresh.size(), Place::kDevice}},
                                           DeviceOrder::Stream(stream))));
    ASSERT_EQ(bench.gpu.Finish(), 0);
    EXPECT_EQ(bench.Peek(3 * kMiB, 100 * kKiB), std::string(100 * kKiB, 'o'));
    EXPECT_EQ(bench.Peek(2 * kMiB, 100 * kKiB), fresh);
    int code = kGpuNotReady;
    ASSERT_EQ(driver.event_record(event, stream), 0);
    while (code == kGpuNotReady) code = driver.event_query(event);
    EXPECT_EQ(driver.stream_destroy(stream), 0);
    EXPECT_EQ(driver.event_destroy(event), 0);
    if (driver.kind == GpuKind::kCuda) {
      EXPECT_EQ(driver.context_pop(&context), 0);
      EXPECT_EQ(driver.context_release(0), 0);
    }
  }
}

TEST_P(GpuOrderTest, ACopyToTheHostTellsHowFarItIsAndCanBeCalledOff) {
  GpuBench bench(GetParam());
  bench.Map(2 * kMiB);
  const std::string text = RandomText(4, 2 * kMiB);
  ASSERT_TRUE(bench.device->CopyIn(bench.base, Source(text)));
  for (const bool pinned : {false, true}) {
    std::string out(text.size(), '?');
    if (pinned) bench.Pin(out.data(), out.size());
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    Bytes last = 0;
    const auto arrived = [&](Bytes so_far) {
      EXPECT_GT(so_far, last);
      EXPECT_EQ(out.compare(0, so_far, text, 0, so_far), 0);
      last = so_far;
      return true;
    };
    ASSERT_TRUE(bench.device->CopyToHost(bench.base, text.size(), to, arrived));
    EXPECT_EQ(last, text.size());
    EXPECT_EQ(out, text);
    const Status off = bench.device->CopyToHost(bench.base, text.size(), to,
                                                [](Bytes so_far) { return so_far < kMiB; });
    ASSERT_FALSE(off);
    EXPECT_EQ(off.error().code, Code::kCancelled);
    ASSERT_TRUE(bench.device->CopyToHost(bench.base, text.size(), to, {}));
    EXPECT_EQ(out, text);
    if (pinned) {
      bench.device->pins()->Removed(to, out.size());
      bench.pinned.clear();
    }
  }
}

// The device computes checksums of the bytes that arrived, not of those that were sent.
TEST_P(GpuOrderTest, WhatArrivesOnTheDeviceIsHashedThere) {
  GpuBench bench(GetParam());
  bench.Map(8 * kMiB);
  const bool can = GetParam() == GpuKind::kCuda;
  EXPECT_EQ(bench.device->makes_hashes(), can);
  for (const Bytes bytes : {kMiB - 1, kMiB, 5 * kMiB + 12'345, 8 * kMiB}) {
    for (const bool garbled : {false, true}) {
      const std::string text = RandomText(bytes, bytes);
      if (garbled) bench.gpu.Garble(1);
      std::vector<Hash128> hashes(99);
      ASSERT_TRUE(bench.device->CopyFromHost(
          bench.base, reinterpret_cast<const std::byte*>(text.data()), bytes,
          [](Bytes) { return true; }, &hashes));
      ASSERT_EQ(hashes.size(), can ? bytes / kMiB : 0);
      const std::string there = bench.gpu.Peek(reinterpret_cast<GpuAddress>(bench.base), bytes);
      EXPECT_EQ(there == text, !garbled);
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        const XXH128_hash_t want = XXH3_128bits(there.data() + i * kMiB, kMiB);
        EXPECT_EQ(hashes[i], (Hash128{want.low64, want.high64})) << i;
      }
    }
  }
}

// Without the kernel copies still work.
TEST_P(GpuOrderTest, AKernelThatFailsCostsOnlyTheChecksums) {
  for (const char* function : {"launch", "host_alloc"}) {
    GpuBench bench(GetParam());
    bench.Map(4 * kMiB);
    std::string text = RandomText(5, 3 * kMiB);
    bench.Pin(text.data(), text.size());
    bench.gpu.FailFunction(function, 1, 2);
    std::vector<Hash128> hashes;
    ASSERT_TRUE(bench.device->CopyFromHost(
        bench.base, reinterpret_cast<const std::byte*>(text.data()), text.size(),
        [](Bytes) { return true; }, &hashes));
    EXPECT_TRUE(hashes.empty()) << function;
    EXPECT_EQ(bench.gpu.Peek(reinterpret_cast<GpuAddress>(bench.base), text.size()), text);
  }
}

TEST_P(GpuOrderTest, AFullCardIsCopiedWithoutStaging) {
  GpuBench bench(GetParam());
  bench.Map(2 * kMiB);
  bench.gpu.SetForeign(30 * kMiB);
  HostMemory host(&bench, 6 * kMiB, 1);
  Scene scene(&bench, &host, 7);
  for (int round = 0; round < 10; ++round) scene.CopyOnce(0, kMiB, kMiB, kMiB);
  EXPECT_EQ(bench.device->ledger().staging, 0U);
}

}  // namespace
}  // namespace spillway::testing
