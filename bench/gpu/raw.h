// SPDX-License-Identifier: Apache-2.0
// The other side of every ratio: plain driver calls, pinned memory, no checksums.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <vector>

#include "device/gpu/gpu_driver.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway::bench {

// Ends the program: a bench without its other side is worthless.
void Need(std::string_view what, int code);
[[noreturn]] void Stop(std::string_view why);

class RawGpu {
 public:
  RawGpu();

  const GpuDriver& driver() const { return *driver_; }
  GpuContext context() const { return context_; }
  int device() const { return device_; }
  GpuAddress Take(Bytes bytes);
  std::byte* TakePinned(Bytes bytes);
  GpuStream NewStream();
  void Wait(GpuStream stream);

 private:
  std::shared_ptr<const GpuDriver> driver_;
  GpuContext context_ = nullptr;
  int device_ = 0;
};

// Multiplies bf16 matrices of 8192 x 8192 again and again on a stream of its own, with the cuBLAS
// of a torch installation. `Run` returns the TFLOP/s over a period.
class Gemm {
 public:
  explicit Gemm(RawGpu* gpu);
  // Empty: there is none; the error says why.
  const std::string& missing() const { return missing_; }
  double Run(Duration how_long);

 private:
  RawGpu* const gpu_;
  std::string missing_;
  void* handle_ = nullptr;
  GpuStream stream_ = nullptr;
  GpuAddress a_ = 0;
  GpuAddress b_ = 0;
  GpuAddress c_ = 0;
  int (*gemm_)(void*, int, int, int, int, int, const void*, GpuAddress, int, int, GpuAddress, int,
               int, const void*, GpuAddress, int, int, int, int) = nullptr;
};

using Clock = std::chrono::steady_clock;  // real world: benches time the machine

template <typename Work>
double Seconds(Work&& work) {
  const auto start = Clock::now();  // real world: as above
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();  // real world: as above
}

// The median of `runs`, after one run that is not counted.
double MedianSeconds(int runs, const std::function<void()>& work);
double Percentile(std::vector<double> values, double share);

}  // namespace spillway::bench
