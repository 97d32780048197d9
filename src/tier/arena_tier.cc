// SPDX-License-Identifier: Apache-2.0
#include "tier/arena_tier.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include <fmt/format.h>

#include "base/parse.h"

namespace spillway {
namespace {

constexpr Bytes kSlabMin = kKiB;
constexpr Bytes kSlabMax = 256 * kKiB;
// A tier has room for this many slabs of the largest kind, so that one slab of
// each of the sixty size classes takes only a small part of it.
constexpr Bytes kSlabsPerTier = 512;
constexpr Bytes kBlockAlign = 64;

constexpr Bytes RoundUp(Bytes value, Bytes to) { return (value + to - 1) & ~(to - 1); }

Bytes SlabBytesMax(Bytes capacity, Bytes chunk_bytes) {
  return std::clamp(std::bit_floor(capacity / kSlabsPerTier), kSlabMin,
                    std::min(kSlabMax, chunk_bytes));
}

// A large block is larger than eight granules, so rounding it up wastes less
// than an eighth.
Bytes GranuleFor(Bytes small_block_max) { return std::max(kBlockAlign, small_block_max / 8); }

}  // namespace

Result<std::unique_ptr<ArenaTier>> ArenaTier::Open(Device* device,
                                                   const ArenaTierOptions& options) {
  const Bytes chunk = device->chunk_bytes();
  const Bytes mappable = device->total() / chunk * chunk;
  const Bytes capacity = std::min(options.capacity.value_or(mappable), mappable);
  if (capacity == 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("tier \"{}\" would have no memory: {} was asked for, {} has {} in "
                             "chunks of {}",
                             options.name, FormatBytes(options.capacity.value_or(mappable)),
                             device->name(), FormatBytes(device->total()), FormatBytes(chunk))};
  }
  const Bytes granule = options.granule_min;
  if (granule != 0 && (!std::has_single_bit(granule) || granule > chunk)) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("tier \"{}\" cannot pad blocks to {} bytes: a power of two up to {} is "
                    "needed",
                    options.name, granule, FormatBytes(chunk))};
  }
  const Bytes slab_bytes_max = SlabBytesMax(capacity, chunk);
  Result<std::unique_ptr<ChunkArena>> arena = ChunkArena::Open(
      device, {.held_max = RoundUp(capacity, chunk),
               .granule = GranuleFor(SlabPool::BlockMax(slab_bytes_max)),
               .keep_one_empty = options.keep_one_empty.value_or(!device->shared())});
  if (!arena) return arena.error();
  return std::unique_ptr<ArenaTier>(
      new ArenaTier(device, options, capacity, slab_bytes_max, std::move(*arena)));
}

ArenaTier::ArenaTier(Device* device, const ArenaTierOptions& options, Bytes capacity,
                     Bytes slab_bytes_max, std::unique_ptr<ChunkArena> arena)
    : device_(device),
      name_(options.name),
      capacity_(capacity),
      small_block_max_(SlabPool::BlockMax(slab_bytes_max)),
      granule_(GranuleFor(small_block_max_)),
      pad_to_(std::max<Bytes>(1, options.granule_min)),
      pad_above_(options.granule_min == 0 ? kUnlimited : options.granule_min / 2),
      arena_(std::move(arena)),
      slabs_(arena_.get(), slab_bytes_max) {}

Result<std::byte*> ArenaTier::Allocate(Bytes bytes) {
  const Bytes padded = Padded(bytes);
  if (padded - 1 < small_block_max_) {  // Also false for 0.
    const Bytes at = slabs_.TryAllocate(SizeClassOf(padded));
    if (at != SlabPool::kNone) return Count(at, bytes);
  }
  return AllocateSlowly(bytes);
}

