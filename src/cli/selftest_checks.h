// SPDX-License-Identifier: Apache-2.0
// The checks of `spillway selftest` on one open device. Each adds rows to a report and frees
// everything it took.
#pragma once

#include "cli/selftest_rows.h"
#include "device/device.h"
#include "device/gpu/gpu_device.h"
#include "spillway/units.h"

namespace spillway {

// Chunks can be mapped and unmapped, and the free memory changes accordingly.
void CheckChunks(Device* device, DeviceReport* report);
// Bytes are the same after a copy to the device and back: in one piece and scattered; on a GPU,
// with host memory registered with the driver and without.
void CheckCopies(Device* device, GpuDevice* gpu, DeviceReport* report);
// The kernels load, and one of them computes the right hashes.
void CheckKernels(GpuDevice* gpu, DeviceReport* report);
// The memory that was free at the beginning is free again.
void CheckGivenBack(Device* device, Bytes free_before, DeviceReport* report);

}  // namespace spillway
