// How much memory this machine, or the container we are in, can still give.
#pragma once

#include <optional>
#include <string_view>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// The kernel's MemAvailable, or what the control group's limit leaves if that
// is less.
Result<Bytes> AvailableMemory();

// The value of "MemAvailable:     123 kB" in the text of /proc/meminfo.
std::optional<Bytes> MemAvailable(std::string_view meminfo);

}  // namespace spillway
