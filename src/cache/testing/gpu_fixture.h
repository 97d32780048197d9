// SPDX-License-Identifier: Apache-2.0
// A cache on a fake card, a host pool and a real folder. The card reports its own
// pressure; time is the machine's, since transfers run on threads.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "cache/testing/scratch_folder.h"
#include "cache/testing/tiers_fixture.h"
#include "device/gpu/gpu_list.h"
#include "device/gpu/gpu_record.h"
#include "device/testing/fake_gpu.h"
#include "spillway/cache.h"
#include "spillway/testing.h"

namespace spillway::testing {

// Compares two values; the message does not print all of their bytes.
inline ::testing::AssertionResult Same(std::string_view got, std::string_view want) {
  if (got == want) return ::testing::AssertionSuccess();
  std::size_t at = 0;
  while (at < std::min(got.size(), want.size()) && got[at] == want[at]) ++at;
  auto failed = ::testing::AssertionFailure()
                << got.size() << " bytes for " << want.size() << ", other from " << at << " on";
  if (got.starts_with('(')) failed << ": " << got.substr(0, 400);
  return failed;
}

// Device memory of the program that uses the cache.
class DeviceProgram {
 public:
  DeviceProgram(FakeGpu* gpu, Bytes bytes) : gpu_(gpu), driver_(*gpu->driver()) {
    if (driver_.kind == GpuKind::kCuda) {
      Must(driver_.context_retain(&context_, 0));
    }
    Push();
    Must(driver_.memory_alloc(&at_, bytes));
    Must(driver_.stream_create(&stream, kGpuNonBlocking, 0));
    Pop();
  }
  ~DeviceProgram() {
    Push();
    driver_.memory_free(at_);
    driver_.stream_destroy(stream);
    Pop();
    if (driver_.kind == GpuKind::kCuda) driver_.context_release(0);
  }
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  void* at(Bytes offset = 0) const { return reinterpret_cast<void*>(at_ + offset); }
  // `text` in pieces of `step`, with gaps between them.
  Source Holding(const std::string& text, Bytes step, Bytes offset = 0) {
    std::vector<Fragment> fragments;
    for (Bytes from = 0, to = offset; from < text.size(); from += step, to += step + 64) {
      const Bytes bytes = std::min<Bytes>(step, text.size() - from);
      gpu_->Poke(at_ + to, std::string_view(text).substr(from, bytes));
      fragments.push_back({at(to), bytes, Place::kDevice});
    }
    return Source(std::move(fragments));
  }
  std::string Peek(Bytes offset, Bytes bytes) const { return gpu_->Peek(at_ + offset, bytes); }
  void Push() {
    if (driver_.kind == GpuKind::kCuda) pushed_ = driver_.context_push(context_) == 0;
  }
  void Pop() {
    GpuContext ignored = nullptr;
    if (std::exchange(pushed_, false)) driver_.context_pop(&ignored);
  }
  const GpuDriver& driver() const { return driver_; }

 private:
  static void Must(int code) {
    if (code != 0) throw std::runtime_error("fake driver: " + std::to_string(code));
  }

  FakeGpu* const gpu_;
  const GpuDriver& driver_;
  GpuContext context_ = nullptr;
  GpuAddress at_ = 0;
  bool pushed_ = false;

 public:
  GpuStream stream = nullptr;
};

class GpuCacheTest : public ::testing::TestWithParam<GpuKind> {
 protected:
  static constexpr Bytes kTotal = 128 * kMiB;
  static constexpr Bytes kValue = kMiB + 4321;
  static constexpr const char* kUuid = "GPU-5b1e0c2f-7a44-4d8e-9c31-d2f60a8b7e00";

