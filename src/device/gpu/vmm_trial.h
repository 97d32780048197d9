// SPDX-License-Identifier: Apache-2.0
// A trial of a driver's virtual memory management. Two chunks are created,
// mapped, written, mapped the other way round, read and returned, and the
// driver's free memory is read before, meanwhile and after. Some drivers report
// success for all of it but return no memory, or map other memory.
#pragma once

#include <string>

#include "device/gpu/gpu_driver.h"
#include "spillway/units.h"

namespace spillway {

struct VmmTrial {
  bool good = false;
  std::string why_not;     // Empty if it is good.
  bool no_memory = false;  // Not enough memory to try.
  bool broken = false;     // The device can no longer be used, or does not answer.
  // Duration of one call for one chunk.
  Duration create{};
  Duration map{};  // Including giving access.
  Duration unmap{};
  Duration release{};
};

// Call inside a GpuScope of `device`. `chunk` is a multiple of the granularity. Each
// wait ends within `within`. Everything that can be returned is returned, whatever
// the result; but if the device did not finish in time, all is left as it is.
VmmTrial TryVmm(const GpuDriver& driver, int device, Bytes chunk, Duration within);

}  // namespace spillway
