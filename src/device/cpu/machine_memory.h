// SPDX-License-Identifier: Apache-2.0
// How much memory is still available on this machine or in this container.
#pragma once

#include <optional>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// The kernel's MemAvailable, or the rest of the control group's limit if that is less.
Result<Bytes> AvailableMemory();

// The value of "MemAvailable:     123 kB" in the text of /proc/meminfo.
std::optional<Bytes> MemAvailable(std::string_view meminfo);

}  // namespace spillway
