// SPDX-License-Identifier: Apache-2.0
// Prefetches a cache line that will be written. A line that another core has
// changed is then fetched in one step (exclusive), not in two (shared, then
// exclusive). The compiler's own prefetch does that only if it may use more
// than baseline x86-64; processors without the instruction ignore it.
#pragma once

namespace spillway {

inline void PrefetchForWrite(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace spillway
