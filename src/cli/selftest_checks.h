// The checks of `spillway selftest` on one open device: each adds rows to a report
// and gives back all it took.
#pragma once

#include "cli/selftest_rows.h"
#include "device/device.h"
#include "device/gpu/gpu_device.h"
#include "spillway/units.h"

namespace spillway {

// Chunks are mapped and unmapped, and what is free follows.
void CheckChunks(Device* device, DeviceReport* report);
// Bytes go up and come down as they were: in one piece and scattered, and on a GPU
// from and to memory that the driver knows and that it does not.
void CheckCopies(Device* device, GpuDevice* gpu, DeviceReport* report);
// The kernels load, and what one of them hashes is hashed right.
void CheckKernels(GpuDevice* gpu, DeviceReport* report);
// What was free at the beginning is free again.
void CheckGivenBack(Device* device, Bytes free_before, DeviceReport* report);

}  // namespace spillway
