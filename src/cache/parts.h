// From options to what a cache is made of: the device they name, a tier on it,
// and its pressure source.
#pragma once

#include "cache/core.h"
#include "spillway/options.h"
#include "spillway/result.h"

namespace spillway {

// Whether the options make sense together; the message names the one that
// does not and what would be right.
Status CheckOptions(const Options& options);

Result<Core::Parts> OpenParts(const Options& options);

// Free memory a device tier of this size leaves to its neighbours.
Bytes ReserveFor(const Options& options, Bytes total);

}  // namespace spillway