Result<std::byte*> ArenaTier::AllocateSlowly(Bytes bytes) {
  if (bytes == 0) return arena_->base();  // Any address will do; it is never read.
  if (bytes > capacity_) {
    return Error{Code::kTooLarge, fmt::format("{} do not fit tier \"{}\", which holds {}",
                                              FormatBytes(bytes), name_, FormatBytes(capacity_))};
  }
  const Bytes padded = Padded(bytes);
  if (padded > small_block_max_) {
    const Bytes align = bytes > pad_above_ ? std::max(pad_to_, granule_) : granule_;
    const Result<Bytes> at = arena_->Take(RoundUp(padded, granule_), align);
    if (!at) return at.error();
    return Count(*at, bytes);
  }
  // Each multiple of a power of two falls into a size class that is also a
  // multiple of it, so slots have the alignment that padded blocks need.
  const std::size_t size_class = SizeClassOf(padded);
  if (Status grown = slabs_.Grow(size_class); !grown) return grown.error();
  const Bytes at = slabs_.TryAllocate(size_class);
  assert(at != SlabPool::kNone);
  return Count(at, bytes);
}

std::byte* ArenaTier::Count(Bytes at, Bytes bytes) {
  allocated_.store(allocated() + bytes, std::memory_order_relaxed);
  return arena_->base() + at;
}

void ArenaTier::Free(std::byte* block, Bytes bytes, bool clean) {
  if (bytes == 0) return;
  assert(block >= arena_->base() && block < arena_->base() + arena_->range());
  assert(allocated() >= bytes);
  const auto at = static_cast<Bytes>(block - arena_->base());
  allocated_.store(allocated() - bytes, std::memory_order_relaxed);
  const Bytes padded = Padded(bytes);
  if (padded <= small_block_max_) {
    slabs_.Free(SizeClassOf(padded), at, clean);
  } else {
    arena_->Give(at, RoundUp(padded, granule_), clean);
  }
}

bool ArenaTier::TakesInPlaceOf(const std::byte* block, Bytes bytes, Bytes instead) {
  if (instead == 0) return true;
  if (instead > capacity_) return false;
  const Bytes wanted = Padded(instead);
  const bool small = wanted <= small_block_max_;
  if (small && slabs_.HasRoom(SizeClassOf(wanted))) return true;
  // What the block leaves to the arena: a slab counts if it has no other.
  Bytes at = bytes == 0 ? 0 : static_cast<Bytes>(block - arena_->base());
  Bytes freed = 0;
  if (const Bytes padded = Padded(bytes); padded > small_block_max_) {
    freed = RoundUp(padded, granule_);
  } else if (padded > 0) {
    const std::size_t size_class = SizeClassOf(padded);
    if (small && size_class == SizeClassOf(wanted)) return true;
    const Bytes slab = slabs_.SlabOnlyOf(size_class, at);
    freed = slab == SlabPool::kNone ? 0 : slabs_.SlabBytes(size_class);
    at = slab == SlabPool::kNone ? 0 : slab;
  }
  if (small) {
    const Bytes slab = slabs_.SlabBytes(SizeClassOf(wanted));
    return arena_->TakesInPlaceOf(at, freed, slab, slab);
  }
  const Bytes align = instead > pad_above_ ? std::max(pad_to_, granule_) : granule_;
  return arena_->TakesInPlaceOf(at, freed, RoundUp(wanted, granule_), align);
}

void ArenaTier::SetClean(std::byte* block, Bytes bytes, bool clean) {
  if (bytes == 0) return;
  const auto at = static_cast<Bytes>(block - arena_->base());
  const Bytes padded = Padded(bytes);
  if (padded <= small_block_max_) {
    slabs_.SetClean(SizeClassOf(padded), at, clean);
  } else {
    arena_->SetClean(at, RoundUp(padded, granule_), clean);
  }
}

void ArenaTier::PrefetchFree(const std::byte* block, Bytes bytes) const {
  const Bytes padded = Padded(bytes);
  if (padded == 0 || padded > small_block_max_) return;
  slabs_.PrefetchFree(SizeClassOf(padded), static_cast<Bytes>(block - arena_->base()));
}

}  // namespace spillway
