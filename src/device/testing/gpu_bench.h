// SPDX-License-Identifier: Apache-2.0
// A GpuDevice on a fake card, with a range of addresses, registered host
// memory, and settings so small that every way of copying is used.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device/gpu/gpu_device.h"
#include "device/testing/fake_gpu.h"

namespace spillway::testing {

inline std::string NameOf(const ::testing::TestParamInfo<GpuKind>& kind) {
  return std::string(Name(kind.param));
}

// Bytes without any repetition.
inline std::string RandomText(std::uint64_t seed, Bytes bytes) {
  std::string text(bytes, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t at = 0; at < bytes; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(text.data() + at, &state, std::min<std::size_t>(sizeof state, bytes - at));
  }
  return text;
}

class GpuBench {
 public:
  static constexpr Bytes kChunk = 64 * kKiB;
  static constexpr Bytes kRange = 16 * kMiB;

  static GpuDeviceOptions OptionsFor(const FakeGpu& gpu, GpuKind kind) {
    GpuDeviceOptions options;
    options.kind = kind;
    options.libraries = {gpu.library()};
    options.chunk_bytes = kChunk;
    options.copies.segment = 64 * kKiB;
    options.copies.segment_up = 64 * kKiB;
    options.copies.stage = 256 * kKiB;
    options.copies.gather_below = 16 * kKiB;
    options.copies.within = std::chrono::seconds(10);
    return options;
  }
  static FakeGpuOptions With(FakeGpuOptions options) {
    options.total = 32 * kMiB;
    options.granularity = kChunk;
    return options;
  }

  explicit GpuBench(GpuKind kind, FakeGpuOptions options = {}, std::string_view variant = {},
                    std::optional<Duration> within = {})
      : gpu(kind, SPILLWAY_FAKES_DIR, With(std::move(options)), variant) {
    GpuDeviceOptions device_options = OptionsFor(gpu, kind);
    if (within) device_options.copies.within = *within;
    auto opened = GpuDevice::Open(device_options);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    device = std::move(*opened);
    base = device->ReserveRange(kRange).value();
  }
  ~GpuBench() {
    while (!mapped.empty()) Unmap(mapped.back());
    for (const auto& [at, bytes] : pinned) device->pins()->Removed(at, bytes);
    device->ReleaseRange(base, kRange);
  }

  // Maps the first `bytes` of the range.
  void Map(Bytes bytes) {
    for (Bytes at = mapped.size() * kChunk; at < bytes; at += kChunk) {
      ASSERT_TRUE(device->MapChunk(base + at));
      mapped.push_back(base + at);
    }
  }
  void Unmap(std::byte* at) {
    device->UnmapChunk(at);
    std::erase(mapped, at);
  }
  // Registers the memory with the driver.
  void Pin(void* at, Bytes bytes) {
    pinned.emplace_back(static_cast<std::byte*>(at), bytes);
    device->pins()->Added(static_cast<std::byte*>(at), bytes);
  }
  GpuAddress At(Bytes offset) const { return reinterpret_cast<GpuAddress>(base + offset); }
  std::string Peek(Bytes offset, Bytes bytes) const { return gpu.Peek(At(offset), bytes); }
  void Poke(Bytes offset, std::string_view bytes) { gpu.Poke(At(offset), bytes); }

  FakeGpu gpu;
  std::unique_ptr<GpuDevice> device;
  std::byte* base = nullptr;
  std::vector<std::byte*> mapped;
  std::vector<std::pair<std::byte*, Bytes>> pinned;
};

}  // namespace spillway::testing
