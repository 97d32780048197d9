// SPDX-License-Identifier: Apache-2.0
// The values that the world writes: bytes computed from the number of the set alone, so
// that any byte read back can be checked without a copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "spillway/fragment.h"
#include "spillway/units.h"

namespace spillway::sim {

inline constexpr Bytes kValueMax = 64 * kKiB;

// Eight bytes that name its set, then a part of a fixed pool.
class Value {
 public:
  Value(std::uint64_t set, Bytes size);

  // Points into this object and into the pool.
  Source AsSource() const;
  // The first byte of `data` that is wrong; `size` if none is.
  Bytes FirstWrong(const std::byte* data) const;

 private:
  Bytes head() const { return size_ < sizeof name_ ? size_ : sizeof name_; }

  std::uint64_t name_;
  Bytes size_;
  const std::byte* rest_;
};

}  // namespace spillway::sim
