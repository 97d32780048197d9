// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/machine_memory.h"

#include <algorithm>
#include <vector>

#include "base/host_memory.h"

namespace spillway {

std::optional<Bytes> MemAvailable(std::string_view meminfo) {
  return MeminfoBytes(meminfo, "MemAvailable");
}

Result<Bytes> AvailableMemory() {
  const Result<std::vector<MemoryBound>> bounds = MemoryBounds("/proc", "/sys");
  if (!bounds) return bounds.error();
  return std::ranges::min_element(*bounds, {}, &MemoryBound::free)->free;
}

}  // namespace spillway
