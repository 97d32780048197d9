// SPDX-License-Identifier: Apache-2.0
// The phases of the stress program. Each opens its own caches and reports failures to
// the board.
#pragma once

#include "stress/board.h"

namespace spillway::stress {

// Everything at once, on a small cache under constant eviction; then the accounts must
// agree and nothing may be left.
void RunMixed(Board* board);

// A key that is set again and again, in a cache with room, never misses.
void RunReplacing(Board* board, std::uint64_t ops);

// Caches close under leases and batches in flight.
void RunClosing(Board* board, std::uint64_t rounds);

// Small values beside the strand, in a full cache.
void RunSmall(Board* board, std::uint64_t ops);

// Three tiers, pressure in all of them, and nothing may be lost.
void RunTiers(Board* board, std::uint64_t ops);

}  // namespace spillway::stress
