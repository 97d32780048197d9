// SPDX-License-Identifier: Apache-2.0
// The hash of keys: XXH3, inlined, because a call into the library costs as much
// as hashing a short key. Include it in sources only, not in headers: it is large.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

inline std::uint64_t HashBytes(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

// The same with a secret of sizeof(XXH3_kSecret) bytes (see KeyHasher). With
// XXH3's own secret the result is that of HashBytes(bytes).
inline std::uint64_t HashBytes(std::string_view bytes, const std::byte* secret) {
  return XXH3_64bits_withSecret(bytes.data(), bytes.size(), secret, sizeof(XXH3_kSecret));
}

}  // namespace spillway
