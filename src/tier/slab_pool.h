// SPDX-License-Identifier: Apache-2.0
// Small blocks, many to a slab. A slab is a range of the arena, cut into equal
// slots of one size class. The record of free slots is kept in host memory,
// since device memory may not be readable. New blocks go to the lowest slab
// that has room, so that high slabs become empty and can be returned.
//
// 1. A slab is in the table while it has a used slot, and only then.
// 2. A slab with a free slot is its class's `lowest`, its `second` or in
//    `others`, in order of address; a full slab is in none. `second` is null
//    only when `others` is empty, `lowest` only when `second` is null.
// 3. A slab begins at a multiple of its size: the address and size class of a
//    block determine its slab.
// 4. To the arena a slab is clean while all its used slots are clean: the
//    arena's counts change only with the first and the last dirty block of a
//    slab, not with each block.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutant.h"
#include "spillway/result.h"
#include "spillway/units.h"
#include "tier/bit_tree.h"
#include "tier/chunk_arena.h"
#include "tier/size_classes.h"

namespace spillway {

// Strand only.
class SlabPool {
 public:
  static constexpr Bytes kNone = ~Bytes{0};

  // Slabs are at most `slab_bytes_max` long (a power of two from 1 KiB to one
  // chunk). `arena` is borrowed.
  SlabPool(ChunkArena* arena, Bytes slab_bytes_max);

  // The largest block that goes into slabs: at least eight fit one slab.
  static constexpr Bytes BlockMax(Bytes slab_bytes_max) {
    return slab_bytes_max / 8 < kSmallBlockMax ? slab_bytes_max / 8 : kSmallBlockMax;
  }

  // Allocates a slot and returns its offset in the arena. kNone: every slab of
  // the class is full; call Grow and try again.
  Bytes TryAllocate(std::size_t size_class);
  // Adds a slab to the class. NoMemory comes from the arena.
  Status Grow(std::size_t size_class);
  void Free(std::size_t size_class, Bytes at, bool clean);
  void SetClean(std::size_t size_class, Bytes at, bool clean);
  bool HasRoom(std::size_t size_class) const { return classes_[size_class].lowest != nullptr; }
  Bytes SlabBytes(std::size_t size_class) const { return classes_[size_class].slab_bytes; }
  // Where the slab begins that the block at `at` has for itself; kNone: it has others, too.
  Bytes SlabOnlyOf(std::size_t size_class, Bytes at) const {
    const Bytes begin = at & ~(classes_[size_class].slab_bytes - 1);
    return At(begin)->used == 1 ? begin : kNone;
  }
  // Prefetches into the processor's caches what Free will touch.
  void PrefetchFree(std::size_t size_class, Bytes at) const;

 private:
  static constexpr std::size_t kWords = 8;
  static constexpr std::size_t kSlotsMax = 64 * kWords;

  // 80 bytes; a slab has at least 8 slots, most have 64 to 512.
  struct Slab {
    std::uint64_t free[kWords] = {};  // A bit per slot.
    Bytes begin = 0;
    std::uint32_t used = 0;
    std::uint16_t clean = 0;           // Used slots that are clean.
    std::uint8_t words_with_free = 0;  // A bit per word of `free`.
    bool mutant_listed_twice = false;
  };
  static_assert(sizeof(Slab) == 80);
  // One size of slots, and its slabs that have room.
  struct SizeClass {
    Bytes block_bytes = 0;
    Bytes slab_bytes = 0;
    std::uint64_t inverse = 0;  // 2^32 / block_bytes, rounded up.
    std::uint32_t slots = 0;    // Per slab.
    Slab* lowest = nullptr;
    Slab* second = nullptr;
    BitTree others;  // By begin / slab_bytes; made with the first slab.
  };

  Slab*& At(Bytes begin) const {
    return table_[begin >> chunk_shift_][(begin & (chunk_bytes_ - 1)) >> unit_shift_];
  }
  // Enlist: the slab has a free slot from now on. Delist: it is full or is being returned.
  void Enlist(SizeClass& in, Slab* slab);
  void Delist(SizeClass& in, Slab* slab);
  // Gives an empty slab back to the arena.
  void Return(SizeClass& in, Slab* slab, bool clean);

  ChunkArena* const arena_;
  const Bytes chunk_bytes_;  // A power of two, as is the unit.
  const Bytes unit_;         // The smallest slab.
  const int chunk_shift_;
  const int unit_shift_;
  std::array<SizeClass, kSizeClasses> classes_;
  std::vector<std::unique_ptr<Slab*[]>> table_;  // By chunk, then by unit.
  std::deque<Slab> slabs_;  // A deque, since pointers to slabs must stay valid.
  std::vector<Slab*> unused_;
};

inline Bytes SlabPool::TryAllocate(std::size_t size_class) {
  SizeClass& in = classes_[size_class];
  Slab* const slab = in.lowest;
  if (slab == nullptr) return kNone;
  const auto word = static_cast<std::size_t>(std::countr_zero(slab->words_with_free));
  const auto bit = static_cast<std::size_t>(std::countr_zero(slab->free[word]));
  const Bytes at = slab->begin + (word * 64 + bit) * in.block_bytes;
  // A slab that Grow has just made is empty and already counts as dirty.
  if (slab->used++ == slab->clean && slab->clean != 0) [[unlikely]] {
    arena_->SetClean(slab->begin, in.slab_bytes, false);
  }
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

// A full cache frees one block and allocates one, and has at most one other
// slab with room, so neither function touches `others` there.
inline void SlabPool::Enlist(SizeClass& in, Slab* slab) {
  if (in.lowest == nullptr) {
    in.lowest = slab;
    return;
  }
  if (slab->begin < in.lowest->begin) std::swap(slab, in.lowest);
  if (in.second == nullptr) {
    in.second = slab;
    return;
  }
  if (slab->begin < in.second->begin) std::swap(slab, in.second);
  in.others.Insert(slab->begin / in.slab_bytes);
}

inline void SlabPool::Delist(SizeClass& in, Slab* slab) {
  if (slab == in.lowest) {
    in.lowest = in.second;
  } else if (slab != in.second) {
    in.others.Erase(slab->begin / in.slab_bytes);
    return;
  }
  in.second = nullptr;
  const std::uint64_t next = in.others.First();
  if (next == BitTree::kNone) return;
  in.others.Erase(next);
  in.second = At(next * in.slab_bytes);
}

inline void SlabPool::PrefetchFree(std::size_t size_class, Bytes at) const {
  const Bytes begin = at & ~(classes_[size_class].slab_bytes - 1);
  const Slab* const slab = At(begin);
  __builtin_prefetch(slab, 1);
  __builtin_prefetch(reinterpret_cast<const std::byte*>(slab) + sizeof(Slab) - 1, 1);
}

inline void SlabPool::Free(std::size_t size_class, Bytes at, bool clean) {
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
  assert(clean ? slab->clean > 0 : slab->used > slab->clean);
  slab->clean = static_cast<std::uint16_t>(slab->clean - clean);
  if (--slab->used > slab->clean) [[likely]]
    return;
  if (slab->used == 0) {
    Return(in, slab, clean);
  } else if (!clean) {
    arena_->SetClean(begin, in.slab_bytes, true);
  }
}

}  // namespace spillway
