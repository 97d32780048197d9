// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/raw.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "base/library.h"
#include "monitor/machine.h"

namespace spillway::bench {

void Stop(std::string_view why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}

void Need(std::string_view what, int code) {
  if (code != 0) Stop(fmt::format("{}: {}", what, code));
}

RawGpu::RawGpu() {
  auto driver = GpuDriver::Load(GpuKind::kCuda, Machine::FromEnvironment().cuda);
  if (!driver) Stop(driver.error().message);
  driver_ = *driver;
  Need("device", driver_->device_get(&device_, 0));
  Need("context", driver_->context_retain(&context_, device_));
  Need("current", driver_->context_push(context_));
}

GpuAddress RawGpu::Take(Bytes bytes) {
  GpuAddress at = 0;
  Need(fmt::format("{} bytes of the device", bytes), driver_->memory_alloc(&at, bytes));
  return at;
}

std::byte* RawGpu::TakePinned(Bytes bytes) {
  void* at = nullptr;
  Need(fmt::format("{} pinned bytes", bytes), driver_->host_alloc(&at, bytes, kGpuPortable));
  return static_cast<std::byte*>(at);
}

GpuStream RawGpu::NewStream() {
  GpuStream stream = nullptr;
  Need("stream", driver_->stream_create(&stream, kGpuNonBlocking, 0));
  return stream;
}

void RawGpu::Wait(GpuStream stream) {
  static thread_local GpuEvent event = nullptr;
  if (event == nullptr) Need("event", driver_->event_create(&event, kGpuNoTiming));
  Need("record", driver_->event_record(event, stream));
  int code = 0;
  while ((code = driver_->event_query(event)) == kGpuNotReady) std::this_thread::yield();
  Need("a copy", code);
}

Gemm::Gemm(RawGpu* gpu) : gpu_(gpu) {
  auto library = Library::Open({"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
  if (!library) {
    missing_ = library.error().message;
    return;
  }
  auto* const create = library->Symbol<int(void**)>("cublasCreate_v2");
  auto* const on = library->Symbol<int(void*, GpuStream)>("cublasSetStream_v2");
  gemm_ = library->Symbol<int(void*, int, int, int, int, int, const void*, GpuAddress, int, int,
                              GpuAddress, int, int, const void*, GpuAddress, int, int, int, int)>(
      "cublasGemmEx");
  if (create == nullptr || on == nullptr || gemm_ == nullptr) {
    missing_ = library->name() + " lacks functions";
    return;
  }
  stream_ = gpu->NewStream();
  Need("cublasCreate", create(&handle_));
  Need("cublasSetStream", on(handle_, stream_));
  constexpr Bytes kMatrix = Bytes{8192} * 8192 * 2;
  a_ = gpu->Take(kMatrix);
  b_ = gpu->Take(kMatrix);
  c_ = gpu->Take(kMatrix);
  Need("fill", gpu->driver().fill(a_, 0x3c, kMatrix, stream_));
  Need("fill", gpu->driver().fill(b_, 0x3c, kMatrix, stream_));
}

double Gemm::Run(Duration how_long) {
  constexpr int kBf16 = 14;
  constexpr int kCompute32 = 68;
  const float one = 1;
  const float zero = 0;
  const auto round = [&] {
    for (int i = 0; i < 32; ++i) {
      Need("cublasGemmEx", gemm_(handle_, 0, 0, 8192, 8192, 8192, &one, a_, kBf16, 8192, b_, kBf16,
                                 8192, &zero, c_, kBf16, 8192, kCompute32, -1));
    }
    gpu_->Wait(stream_);
  };
  round();
  int rounds = 0;
  const double seconds = Seconds([&] {
    const auto end = Clock::now() + how_long;  // real world: as above
    do {
      round();
      ++rounds;
    } while (Clock::now() < end);  // real world: as above
  });
  return rounds * 32 * 2.0 * 8192 * 8192 * 8192 / seconds / 1e12;
}

double MedianSeconds(int runs, const std::function<void()>& work) {
  work();
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(Seconds(work));
  return Percentile(times, 0.5);
}

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

}  // namespace spillway::bench
