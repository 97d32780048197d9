// SPDX-License-Identifier: Apache-2.0
// The process that is killed: it opens the cache, verifies what the process before it
// has left, says so, and then sets, gets, replaces and erases on two threads until it
// is killed.
#pragma once

#include <cstdint>
#include <string>

#include "kill/expected.h"
#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway::kill {

struct ChildSettings {
  std::string dir;
  Bytes disk = 512 * kMiB;
  std::uint64_t seed = 1;
};

// Three tiers under steady pressure, copies down at once.
Options OptionsFor(const std::string& dir, Bytes disk);

// Writes one byte to `ready` when all keys are verified. Never returns: it ends
// with 1 when the cache can't be opened, and by being killed otherwise.
[[noreturn]] void RunChild(Expected* expected, const ChildSettings& settings, int ready);

}  // namespace spillway::kill
