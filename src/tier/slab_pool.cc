// SPDX-License-Identifier: Apache-2.0
#include "tier/slab_pool.h"

#include <algorithm>
#include <new>

namespace spillway {
namespace {

constexpr Bytes kUsualSlab = 16 * kKiB;
constexpr Bytes kSmallestSlab = 4 * kKiB;

// 64 slots or more keep the records few enough for the processor's caches and
// the unused tail of a slab small; a record can count at most 512 slots.
Bytes SlabBytesFor(Bytes block_bytes, Bytes slots_max, Bytes slab_bytes_max) {
  const Bytes wanted = std::max(kUsualSlab, std::bit_ceil(64 * block_bytes));
  return std::min({wanted, slots_max * block_bytes, slab_bytes_max});
}

}  // namespace

SlabPool::SlabPool(ChunkArena* arena, Bytes slab_bytes_max)
    : arena_(arena),
      chunk_bytes_(arena->chunk_bytes()),
      unit_(std::min(kSmallestSlab, slab_bytes_max)),
      chunk_shift_(std::countr_zero(chunk_bytes_)),
      unit_shift_(std::countr_zero(unit_)),
      table_(arena->range() / arena->chunk_bytes()) {
  assert(std::has_single_bit(slab_bytes_max) && slab_bytes_max <= chunk_bytes_);
  for (std::size_t i = 0; i < kSizeClasses; ++i) {
    SizeClass& made = classes_[i];
    made.block_bytes = SizeClassBytes(i);
    if (made.block_bytes > BlockMax(slab_bytes_max)) break;
    // For 48-byte blocks, 512 slots are not a power of two: round down.
    made.slab_bytes = std::bit_floor(SlabBytesFor(made.block_bytes, kSlotsMax, slab_bytes_max));
    made.slots = static_cast<std::uint32_t>(made.slab_bytes / made.block_bytes);
    // Exact for every offset in a slab: offsets are below 2^18, and the
    // rounding adds less than 2^18 / 2^32 to a quotient that is whole.
    made.inverse = ((std::uint64_t{1} << 32) + made.block_bytes - 1) / made.block_bytes;
    assert(made.slots >= 8 && made.slots <= kSlotsMax && made.slab_bytes >= unit_);
  }
}

Status SlabPool::Grow(std::size_t size_class) {
  SizeClass& in = classes_[size_class];
  assert(in.slots > 0 && "too large a block for slabs");
  if (!in.others.sized() && !in.others.Resize(arena_->range() / in.slab_bytes)) {
    return Error{Code::kNoMemory, "the system refused memory for the tier's index"};
  }
  if (unused_.empty()) {
    // Capacity for all of them, so that Return never allocates.
    if (unused_.capacity() <= slabs_.size()) unused_.reserve(2 * slabs_.size() + 16);
    unused_.push_back(&slabs_.emplace_back());
  }
  const Result<Bytes> begin = arena_->Take(in.slab_bytes, in.slab_bytes);
  if (!begin) return begin.error();
  std::unique_ptr<Slab*[]>& units = table_[*begin / chunk_bytes_];
  if (units == nullptr) {
    units.reset(new (std::nothrow) Slab*[chunk_bytes_ / unit_]());
    if (units == nullptr) {
      arena_->Give(*begin, in.slab_bytes, false);
      return Error{Code::kNoMemory, "no memory"};
    }
  }
  Slab* const slab = unused_.back();
  unused_.pop_back();
  *slab = Slab();
  slab->begin = *begin;
  for (std::size_t slot = 0; slot < in.slots; slot += 64) {
    const std::size_t left = in.slots - slot;
    slab->free[slot / 64] = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
    slab->words_with_free |= static_cast<std::uint8_t>(1U << (slot / 64));
  }
  At(*begin) = slab;
  Enlist(in, slab);
  return {};
}

void SlabPool::SetClean(std::size_t size_class, Bytes at, bool clean) {
  const SizeClass& in = classes_[size_class];
  const Bytes begin = at & ~(in.slab_bytes - 1);
  Slab* const slab = At(begin);
  assert(slab != nullptr && slab->begin == begin);
  assert(clean ? slab->used > slab->clean : slab->clean > 0);
  const bool was = slab->clean == slab->used;
  slab->clean = static_cast<std::uint16_t>(clean ? slab->clean + 1 : slab->clean - 1);
  const bool is = slab->clean == slab->used;
  if (was != is) arena_->SetClean(begin, in.slab_bytes, is);
}

void SlabPool::Return(SizeClass& in, Slab* slab, bool clean) {
  Delist(in, slab);
  At(slab->begin) = nullptr;
  unused_.push_back(slab);
  arena_->Give(slab->begin, in.slab_bytes, clean);
}

}  // namespace spillway
