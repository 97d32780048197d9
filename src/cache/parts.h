// From options to what a cache is made of: the device they name, a tier on it,
// and its pressure source.
#pragma once

#include <functional>
#include <memory>

#include "cache/core.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway {

class Files;

// Whether the options make sense together; the message names the one that
// does not and what would be right.
Status CheckOptions(const Options& options);

// What tests put in the place of the machine's own; empty: the machine's.
struct Seams {
  std::shared_ptr<Files> files;  // Of the disk tier.
  // Stands before a memory tier's device ("cpu", "host").
  std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> around_device;
};

Result<Core::Parts> OpenParts(const Options& options, const Seams& seams = {});

// Free memory a device tier of this size leaves to its neighbours.
Bytes ReserveFor(const Options& options, Bytes total);

// Of RAM that takes contexts: a quarter of what is available, at most 64 GiB.
Bytes DefaultHostCapacity();

}  // namespace spillway
