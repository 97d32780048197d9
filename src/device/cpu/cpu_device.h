// SPDX-License-Identifier: Apache-2.0
// The device that every machine has: plain RAM, counted by a virtual card.
// Chunks are anonymous memory at fixed addresses. The pages of an unmapped
// chunk go back to the kernel before its bytes go back to the card, except for
// a few chunks on a private card (see warm_bytes).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/card.h"
#include "device/device.h"

namespace spillway {

struct CpuDeviceOptions {
  // Name of a card shared with other processes; empty: a private one.
  std::string name = {};
  // Empty: the total that the card already has, or for a new card an eighth of
  // MemAvailable.
  std::optional<Bytes> total = {};
  // A power of two of at least 4 KiB. Empty: CpuDevice::ChunkBytesFor(total).
  std::optional<Bytes> chunk_bytes = {};
  // Chunks unmapped last keep their pages, up to this many bytes, until they
  // are mapped again or newer ones replace them: when the kernel clears pages,
  // that costs as much as filling them. Only on a private card. The old
  // contents stay in them.
  Bytes warm_bytes = 0;
};

class CpuDevice final : public Device {
 public:
  static Result<std::unique_ptr<CpuDevice>> Open(const CpuDeviceOptions& options);
  // All ranges must have been released.
  ~CpuDevice() override;

  // About 256 chunks to a card, 64 KiB to 32 MiB each; a card smaller than that is one
  // chunk. Large chunks are cheap to map and unmap, small ones become empty sooner.
  static Bytes ChunkBytesFor(Bytes total);

  std::string_view name() const override { return name_; }
  Bytes total() const override { return card_->total(); }
  bool shared() const override { return card_->shared(); }
  Bytes chunk_bytes() const override { return chunk_bytes_; }
  Result<Reading> ReadMemory() override { return card_->Read(); }

  std::vector<DeviceHolder> Holders() override;

  Result<std::byte*> ReserveRange(Bytes bytes) override;
  void ReleaseRange(std::byte* base, Bytes bytes) override;
  Status MapChunk(std::byte* at) override;
  void UnmapChunk(std::byte* at) override;
  void ReleaseWarm() override;

  Status CopyIn(std::byte* to, const Source& source) override;
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override;

  // The bytes of the card that this device holds.
  Bytes held() const { return card_->held(); }
  const std::string& card_name() const { return card_->name(); }

 private:
  CpuDevice(std::unique_ptr<Card> card, Bytes chunk_bytes, Bytes warm_bytes);
  // Returns the pages of a chunk to the kernel.
  void GiveToKernel(std::byte* at);

  const std::unique_ptr<Card> card_;
  const std::string name_;
  const Bytes chunk_bytes_;
  const std::size_t warm_max_;
  std::vector<std::byte*> warm_;  // Oldest first. At most warm_max_.
  int ranges_ = 0;                // Reserved and not released; strand only.
};

}  // namespace spillway
