// SPDX-License-Identifier: Apache-2.0
// Counts of transfers between tiers and of their outcomes. Strand only.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>

#include "cache/tier_id.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway {

struct TransferCounts {
  std::uint64_t fetches = 0;
  std::uint64_t fetches_failed = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t promoted = 0;
  std::uint64_t prefetched = 0;
  std::uint64_t scrubbed = 0;
  std::array<Bytes, kTiers> down{};  // By destination.
  std::array<Bytes, kTiers> up{};
  std::uint64_t cancelled = 0;
  Bytes ahead = 0;  // Bytes prefetched ahead of a step, and the outcomes.
  Bytes ahead_useful = 0;
  Bytes ahead_late = 0;
  Bytes ahead_wasted = 0;

  void CountInto(TransferStats* stats) const {
    stats->fetches = fetches;
    stats->fetches_failed = fetches_failed;
    stats->corrupt = corrupt;
    stats->promoted = promoted;
    stats->prefetched = prefetched;
    stats->scrubbed = scrubbed;
    stats->bytes_down = std::accumulate(down.begin(), down.end(), Bytes{0});
    stats->bytes_up = std::accumulate(up.begin(), up.end(), Bytes{0});
    stats->cancelled = cancelled;
    stats->ahead_bytes = ahead;
    stats->ahead_useful_bytes = ahead_useful;
    stats->ahead_late_bytes = ahead_late;
    stats->ahead_wasted_bytes = ahead_wasted;
  }
};

}  // namespace spillway
