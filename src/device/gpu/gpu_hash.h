// What the kernel that makes checksums on the device is given to work with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway {

// Words of XXH3's secret in the order in which spillway_hash reads them, and what
// its accumulators begin with.
inline constexpr std::size_t kGpuHashKeys = 63;
std::array<std::uint64_t, kGpuHashKeys> GpuHashKeys();

}  // namespace spillway
