// A set of places, emptied in rising order while places further on are added.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

class DirtySet {
 public:
  void Resize(std::size_t places) { words_.resize((places + 63) / 64); }
  void Insert(std::uint32_t place) {
    words_[place / 64] |= std::uint64_t{1} << (place % 64);
    if (place / 64 < first_) first_ = place / 64;
    if (place / 64 >= end_) end_ = place / 64 + 1;
  }
  // Takes out the least; false: there is none.
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
  bool empty() const { return end_ == 0; }  // False may mean: not looked yet.

 private:
  std::vector<std::uint64_t> words_;
  std::size_t first_ = SIZE_MAX;  // No word before it has a bit,
  std::size_t end_ = 0;           // none from it on.
};

}  // namespace spillway
