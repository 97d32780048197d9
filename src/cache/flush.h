// Before a cache is closed for good: what only memory has goes to the disk tier,
// the most valuable first, within a bound, as far as there is free room. What has
// no place there, or comes too late, is left, and counted.
#pragma once

#include <cstdint>

#include "spillway/cache.h"
#include "spillway/units.h"

namespace spillway {

struct Flushed {
  std::uint64_t entries = 0;  // Written.
  Bytes bytes = 0;
  std::uint64_t entries_left = 0;  // Only memory has them still.
  Bytes bytes_left = 0;
};

// Waits. Without a disk tier there is nothing to do. Others may go on meanwhile,
// but what they set then may be left.
Flushed FlushToDisk(Cache* cache, Duration within);

}  // namespace spillway
