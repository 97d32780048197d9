// SPDX-License-Identifier: Apache-2.0
// The tier on a device. It takes memory from the device chunk by chunk as
// blocks are allocated and returns chunks as blocks are freed.
//
// Blocks of up to 32 KiB come from slabs. Larger ones get an address range of
// their own, rounded up to 4 KiB. On tiers under 128 MiB both limits shrink in
// proportion; otherwise a few size classes would fill the tier.
//
// The same calls give the same offsets from base(), so that a run can be repeated exactly.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "device/device.h"
#include "tier/chunk_arena.h"
#include "tier/slab_pool.h"
#include "tier/tier.h"

namespace spillway {

struct ArenaTierOptions {
  std::string name = "device";
  // Upper bound on the bytes of blocks. Empty, or more than the card has: all
  // whole chunks of the card. Physical memory is bounded, too: by the capacity
  // rounded up to whole chunks. So slack (size classes, holes) can make Allocate
  // return NoMemory before `capacity` bytes are allocated. A single block of
  // `capacity` bytes fits into an empty tier on an otherwise free card.
  std::optional<Bytes> capacity = {};
  // Keeps one empty chunk for the next block instead of returning it at once.
  // Empty: only on a private card, where no other process needs it.
  std::optional<bool> keep_one_empty = {};
  // Blocks larger than half the granule begin at a multiple of it and own the
  // rest of their last granule. With 4 KiB a file can be read directly into a
  // block, past the page cache. A power of two, at most a chunk. 0: no padding.
  Bytes granule_min = 0;
};

// Strand only, except for the copies and the functions that Tier documents for any thread.
class ArenaTier final : public Tier {
 public:
  // `device` is borrowed and must outlive the tier.
  static Result<std::unique_ptr<ArenaTier>> Open(Device* device,
                                                 const ArenaTierOptions& options = {});

  std::string_view name() const override { return name_; }
  Bytes capacity() const override { return capacity_; }

  // Tens of nanoseconds for small blocks. TooLarge beyond capacity().
  Result<std::byte*> Allocate(Bytes bytes) override;
  void Free(std::byte* block, Bytes bytes, bool clean = false) override;
  bool TakesInPlaceOf(const std::byte* block, Bytes bytes, Bytes instead) override;
  void PrefetchFree(const std::byte* block, Bytes bytes) const override;

  void SetClean(std::byte* block, Bytes bytes, bool clean) override;

  void ReleaseSpare() override { arena_->ReleaseSpare(); }
  void ReleaseAll() override {
    arena_->ReleaseSpare();
    device_->ReleaseWarm();
  }

  Bytes allocated() const override { return allocated_.load(std::memory_order_relaxed); }
  Bytes held() const override { return arena_->held(); }
  Bytes clean() const override { return arena_->clean(); }

  Status Write(std::byte* block, const Source& source) override {
    return device_->CopyIn(block, source);
  }
  Status Read(const std::byte* block, Bytes bytes, const Sink& sink) const override {
    return device_->CopyOut(block, bytes, sink);
  }
  Status ReadToHost(const std::byte* block, Bytes bytes, std::byte* to,
                    const std::function<bool(Bytes)>& arrived) const override {
    return device_->CopyToHost(block, bytes, to, arrived);
  }
  Status WriteFromHost(std::byte* block, const std::byte* from, Bytes bytes,
                       const std::function<bool(Bytes)>& arrived,
                       std::vector<Hash128>* hashes) override {
    return device_->CopyFromHost(block, from, bytes, arrived, hashes);
  }
  bool makes_hashes() const override { return device_->makes_hashes(); }
  bool host_readable() const override { return device_->host_readable(); }
  bool is_lost() const override { return device_->is_lost(); }
  bool in_doubt() const override { return device_->in_doubt(); }
  bool Owns(const void* at) const override {
    return !device_->host_readable() && at >= arena_->base() &&
           at < arena_->base() + arena_->range();
  }

  // Blocks up to this size come from slabs.
  Bytes small_block_max() const { return small_block_max_; }
  // Base of the offsets; for tests that compare two runs.
  const std::byte* base() const { return arena_->base(); }

 private:
  ArenaTier(Device* device, const ArenaTierOptions& options, Bytes capacity, Bytes slab_bytes_max,
            std::unique_ptr<ChunkArena> arena);

  // The bytes that a block of `bytes` owns after padding to granule_min.
  Bytes Padded(Bytes bytes) const {
    return bytes > pad_above_ ? (bytes + pad_to_ - 1) & ~(pad_to_ - 1) : bytes;
  }

  // Allocates if no slab has a free slot, or the block is too large for slabs.
  Result<std::byte*> AllocateSlowly(Bytes bytes);
  // Counts a new block and converts its offset to an address.
  std::byte* Count(Bytes at, Bytes bytes);

  Device* const device_;
  const std::string name_;
  const Bytes capacity_;
  const Bytes small_block_max_;
  const Bytes granule_;
  const Bytes pad_to_;     // `granule_min`, or 1.
  const Bytes pad_above_;  // Half of granule_min; kUnlimited if there is none.
  const std::unique_ptr<ChunkArena> arena_;
  SlabPool slabs_;
  std::atomic<Bytes> allocated_{0};  // Written on the strand, read anywhere.
};

}  // namespace spillway
