// The hash of keys: XXH3, inlined, because a call into the library costs as
// much as hashing a short key. For sources, not for headers: it is a large one.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace spillway {

inline std::uint64_t HashBytes(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace spillway
