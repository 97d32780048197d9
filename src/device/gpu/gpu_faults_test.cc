// SPDX-License-Identifier: Apache-2.0
// One driver call after another fails, once or from then on, in a run that
// opens a device, copies in every way and closes it. In each case no byte is
// wrong, nothing is misused, and everything that can be returned is returned.
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/testing/gpu_bench.h"
#include "spillway/log.h"

namespace spillway::testing {
namespace {

constexpr Bytes kChunk = GpuBench::kChunk;
constexpr Bytes kChunks = 12;
constexpr Bytes kValue = 300 * kKiB;

struct FaultCase {
  GpuKind kind;
  int code;
  bool for_good;
  bool slabs = false;
};

class GpuFaultsTest : public ::testing::TestWithParam<FaultCase> {
 protected:
  // Thousands of faults would log thousands of lines.
  void SetUp() override { SetLog(LogLevel::kOff); }
  void TearDown() override { SetLog(LogLevel::kInfo); }
};
std::vector<FaultCase> Cases() {
  std::vector<FaultCase> cases;
  for (const GpuKind kind : {GpuKind::kCuda, GpuKind::kHip}) {
    for (const int code : {2, 700, 999}) {
      for (const bool for_good : {false, true}) cases.push_back({kind, code, for_good});
      if (kind == GpuKind::kHip) cases.push_back({kind, code, false, true});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Codes, GpuFaultsTest, ::testing::ValuesIn(Cases()), [](const auto& one) {
  return std::string(Name(one.param.kind)) + "_" + std::to_string(one.param.code) +
         (one.param.for_good ? "_for_good" : "_once") + (one.param.slabs ? "_slabs" : "");
});

// Bytes that a copy reports as arrived are correct; failed copies say so.
class Script {
 public:
  Script(const FakeGpu& gpu, GpuKind kind, bool slabs) : options_(GpuBench::OptionsFor(gpu, kind)) {
    if (slabs) options_.memory = GpuDeviceOptions::Memory::kSlabs;
    options_.copies.within = std::chrono::seconds(5);
    host_ = static_cast<char*>(std::aligned_alloc(4096, 2 * kValue / 4096 * 4096 + 8192));
    plain_ = static_cast<char*>(std::aligned_alloc(4096, 2 * kValue / 4096 * 4096 + 8192));
  }
  ~Script() {
    std::free(host_);   // NOLINT(cppcoreguidelines-no-malloc)
    std::free(plain_);  // NOLINT(cppcoreguidelines-no-malloc)
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  void Run() {
    auto opened = GpuDevice::Open(options_);
    if (!opened) return;
    device_ = std::move(*opened);
    Result<std::byte*> range = device_->ReserveRange(2 * kChunks * kChunk);
    if (range) {
      base_ = *range;
      std::vector<std::byte*> mapped;
      for (Bytes i = 0; i < kChunks; ++i) {
        if (device_->MapChunk(base_ + i * kChunk)) mapped.push_back(base_ + i * kChunk);
      }
      auto* const pinned = reinterpret_cast<std::byte*>(host_);
      device_->pins()->Added(pinned, kValue + 4096);
      static_cast<void>(device_->ReadMemory());
      if (mapped.size() == kChunks) Copies();
      device_->pins()->Removed(pinned, kValue + 4096);
      // One chunk is unmapped and mapped again, as in an arena.
      if (!mapped.empty()) {
        std::byte* const again = mapped.back();
        device_->UnmapChunk(again);
        mapped.pop_back();
        if (device_->MapChunk(again)) mapped.push_back(again);
      }
      for (std::byte* chunk : mapped) device_->UnmapChunk(chunk);
      device_->ReleaseRange(base_, 2 * kChunks * kChunk);
    }
    device_.reset();
  }
  int whole() const { return whole_; }

 private:
  // As one piece and in pieces of `step`; from and to memory that is registered or not.
  void Copies() {
    for (char* host : {host_, plain_}) {
      for (const Bytes step : {kValue, 7 * kKiB, 20 * kKiB}) {
        const std::string text = RandomText(++seed_, kValue);
        std::memcpy(host, text.data(), kValue);
        std::vector<Fragment> from;
        std::vector<MutableFragment> into;
        for (Bytes at = 0; at < kValue; at += step) {
          const Bytes bytes = std::min(step, kValue - at);
          from.push_back({host + at, bytes, Place::kHost});
        }
        if (!device_->CopyIn(base_, Source(from))) continue;
        // Scattered on the device, and back.
        std::vector<MutableFragment> theirs;
        std::vector<Fragment> them;
        for (Bytes at = 0; at < kValue; at += step) {
          const Bytes bytes = std::min(step, kValue - at);
          std::byte* const there = base_ + 5 * kChunk + (kValue - at - bytes);
          theirs.push_back({there, bytes, Place::kDevice});
          them.push_back({there, bytes, Place::kDevice});
        }
        if (!device_->CopyOut(base_, kValue, Sink(theirs))) continue;
        std::memset(host, '?', kValue);
        if (!device_->CopyIn(reinterpret_cast<std::byte*>(host), Source(them))) continue;
        EXPECT_EQ(text.compare(0, kValue, host, kValue), 0);
        std::memset(host, '?', kValue);
        for (Bytes at = 0; at < kValue; at += step) {
          into.push_back({host + at, std::min(step, kValue - at), Place::kHost});
        }
        if (!device_->CopyOut(base_, kValue, Sink(into))) continue;
        EXPECT_EQ(text.compare(0, kValue, host, kValue), 0);
        ++whole_;
      }
    }
  }

  GpuDeviceOptions options_;
  char* host_ = nullptr;
  char* plain_ = nullptr;
  std::unique_ptr<GpuDevice> device_;
  std::byte* base_ = nullptr;
  std::uint64_t seed_ = 0;
  int whole_ = 0;
};

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SPILLWAY_SAMPLE_FAULTS
#endif
#endif
#ifdef SPILLWAY_SAMPLE_FAULTS
constexpr std::uint64_t kEvery = 11;  // Of calls; slow here, and other builds try all.
#else
constexpr std::uint64_t kEvery = 1;
#endif

TEST_P(GpuFaultsTest, AnyCallMayFail) {
  const auto [kind, code, for_good, slabs] = GetParam();
  std::uint64_t calls = 0;
  for (const bool strict : {false, true}) {
    for (std::uint64_t n = 0; n <= calls; n += strict ? 3 * kEvery : kEvery) {
      // The same order each time, so that the n-th call is always the same.
      FakeGpu gpu(kind, SPILLWAY_FAKES_DIR, GpuBench::With({.seed = 5, .strict = strict}));
      const std::uint64_t before = gpu.calls();
      Script script(gpu, kind, slabs);
      if (n > 0) gpu.Fail(n, code, for_good);
      script.Run();
      if (n == 0) {
        calls = gpu.calls() - before;
        EXPECT_EQ(script.whole(), 6);
        EXPECT_GT(calls, 300U);
      }
      if (!strict) {
        EXPECT_EQ(gpu.current(), 0);
      }
      if (::testing::Test::HasFailure()) {
        FAIL() << "call " << n << " of " << calls << " (" << gpu.failed() << "), strict " << strict;
      }
      // Contexts are counted, so those calls are not repeated.
      if (gpu.failed().starts_with("context_") && strict) gpu.Lose();
      if (!gpu.out_of_reach() && (!gpu.leaks().empty() || !gpu.misuse().empty())) {
        ADD_FAILURE() << "call " << n << " of " << calls << " (" << gpu.failed() << "), strict "
                      << strict;
        return;
      }
    }
  }
  RecordProperty("calls", std::to_string(calls));
}

}  // namespace
}  // namespace spillway::testing
