// A tier that only counts: every block has an address of its own, and nothing
// lies there. `spillway simulate` runs 128 GiB on it without touching memory.
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
  // NoMemory beyond the capacity.
  Result<std::byte*> Allocate(Bytes bytes) override;
  void Free(std::byte* block, Bytes bytes, bool backed = false) override;
  void SetBacked(std::byte* block, Bytes bytes, bool backed) override;
  Bytes allocated() const override { return allocated_; }
  Bytes held() const override { return allocated_; }
  // Without chunks: exactly the bytes of backed blocks.
  Bytes clean() const override { return backed_; }

  // Nothing is kept, and nothing written to the sink.
  Status Write(std::byte*, const Source&) override { return {}; }
  Status Read(const std::byte*, Bytes, const Sink&) const override { return {}; }

 private:
  const std::string name_;
  const Bytes capacity_;
  std::atomic<Bytes> allocated_{0};  // Written on the strand, read anywhere.
  std::atomic<Bytes> backed_{0};     // The same.
  std::uintptr_t next_;              // The strand's.
};

}  // namespace spillway
