// A Tier is a place for bytes. It holds blocks and moves bytes; it never
// chooses who stays. Allocate, Free and SetBacked are called on the engine's
// strand only, Write and Read from any thread on blocks the caller holds.
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
  // Most bytes of blocks; kUnlimited: none set. The engine keeps to it.
  virtual Bytes capacity() const = 0;

  // A block of exactly `bytes` (0 is fine), aligned to 64 bytes where it is at
  // least that large. NoMemory when the device refuses; then nothing changed.
  virtual Result<std::byte*> Allocate(Bytes bytes) = 0;
  // Takes back what Allocate gave. Memory that no block needs any more is
  // returned to the device before this returns. `backed`: as SetBacked last
  // said; tiers keep no note of each block.
  virtual void Free(std::byte* block, Bytes bytes, bool backed = false) = 0;
  // A hint that Free of this block comes soon.
  virtual void PrefetchFree(const std::byte* block, Bytes bytes) const {
    static_cast<void>(block);
    static_cast<void>(bytes);
  }

  // Says that a copy of the block lies in a lower tier, or no longer does. A
  // fresh block is not backed. Only when it changes: tiers just count.
  virtual void SetBacked(std::byte* block, Bytes bytes, bool backed) = 0;

  // Returns memory that is kept for the next block to the device, too.
  virtual void ReleaseSpare() {}

  // Bytes of blocks allocated and not freed.
  virtual Bytes allocated() const = 0;
  // Physical memory taken from the device for them, slack included.
  virtual Bytes held() const = 0;
  // The part of held() that could be given back at once, forgetting nothing:
  // chunks with blocks in them, all of them backed. A chunk without blocks that
  // is kept for the next one is not in here; it is free already, only ours.
  virtual Bytes clean() const = 0;

  // Unavailable: the device failed, and what is in the block is nobody's.
  virtual Status Write(std::byte* block, const Source& source) = 0;
  virtual Status Read(const std::byte* block, Bytes bytes, const Sink& sink) const = 0;
  // Into host memory; see Device::CopyToHost.
  virtual Status ReadToHost(const std::byte* block, Bytes bytes, std::byte* to,
                            const std::function<bool(Bytes)>& arrived) const;
  virtual Status WriteFromHost(std::byte* block, const std::byte* from, Bytes bytes,
                               const std::function<bool(Bytes)>& arrived,
                               std::vector<Hash128>* hashes);
  virtual bool makes_hashes() const { return false; }
  // Whether blocks can be read and written in place by this process.
  virtual bool host_readable() const { return true; }
  // Whether a block is a stretch of memory the host can write to by itself.
  virtual bool is_plain_memory() const { return false; }
  // Of the device; see there. Any thread.
  virtual bool is_lost() const { return false; }
  virtual bool in_doubt() const { return false; }
  // Whether that is an address of this tier's own memory, where only it can read
  // it. Any thread.
  virtual bool Owns(const void*) const { return false; }
};

}  // namespace spillway
