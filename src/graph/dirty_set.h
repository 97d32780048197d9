// SPDX-License-Identifier: Apache-2.0
// A set of places (small integers), popped in rising order while higher places are still being
// added. Used as the work list of RunGraph::Settle. One bit per place.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

class DirtySet {
 public:
  // Must be called before places beyond the old size are inserted.
  void Resize(std::size_t places) { words_.resize((places + 63) / 64); }
  void Insert(std::uint32_t place) {
    words_[place / 64] |= std::uint64_t{1} << (place % 64);
    if (place / 64 < first_) first_ = place / 64;
    if (place / 64 >= end_) end_ = place / 64 + 1;
  }
  // Removes the lowest place. False: the set is empty.
  bool Pop(std::uint32_t* place) {
    for (; first_ < end_; ++first_) {
      std::uint64_t& word = words_[first_];
      if (word == 0) continue;
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(word));
      word &= word - 1;
      *place = static_cast<std::uint32_t>(first_) * 64 + bit;
      return true;
    }
    first_ = SIZE_MAX;
    end_ = 0;
    return false;
  }
  void Erase(std::uint32_t place) { words_[place / 64] &= ~(std::uint64_t{1} << (place % 64)); }
  // May be false although no place is left; Pop finds out.
  bool empty() const { return end_ == 0; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t first_ = SIZE_MAX;  // All words before it are zero.
  std::size_t end_ = 0;           // All words from it on are zero.
};

}  // namespace spillway
