// SPDX-License-Identifier: Apache-2.0
// A Tier is a place for bytes: it allocates blocks and copies bytes into and
// out of them. It never chooses which entries it holds; policies do.
//
// Allocate, Free and SetClean are called on the engine's strand only. Write
// and Read are called from any thread, on blocks that the caller has allocated
// and that are not freed meanwhile.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "base/hash128.h"
#include "spillway/fragment.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class Tier {
 public:
  static constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

  virtual ~Tier() = default;

  virtual std::string_view name() const = 0;  // "device"
  // Upper bound on the bytes of blocks; kUnlimited: none. The engine keeps to it.
  virtual Bytes capacity() const = 0;

  // Returns a block of exactly `bytes` (0 is allowed), aligned to 64 bytes if
  // it is at least that large. Returns NoMemory when the device refuses memory;
  // the tier is then unchanged.
  virtual Result<std::byte*> Allocate(Bytes bytes) = 0;
  // Frees a block from Allocate. Memory that no block needs any more is
  // returned to the device before this call returns. `clean` repeats the last
  // SetClean for the block, since tiers keep no record per block.
  virtual void Free(std::byte* block, Bytes bytes, bool clean = false) = 0;
  // Whether Allocate(instead) will succeed once this block has been freed (0 bytes: none
  // is): so far as the tier and, at this moment, its device can tell. Changes nothing.
  virtual bool TakesInPlaceOf(const std::byte* block, Bytes bytes, Bytes instead) {
    static_cast<void>(block);
    static_cast<void>(bytes);
    static_cast<void>(instead);
    return true;
  }
  // Prefetches into the processor's caches what a later Free of this block will touch.
  virtual void PrefetchFree(const std::byte* block, Bytes bytes) const {
    static_cast<void>(block);
    static_cast<void>(bytes);
  }

  // Marks the block clean (a lower tier has a copy) or dirty. A new block is dirty.
  // Call it only on a change: tiers count bytes and keep no record per block.
  virtual void SetClean(std::byte* block, Bytes bytes, bool clean) = 0;

  // Also returns the memory that is kept for the next block to the device.
  virtual void ReleaseSpare() {}
  // ReleaseSpare, and the device also returns the memory that it keeps for reuse.
  virtual void ReleaseAll() { ReleaseSpare(); }

  // Bytes of blocks that are allocated and not freed.
  virtual Bytes allocated() const = 0;
  // Physical memory taken from the device for the blocks, including slack.
  virtual Bytes held() const = 0;
  // The part of held() that can be returned at once without losing data: chunks
  // that have blocks in them, all of them clean. A chunk without blocks that is
  // kept for the next allocation does not count here; it is already free.
  virtual Bytes clean() const = 0;

  // Returns Unavailable if the device failed; the contents of the block are then undefined.
  virtual Status Write(std::byte* block, const Source& source) = 0;
  virtual Status Read(const std::byte* block, Bytes bytes, const Sink& sink) const = 0;
  // Copies into host memory; see `Device::CopyToHost`.
  virtual Status ReadToHost(const std::byte* block, Bytes bytes, std::byte* to,
                            const std::function<bool(Bytes)>& arrived) const;
  virtual Status WriteFromHost(std::byte* block, const std::byte* from, Bytes bytes,
                               const std::function<bool(Bytes)>& arrived,
                               std::vector<Hash128>* hashes);
  // Whether WriteFromHost can compute hashes of the bytes while it copies them.
  virtual bool makes_hashes() const { return false; }
  // Whether this process can read and write blocks in place.
  virtual bool host_readable() const { return true; }
  // Forwarded from the device; see `Device::is_lost` and `Device::in_doubt`. Any thread.
  virtual bool is_lost() const { return false; }
  virtual bool in_doubt() const { return false; }
  // Whether the address lies in this tier's own memory and only this tier can
  // read it. Any thread.
  virtual bool Owns(const void*) const { return false; }
};

}  // namespace spillway
