// SPDX-License-Identifier: Apache-2.0
// This whole file is compiled for processors with AVX-512; see hash_wide.h.
#include "tier/hash_wide.h"

#if defined(__x86_64__)
#if defined(__clang__)
#include <immintrin.h>
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
// The compiler's own header leaves registers undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#endif

#define XXH_INLINE_ALL
// Prefetch several pages ahead: the hashed bytes come from memory, and hardware
// prefetchers stop at the end of a page.
#define XXH_PREFETCH_DIST 4096
#define XXH_VECTOR 3
#include <xxhash.h>

namespace spillway {

void Hash128Avx512(const void* data, std::size_t bytes, std::uint64_t* low, std::uint64_t* high) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  *low = hash.low64;
  *high = hash.high64;
}

}  // namespace spillway

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
