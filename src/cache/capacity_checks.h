// SPDX-License-Identifier: Apache-2.0
// Checks that a configured capacity is possible: not more memory than there is, and not
// less than the smallest piece that memory is allocated in. Errors name the setting and
// both figures. Only for real memory: a simulated machine has whatever size it claims.
#pragma once

#include <string_view>

#include "device/device.h"
#include "monitor/machine.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway {

// `capacity` (of the cpu device) and `host_capacity`, each and together, against the
// memory of the machine and of every control group this process is in. A limit that
// can't be read is not checked.
Status CheckAgainstMemory(const Options& options, const Machine& machine);

// `disk_capacity` against the size of the file system that holds or will hold
// `disk_dir`.
Status CheckAgainstDisk(const Options& options);

// Both of the above, on this machine: what can be said of the options before anything is opened.
Status CheckCapacities(const Options& options);

// `capacity` against the memory of the device and against one chunk of it.
Status CheckAgainstDevice(std::string_view setting, Bytes capacity, const Device& device);

}  // namespace spillway
