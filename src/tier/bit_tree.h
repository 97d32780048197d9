// SPDX-License-Identifier: Apache-2.0
// A BitTree is a set of small integers that finds its least member fast: a
// bitmap, a bitmap of its non-empty words, and so on up to a single word. Each
// operation touches at most one word per level; four levels hold sixteen
// million members. The bitmaps come from calloc, so pages that are never
// touched cost address space only.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace spillway {

class BitTree {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  // An empty set without capacity; call Resize before use.
  BitTree() = default;
  // Sets the capacity: members 0 to size - 1. Returns false if there is no memory.
  bool Resize(std::uint64_t size) {
    std::uint64_t words = 0;
    levels_ = 0;
    for (std::uint64_t bits = size; levels_ == 0 || bits > 1; ++levels_) {
      assert(levels_ < kLevelsMax);
      starts_[levels_] = words;
      bits = (bits + 63) / 64;
      words += bits;
    }
    words_.reset(static_cast<std::uint64_t*>(std::calloc(words, sizeof(std::uint64_t))));
    return words_ != nullptr;
  }
  bool sized() const { return words_ != nullptr; }

  void Insert(std::uint64_t member) {
    for (std::size_t level = 0; level < levels_; ++level, member /= 64) {
      std::uint64_t& word = Word(level, member);
      const bool was_empty = word == 0;
      word |= Bit(member);
      if (!was_empty) return;
    }
  }
  void Erase(std::uint64_t member) {
    for (std::size_t level = 0; level < levels_; ++level, member /= 64) {
      std::uint64_t& word = Word(level, member);
      word &= ~Bit(member);
      if (word != 0) return;
    }
  }
  bool Contains(std::uint64_t member) const {
    return (words_.get()[starts_[0] + member / 64] & Bit(member)) != 0;
  }
  // Returns the least member, or kNone.
  std::uint64_t First() const {
    std::uint64_t at = 0;
    for (std::size_t level = levels_; level-- > 0;) {
      const std::uint64_t word = words_.get()[starts_[level] + at];
      if (word == 0) return kNone;
      at = at * 64 + static_cast<std::uint64_t>(std::countr_zero(word));
    }
    return at;
  }

 private:
  static constexpr std::size_t kLevelsMax = 11;  // 64^11 > 2^64.
  struct Freer {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };

  static std::uint64_t Bit(std::uint64_t member) { return std::uint64_t{1} << (member % 64); }
  std::uint64_t& Word(std::size_t level, std::uint64_t member) {
    return words_.get()[starts_[level] + member / 64];
  }

  std::unique_ptr<std::uint64_t, Freer> words_;
  std::uint64_t starts_[kLevelsMax] = {};  // Where each level's words begin.
  std::size_t levels_ = 0;
};

}  // namespace spillway
