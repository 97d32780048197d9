// SPDX-License-Identifier: Apache-2.0
// The constants that the checksum kernel on the device reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway {

// Words of XXH3's secret in the order in which spillway_hash reads them, and
// the initial values of its accumulators.
inline constexpr std::size_t kGpuHashKeys = 63;
std::array<std::uint64_t, kGpuHashKeys> GpuHashKeys();

}  // namespace spillway
