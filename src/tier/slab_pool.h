// Small blocks, many to a slab. A slab is a stretch of the arena cut into
// equal slots of one size class; which slots are free is kept here, in host
// memory, since device memory may not be readable. New blocks go to the lowest
// slab that has room, so that the high ones empty and can be returned.
//
// 1. A slab stands in the table while it has a used slot, and only then.
// 2. A slab with a free slot is its class's `lowest` or in `others`; all of
//    `others` lie higher than `lowest`. A full one is in neither.
// 3. A slab begins at a multiple of its size: a block's address and size class
//    say which slab it is in.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutant.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/bit_tree.h"
#include "tier/chunk_arena.h"
#include "tier/size_classes.h"

namespace spillway {

// On the strand only.
class SlabPool {
 public:
  static constexpr Bytes kNone = ~Bytes{0};

  // Slabs of at most `slab_bytes_max` (a power of two of at least 1 KiB, at
  // most a chunk). `arena` is borrowed.
  SlabPool(ChunkArena* arena, Bytes slab_bytes_max);

  // Larger blocks are not for slabs: fewer than eight of them would fit.
  static constexpr Bytes BlockMax(Bytes slab_bytes_max) {
    return slab_bytes_max / 8 < kSmallBlockMax ? slab_bytes_max / 8 : kSmallBlockMax;
  }

  // A free slot's offset in the arena, or kNone when every slab of the class
  // is full: then Grow and try again.
  Bytes TryAllocate(std::size_t size_class);
  // Adds a slab. NoMemory as from the arena.
  Status Grow(std::size_t size_class);
  void Free(std::size_t size_class, Bytes at);

 private:
  static constexpr std::size_t kWords = 8;
  static constexpr std::size_t kSlotsMax = 64 * kWords;

  // 88 bytes; a slab has at least 8 slots, most have 64 to 512.
  struct Slab {
    std::uint64_t free[kWords] = {};  // A bit per slot.
    Bytes begin = 0;
    std::uint32_t used = 0;
    std::uint8_t words_with_free = 0;  // A bit per word of `free`.
    bool mutant_listed_twice = false;
  };
  struct SizeClass {
    Bytes block_bytes = 0;
    Bytes slab_bytes = 0;
    std::uint64_t inverse = 0;    // Of block_bytes, times 2^32, rounded up.
    std::uint32_t slots = 0;      // Per slab.
    Slab* lowest = nullptr;       // Of those with a free slot.
    BitTree others;               // By begin / slab_bytes; made with the first slab.
  };

  Slab*& At(Bytes begin) {
    return table_[begin / chunk_bytes_][begin % chunk_bytes_ / unit_];
  }
  // It has a free slot from now on; it has none any more, or goes.
  void Enlist(SizeClass& in, Slab* slab);
  void Delist(SizeClass& in, Slab* slab);
  void Return(SizeClass& in, Slab* slab);

  ChunkArena* const arena_;
  const Bytes chunk_bytes_;
  const Bytes unit_;  // The smallest slab.
  std::array<SizeClass, kSizeClasses> classes_;
  std::vector<std::unique_ptr<Slab*[]>> table_;  // By chunk, then by unit.
  std::deque<Slab> slabs_;                       // Their addresses stay.
  std::vector<Slab*> unused_;
};

inline Bytes SlabPool::TryAllocate(std::size_t size_class) {
  SizeClass& in = classes_[size_class];
  Slab* const slab = in.lowest;
  if (slab == nullptr) return kNone;
  const auto word = static_cast<std::size_t>(std::countr_zero(slab->words_with_free));
  const auto bit = static_cast<std::size_t>(std::countr_zero(slab->free[word]));
  const Bytes at = slab->begin + (word * 64 + bit) * in.block_bytes;
  ++slab->used;
  if (MutantOn(Mutant::kDoubleFreeSlot) && slab->mutant_listed_twice) {
    slab->mutant_listed_twice = false;
    return at;
  }
  slab->free[word] &= slab->free[word] - 1;
  if (slab->free[word] == 0) {
    slab->words_with_free &= static_cast<std::uint8_t>(slab->words_with_free - 1);
    if (slab->words_with_free == 0) Delist(in, slab);
  }
  return at;
}

inline void SlabPool::Enlist(SizeClass& in, Slab* slab) {
  // A full cache frees one and takes one: the set is not even looked at.
  if (in.lowest == nullptr) {
    in.lowest = slab;
    return;
  }
  Slab* const higher = std::max(in.lowest, slab, [](const Slab* a, const Slab* b) {
    return a->begin < b->begin;
  });
  in.lowest = in.lowest == higher ? slab : in.lowest;
  in.others.Insert(higher->begin / in.slab_bytes);
}

inline void SlabPool::Delist(SizeClass& in, Slab* slab) {
  if (in.lowest != slab) {
    in.others.Erase(slab->begin / in.slab_bytes);
    return;
  }
  const std::uint64_t first = in.others.First();
  in.lowest = nullptr;
  if (first == BitTree::kNone) return;
  in.others.Erase(first);
  in.lowest = At(first * in.slab_bytes);
}

inline void SlabPool::Free(std::size_t size_class, Bytes at) {
  SizeClass& in = classes_[size_class];
  const Bytes begin = at & ~(in.slab_bytes - 1);
  Slab* const slab = At(begin);
  assert(slab != nullptr && slab->begin == begin);
  const std::uint64_t slot = ((at - begin) * in.inverse) >> 32;
  assert(slot * in.block_bytes == at - begin);
  const std::size_t word = slot / 64;
  const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
  assert((slab->free[word] & bit) == 0 || MutantOn(Mutant::kDoubleFreeSlot));
  if (MutantOn(Mutant::kDoubleFreeSlot)) slab->mutant_listed_twice = true;
  const bool was_full = slab->words_with_free == 0;
  slab->free[word] |= bit;
  slab->words_with_free |= static_cast<std::uint8_t>(1U << word);
  if (was_full) Enlist(in, slab);
  if (--slab->used == 0) Return(in, slab);
}

}  // namespace spillway
