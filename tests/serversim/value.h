// SPDX-License-Identifier: Apache-2.0
// What clients write: bytes that follow from the number of the write alone, so
// that any value read back can be checked without keeping a copy of it.
#pragma once

#include <cstdint>
#include <string>

#include "spillway/units.h"

namespace spillway::serversim {

struct Value {
  std::uint64_t number = 0;  // Of the write.
  Bytes size = 0;
  bool is_number = false;  // Its text is `number` in digits, and `size` their count.

  bool operator==(const Value&) const = default;
};

// The values are no longer than this.
inline constexpr Bytes kValueMax = 320 * kKiB;

Value NumberValue(std::uint64_t number);
// All bytes occur in it, line ends, too.
std::string TextOf(const Value& value);

}  // namespace spillway::serversim
