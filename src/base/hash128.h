// SPDX-License-Identifier: Apache-2.0
// The type of a checksum. blob.h says which data checksums cover.
#pragma once

#include <cstdint>

#include "spillway/units.h"

namespace spillway {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

// Values are hashed in pieces of this size; the last piece may be shorter.
inline constexpr Bytes kHashPieceBytes = kMiB;

}  // namespace spillway
