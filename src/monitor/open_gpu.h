// A GPU opened with the libraries this machine has, within a bound: a driver that does
// not answer is left behind.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/gpu/gpu_device.h"
#include "monitor/machine.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

inline constexpr Duration kDriverWithin = std::chrono::seconds(10);

// Names and libraries of one vendor.
const std::vector<std::string>& LibrariesOf(const Machine& machine, GpuKind kind);
// Its driver has not answered by then.
Error DriverIsLate(GpuKind kind);

// As `options` say but for the libraries. `then`, if it is not empty, is done to the
// device within the same bound; what it refers to must live as long as it may run.
Result<std::unique_ptr<GpuDevice>> OpenGpuWithin(GpuDeviceOptions options,
                                                 std::function<void(GpuDevice*)> then = {});

}  // namespace spillway
