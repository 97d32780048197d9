// Fetches a cache line that will be written to: one that another core has changed
// is then had in one step, not in two (to read, then for oneself). The compiler's own
// prefetch says so only where it may use more than every x86-64 has; where the
// instruction is not known it does nothing.
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
