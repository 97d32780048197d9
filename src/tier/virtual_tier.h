// SPDX-License-Identifier: Apache-2.0
// A tier that only counts: each block has an address of its own, with no memory
// behind it. `spillway simulate` runs 128 GiB on it without touching memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tier/tier.h"

namespace spillway {

class VirtualTier final : public Tier {
 public:
  explicit VirtualTier(Bytes capacity = kUnlimited, std::string name = "device");

  std::string_view name() const override { return name_; }
  Bytes capacity() const override { return capacity_; }
  // Returns NoMemory beyond the capacity.
  Result<std::byte*> Allocate(Bytes bytes) override;
  void Free(std::byte* block, Bytes bytes, bool clean = false) override;
  void SetClean(std::byte* block, Bytes bytes, bool clean) override;
  Bytes allocated() const override { return allocated_; }
  Bytes held() const override { return allocated_; }
  // There are no chunks: exactly the bytes of clean blocks.
  Bytes clean() const override { return clean_; }

  // Nothing is stored, and nothing is written to the sink.
  Status Write(std::byte*, const Source&) override { return {}; }
  Status Read(const std::byte*, Bytes, const Sink&) const override { return {}; }

 private:
  const std::string name_;
  const Bytes capacity_;
  std::atomic<Bytes> allocated_{0};  // Written on the strand, read by any thread.
  std::atomic<Bytes> clean_{0};      // The same.
  std::uintptr_t next_;              // Strand only.
};

}  // namespace spillway
