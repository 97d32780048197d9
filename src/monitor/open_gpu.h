// SPDX-License-Identifier: Apache-2.0
// Opens a GPU with this machine's libraries, within a time limit: a driver call
// that does not return is abandoned.
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

// The names of one vendor's libraries.
const std::vector<std::string>& LibrariesOf(const Machine& machine, GpuKind kind);
// The error for a driver that has not answered in time.
Error DriverIsLate(GpuKind kind);

// Opens the GPU of `options`, with this machine's libraries. If `then` is not
// empty it is called with the device within the same limit; everything it
// refers to must live as long as it may run.
Result<std::unique_ptr<GpuDevice>> OpenGpuWithin(GpuDeviceOptions options,
                                                 std::function<void(GpuDevice*)> then = {});

}  // namespace spillway
