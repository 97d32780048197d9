// What a checksum is, for those who carry it; blob.h says what is sealed with it.
#pragma once

#include <cstdint>

#include "spillway/units.h"

namespace spillway {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

// Values are hashed in pieces of this size, the last being what is left.
inline constexpr Bytes kHashPieceBytes = kMiB;

}  // namespace spillway
