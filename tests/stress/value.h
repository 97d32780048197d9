// SPDX-License-Identifier: Apache-2.0
// Values that any reader can check: a value names its key and the set that made it, and
// every further byte is computed from those two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace spillway::stress {

// A small fast generator; equal seeds give equal numbers.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();
  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }

 private:
  std::uint64_t state_;
};

// Any size; `count` says which set of the key made it. Values too small to
// carry a count follow from the key alone.
void FillValue(std::uint64_t key, std::uint64_t count, std::size_t size,
               std::vector<std::byte>* value);

struct Checked {
  bool whole = false;                  // Every byte is as it was written.
  std::optional<std::uint64_t> count;  // Empty: too small to carry one.
};
Checked CheckValue(std::uint64_t key, const std::byte* data, std::size_t size);

// Sizes around every limit: nothing, a header, a copy on the strand (4 KiB), a slab, a
// chunk.
std::size_t DrawSize(Random* random);

}  // namespace spillway::stress
