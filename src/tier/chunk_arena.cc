// SPDX-License-Identifier: Apache-2.0
#include "tier/chunk_arena.h"

#include <bit>
#include <cassert>
#include <new>

#include <fmt/format.h>

#include "base/mutant.h"
#include "base/parse.h"

namespace spillway {

Result<std::unique_ptr<ChunkArena>> ChunkArena::Open(Device* device,
                                                     const ChunkArenaOptions& options) {
  assert(options.held_max > 0 && options.held_max % device->chunk_bytes() == 0);
  // Address space is cheap, and a range larger than the memory makes long free
  // runs easy to find. Where addresses are rationed (ulimit -v), a smaller
  // range works as well.
  constexpr Bytes kSpaciousness = 4;
  for (Bytes times = kSpaciousness;; times /= 2) {
    const Bytes range = options.held_max * times;
    const Result<std::byte*> base = device->ReserveRange(range);
    if (!base && times == 1) return base.error();
    if (!base) continue;
    try {
      return std::unique_ptr<ChunkArena>(new ChunkArena(device, options, *base, range));
    } catch (const std::bad_alloc&) {
      device->ReleaseRange(*base, range);
      throw;
    }
  }
}

ChunkArena::ChunkArena(Device* device, const ChunkArenaOptions& options, std::byte* base,
                       Bytes range)
    : device_(device),
      options_(options),
      chunk_bytes_(device->chunk_bytes()),
      chunk_shift_(std::countr_zero(chunk_bytes_)),
      base_(base),
      range_(range),
      full_message_(fmt::format("the tier's {} on {} are in use", FormatBytes(options.held_max),
                                device->name())),
      extents_(range, device->chunk_bytes(), options.granule),
      mapped_(range / device->chunk_bytes()),
      dirty_(range / device->chunk_bytes()) {}

ChunkArena::~ChunkArena() {
  for (std::size_t chunk = 0; chunk < mapped_.size(); ++chunk) {
    if (mapped_[chunk]) Unmap(chunk);
  }
  device_->ReleaseRange(base_, range_);
}

Result<Bytes> ChunkArena::Take(Bytes bytes, Bytes align) {
  extents_.Prepare();  // The only step that may throw; nothing is mapped yet.
  for (;;) {
    const std::optional<Placement> place = extents_.Find(bytes, align, spare_);
    if (!place) {
      return Error{Code::kNoMemory, fmt::format("no {} of addresses in a row are left on {}",
                                                FormatBytes(bytes), device_->name())};
    }
    const Status mapped = MapAll(place->fresh);
    if (mapped) {
      if (spare_ && place->fresh.Contains(*spare_)) spare_.reset();
      extents_.Take(place->at, bytes);
      CountTaken(ChunksOf(place->at, bytes), place->fresh);
      return place->at;
    }
    // When memory is short, the spare chunk is unmapped first.
    if (!ReleaseSpare()) return mapped.error();
  }
}

void ChunkArena::Give(Bytes at, Bytes bytes, bool clean) {
  const ChunkRun emptied = extents_.Give(at, bytes);
  CountGiven(ChunksOf(at, bytes), emptied, clean);
  if (MutantOn(Mutant::kChunkLeak)) return;
  for (std::size_t chunk = emptied.first; chunk < emptied.end(); ++chunk) {
    if (options_.keep_one_empty && !spare_) {
      spare_ = chunk;
    } else {
      Unmap(chunk);
    }
  }
}

// As Give and Take do it: what the block leaves empty, and the spare, are unmapped before
// other chunks are mapped, if need be.
bool ChunkArena::TakesInPlaceOf(Bytes at, Bytes freed, Bytes bytes, Bytes align) {
  extents_.Prepare();
  ChunkRun emptied;
  if (freed > 0) emptied = extents_.Give(at, freed);
  const std::optional<Placement> place = extents_.Find(bytes, align, std::nullopt);
  if (freed > 0) extents_.Take(at, freed);
  if (!place) return false;
  const std::size_t ours = emptied.count + (spare_ ? 1 : 0);
  if (place->fresh.count <= ours) return true;
  const std::size_t more = place->fresh.count - ours;
  return more * chunk_bytes_ <= options_.held_max - held() && CanMap(place->fresh, more);
}

bool ChunkArena::CanMap(ChunkRun chunks, std::size_t count) {
  std::vector<std::size_t> done;
  done.reserve(count);
  for (std::size_t chunk = chunks.first; chunk < chunks.end() && done.size() < count; ++chunk) {
    if (mapped_[chunk]) continue;
    if (!Map(chunk)) break;
    done.push_back(chunk);
  }
  for (const std::size_t chunk : done) Unmap(chunk);
  return done.size() == count;
}

// A new block is dirty: a chunk that had only clean blocks is no longer clean.
// Fresh chunks had none and were not counted.
void ChunkArena::CountTaken(ChunkRun chunks, ChunkRun fresh) {
  std::ptrdiff_t cleaned = 0;
  for (std::size_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    if (dirty_[chunk]++ == 0 && !fresh.Contains(chunk)) --cleaned;
  }
  AddClean(cleaned);
}

void ChunkArena::CountGiven(ChunkRun chunks, ChunkRun emptied, bool clean) {
  std::ptrdiff_t cleaned = 0;
  for (std::size_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    if (dirty_[chunk] == 0) --cleaned;
    if (!clean) --dirty_[chunk];
    if (dirty_[chunk] == 0 && !emptied.Contains(chunk)) ++cleaned;
  }
  AddClean(cleaned);
}

void ChunkArena::SetClean(Bytes at, Bytes bytes, bool clean) {
  const ChunkRun chunks = ChunksOf(at, bytes);
  std::ptrdiff_t cleaned = 0;
  for (std::size_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    if (clean) {
      assert(dirty_[chunk] > 0);
      if (--dirty_[chunk] == 0) ++cleaned;
    } else if (dirty_[chunk]++ == 0) {
      --cleaned;
    }
  }
  AddClean(cleaned);
}

ChunkRun ChunkArena::ChunksOf(Bytes at, Bytes bytes) const {
  const std::size_t first = at >> chunk_shift_;
  return {first, ((at + bytes - 1) >> chunk_shift_) + 1 - first};
}

void ChunkArena::AddClean(std::ptrdiff_t chunks) {
  if (chunks == 0) return;
  clean_.store(clean() + static_cast<Bytes>(chunks) * chunk_bytes_, std::memory_order_relaxed);
}

Status ChunkArena::MapAll(ChunkRun chunks) {
  Bytes missing = 0;
  for (std::size_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    missing += mapped_[chunk] ? 0 : chunk_bytes_;
  }
  if (missing > options_.held_max - held()) return Error{Code::kNoMemory, full_message_};
  for (std::size_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    if (mapped_[chunk]) continue;
    Status mapped = Map(chunk);
    if (mapped) continue;
    if (MutantOn(Mutant::kPartialMapNotUnwound)) return mapped;
    while (chunk-- > chunks.first) {
      if (chunk != spare_) Unmap(chunk);  // All other chunks of the run were unmapped before.
    }
    return mapped;
  }
  return {};
}

Status ChunkArena::Map(std::size_t chunk) {
  Status mapped;
  try {
    mapped = device_->MapChunk(base_ + chunk * chunk_bytes_);
  } catch (const std::bad_alloc&) {
    mapped = Error{Code::kNoMemory, "no memory"};
  }
  if (!mapped) return mapped;
  mapped_[chunk] = true;
  held_.store(held() + chunk_bytes_, std::memory_order_relaxed);
  return {};
}

void ChunkArena::Unmap(std::size_t chunk) {
  assert(mapped_[chunk]);
  device_->UnmapChunk(base_ + chunk * chunk_bytes_);
  mapped_[chunk] = false;
  held_.store(held() - chunk_bytes_, std::memory_order_relaxed);
}

bool ChunkArena::ReleaseSpare() {
  if (!spare_) return false;
  Unmap(*spare_);
  spare_.reset();
  return true;
}

}  // namespace spillway
