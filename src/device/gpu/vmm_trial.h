// A trial of a driver's virtual memory management: two chunks are created, mapped,
// written, mapped the other way round, read and given back, and the driver is asked
// what is free before, meanwhile and after. Some drivers answer 0 to all of it and
// give nothing back, or map something else.
#pragma once

#include <string>

#include "device/gpu/gpu_driver.h"
#include "spillway/units.h"

namespace spillway {

struct VmmTrial {
  bool good = false;
  std::string why_not;     // Empty if it is good.
  bool no_memory = false;  // It could not be tried for lack of memory.
  bool broken = false;     // All is over with the device, or it does not answer.
  // How long one call took, of a chunk.
  Duration create{};
  Duration map{};  // With the access that goes with it.
  Duration unmap{};
  Duration release{};
};

// Inside a GpuScope of `device`. `chunk` is a multiple of the granularity. Every
// wait ends within `within`. Whatever comes of it, all that could be given back has
// been; unless the device did not finish in time: then it is left as it is.
VmmTrial TryVmm(const GpuDriver& driver, int device, Bytes chunk, Duration within);

}  // namespace spillway
