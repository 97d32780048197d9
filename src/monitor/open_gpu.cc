// SPDX-License-Identifier: Apache-2.0
#include "monitor/open_gpu.h"

#include <utility>

#include <fmt/format.h>

#include "monitor/bounded_read.h"

namespace spillway {

const std::vector<std::string>& LibrariesOf(const Machine& machine, GpuKind kind) {
  return kind == GpuKind::kCuda ? machine.cuda : machine.hip;
}

Error DriverIsLate(GpuKind kind) {
  return Error{Code::kUnavailable,
               fmt::format("the driver of {} did not answer within {} s", Name(kind),
                           kDriverWithin / std::chrono::seconds(1))};
}

Result<std::unique_ptr<GpuDevice>> OpenGpuWithin(GpuDeviceOptions options,
                                                 std::function<void(GpuDevice*)> then) {
  options.libraries = LibrariesOf(Machine::FromEnvironment(), options.kind);
  auto opened = RunBounded(kDriverWithin, [options, then = std::move(then)] {
    auto gpu = GpuDevice::Open(options);
    if (gpu && then) then(gpu->get());
    return gpu;
  });
  if (!opened) return DriverIsLate(options.kind);
  return std::move(*opened);
}

}  // namespace spillway
