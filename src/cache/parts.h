// SPDX-License-Identifier: Apache-2.0
// From Options to the parts a cache is made of: the device they name, the tiers, and
// their pressure sources.
#pragma once

#include <functional>
#include <memory>

#include "cache/core.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway {

class Files;

// Whether the options make sense together; the message names the option that does not
// and a value that would.
Status CheckOptions(const Options& options);

// What tests substitute for parts of the machine; empty: the machine's own.
struct Seams {
  std::shared_ptr<Files> files;  // Under the disk tier.
  // Wraps the device under a memory tier ("cpu", "host").
  std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> around_device;
};

// Checks `options`, then opens the device, the tiers and the pressure sources.
Result<Core::Parts> OpenParts(const Options& options, const Seams& seams = {});

// Free memory that a device tier of `total` bytes leaves to its neighbours.
Bytes ReserveFor(const Options& options, Bytes total);

// Default size of the host tier: a quarter of the memory that is available, at most 64
// GiB.
Bytes DefaultHostCapacity();

}  // namespace spillway
