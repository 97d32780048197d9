// The device every machine has: plain RAM, counted by a virtual card. Chunks
// are anonymous memory at fixed addresses; an unmapped chunk's pages are back
// with the kernel before its bytes are back on the card, but for a few on a card
// that nobody else uses.
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
  // Empty: what the card has, or for a new one an eighth of MemAvailable.
  std::optional<Bytes> total = {};
  // A power of two of at least 4 KiB. Empty: CpuDevice::ChunkBytesFor(total).
  std::optional<Bytes> chunk_bytes = {};
  // Of what was unmapped last, so much keeps its pages until it is mapped again or
  // others take its place: having the kernel clear pages costs as much as filling
  // them. Only on a private card; what was in them is still there.
  Bytes warm_bytes = 0;
};

class CpuDevice final : public Device {
 public:
  static Result<std::unique_ptr<CpuDevice>> Open(const CpuDeviceOptions& options);
  // Every range must have been released.
  ~CpuDevice() override;

  // About 256 chunks to a card, 64 KiB to 32 MiB each; a card smaller than
  // that is one chunk. Large chunks are cheap to move in and out, small ones
  // come free sooner.
  static Bytes ChunkBytesFor(Bytes total);

  std::string_view name() const override { return name_; }
  Bytes total() const override { return card_->total(); }
  bool shared() const override { return card_->shared(); }
  Bytes chunk_bytes() const override { return chunk_bytes_; }
  Result<Reading> ReadMemory() override { return card_->Read(); }

  Result<std::byte*> ReserveRange(Bytes bytes) override;
  void ReleaseRange(std::byte* base, Bytes bytes) override;
  Status MapChunk(std::byte* at) override;
  void UnmapChunk(std::byte* at) override;

  Status CopyIn(std::byte* to, const Source& source) override;
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override;

  // What this device holds of the card.
  Bytes held() const { return card_->held(); }
  const std::string& card_name() const { return card_->name(); }

 private:
  CpuDevice(std::unique_ptr<Card> card, Bytes chunk_bytes, Bytes warm_bytes);
  void GiveToKernel(std::byte* at);

  const std::unique_ptr<Card> card_;
  const std::string name_;
  const Bytes chunk_bytes_;
  const std::size_t warm_max_;
  std::vector<std::byte*> warm_;  // The oldest first. Never grows beyond warm_max_.
  int ranges_ = 0;                // Reserved and not released; the strand's.
};

}  // namespace spillway
