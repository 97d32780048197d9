// SPDX-License-Identifier: Apache-2.0
// The sizes in which small blocks are allocated. Blocks of 64 bytes and more
// must be aligned to 64, so from there on each class is a multiple of 64:
//   8, 16, 32, 48, 64, 128, ... 512 (by 64), then eight classes to a doubling.
// From 512 bytes up a block wastes less than an eighth of itself. Below,
// alignment can cost more (65 bytes take 128) but never more than 63 bytes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "spillway/units.h"

namespace spillway {

inline constexpr Bytes kSmallBlockMax = 32 * kKiB;
inline constexpr std::size_t kSizeClasses = 60;

// The class of a block of 1 to kSmallBlockMax bytes.
constexpr std::size_t SizeClassOf(Bytes bytes) {
  if (bytes <= 16) return bytes <= 8 ? 0 : 1;
  if (bytes <= 64) return (bytes + 15) / 16;       // 2, 3, 4: 32, 48, 64.
  if (bytes <= 512) return 3 + (bytes + 63) / 64;  // 5 to 11: 128 to 512.
  const auto octave = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;    // 9: up to 1024.
  const auto eighth = static_cast<std::size_t>((bytes - 1) >> (octave - 3)) - 7;  // 1 to 8.
  return 11 + (octave - 9) * 8 + eighth;
}

constexpr Bytes SizeClassBytes(std::size_t size_class) {
  if (size_class <= 1) return size_class == 0 ? 8 : 16;
  if (size_class <= 4) return size_class * 16;
  if (size_class <= 11) return (size_class - 3) * 64;
  const std::size_t octave = 9 + (size_class - 12) / 8;
  const std::size_t eighth = (size_class - 12) % 8 + 1;
  return (Bytes{8} + eighth) << (octave - 3);
}

static_assert(SizeClassOf(kSmallBlockMax) == kSizeClasses - 1);
static_assert(SizeClassBytes(kSizeClasses - 1) == kSmallBlockMax);

}  // namespace spillway