  GpuCacheTest()
      : gpu_(GetParam(), SPILLWAY_FAKES_DIR, {.total = kTotal, .granularity = 64 * kKiB}) {
    ::setenv(GetParam() == GpuKind::kCuda ? "SPILLWAY_CUDA_LIBRARY" : "SPILLWAY_HIP_LIBRARY",
             gpu_.library().c_str(), 1);
    ::setenv("SPILLWAY_STATE_DIR", (scratch_ / "state").c_str(), 1);
    // The record of a real card; measured on this one it would differ.
    const CopyRecord copies{kUuid, std::string(Name(GetParam())), Version(), 256 * kKiB};
    if (!WriteCopyRecord(copies)) throw std::runtime_error("no state directory");
    options_.device = std::string(Name(GetParam())) + ":0";
    options_.capacity = 16 * kMiB;
    options_.host_capacity = 32 * kMiB;
    options_.disk_dir = (scratch_ / "disk").string();
    options_.disk_capacity = 128 * kMiB;
    options_.write_back_after = Duration::zero();
    options_.write_back_rate.reset();
    options_.ttl.reset();
    // Nothing grows while a sample is late, so this is longer than a busy machine is
    // late.
    options_.sample_period = std::chrono::milliseconds(250);
  }
  ~GpuCacheTest() override {
    cache_.reset();
    program_.reset();
    ::unsetenv("SPILLWAY_CUDA_LIBRARY");
    ::unsetenv("SPILLWAY_HIP_LIBRARY");
    ::unsetenv("SPILLWAY_STATE_DIR");
  }

  std::string Version() const { return VersionText(*gpu_.driver(), "/proc", "/sys"); }
  Result<std::unique_ptr<Cache>> TryOpen() {
    Options options = options_;
    options.host_pressure = host_pressure_;
    options.disk_pressure = disk_pressure_;
    options.on_event = [this](const Event& event) {
      const MutexLock lock(told_mutex_);
      told_.push_back(std::string(event.key) + ":" + std::string(Name(event.action)) + ":" +
                      std::string(Name(event.reason)) + ":" + std::string(event.tier));
    };
    return Cache::Open(std::move(options));
  }
  Cache& Open() {
    auto cache = TryOpen();
    if (!cache) throw std::runtime_error(cache.error().message);
    cache_ = std::move(*cache);
    return *cache_;
  }
  DeviceProgram& program() {
    if (program_ == nullptr) program_ = std::make_unique<DeviceProgram>(&gpu_, 16 * kMiB);
    return *program_;
  }
  // Sets from the device's memory, in pieces of 10,000 bytes.
  Status SetOnDevice(std::string_view key, Bytes bytes = kValue, unsigned generation = 0) {
    return cache_->Set(key, program().Holding(Bulk(key, bytes, generation), 10'000));
  }
  Status SetOnHost(std::string_view key, Bytes bytes = kValue, unsigned generation = 0) {
    const std::string value = Bulk(key, bytes, generation);
    return cache_->Set(key, Source(value));
  }
  // By a lease on the host.
  std::string Get(std::string_view key) {
    auto got = cache_->Get(key);
    if (!got) return "(error) " + got.error().message;
    if (!*got) return "(miss)";
    EXPECT_EQ((*got)->place(), Place::kHost);
    return std::string((*got)->text());
  }
  // By a lease on the device: the bytes there.
  std::string GetOnDevice(std::string_view key) {
    auto got = cache_->Get(key, {.where = Place::kDevice});
    if (!got) return "(error) " + got.error().message;
    if (!*got) return "(miss)";
    EXPECT_EQ((*got)->place(), Place::kDevice);
    return PeekAt(**got);
  }
  std::string PeekAt(const Lease& lease) {
    return gpu_.Peek(reinterpret_cast<GpuAddress>(lease.data()), lease.size());
  }
  template <typename Holds>
  bool Eventually(Holds&& holds) {
    return ComesTrue(*cache_, holds);
  }
  bool AllBacked() { return Eventually(&IsAllBacked); }
  std::vector<std::string> TakeTold() {
    const MutexLock lock(told_mutex_);
    return std::exchange(told_, {});
  }

  FakeGpu gpu_;
  const ScratchFolder scratch_;
  std::shared_ptr<ManualPressure> host_pressure_ = std::make_shared<ManualPressure>(kGiB);
  std::shared_ptr<ManualPressure> disk_pressure_ = std::make_shared<ManualPressure>(128 * kMiB);
  Options options_;
  Mutex told_mutex_;
  std::vector<std::string> told_ SPILLWAY_GUARDED_BY(told_mutex_);
  std::unique_ptr<DeviceProgram> program_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace spillway::testing
