// SPDX-License-Identifier: Apache-2.0
// One copy. Up to kInFlight steps are queued on the stream ahead, each with an
// event; they end in the order in which they were queued.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "device/gpu/gpu_copies.h"

namespace spillway {

class GpuCopies::Job {
 public:
  Job(GpuCopies* copies, Way way, Lane* lane, const std::function<bool(Bytes)>& arrived)
      : copies_(copies), driver_(*copies->driver_), way_(way), lane_(lane), arrived_(arrived) {}

  // Makes the copy wait for the caller's stream or event.
  Status After(const DeviceOrder& order);
  // If the bytes arrive on the device as one piece, checksums are computed there, too.
  void Hash(std::vector<Hash128>* hashes) { hashes_ = hashes; }
  // Copies the pieces and waits for the end.
  Status Run(std::span<const Piece> pieces);

 private:
  // An operation that is queued on a stream.
  struct Step {
    Bytes bytes = 0;
    std::byte* to = nullptr;  // Copied from the bounce buffer to here when the step is done.
  };

  Status Do(std::string_view call, int code) { return copies_->Check(call, code); }
  std::uint64_t HostSide(const Piece& piece) const {
    return way_ == Way::kToHost ? piece.to : piece.from;
  }
  // How many pieces at the front to gather, or to pass to the driver in one batch.
  std::size_t SmallOnes(std::span<const Piece> pieces) const;
  std::size_t BatchOf(std::span<const Piece> pieces) const;
  // The ways to queue copies: many pieces in one driver call, gathered through
  // staging memory, or one piece in steps.
  Status Batch(std::span<const Piece> pieces);
  Status Launch(GpuStream stream, Piece* table, std::size_t count);
  Status Gather(std::span<const Piece> pieces);
  Status Whole(const Piece& piece);
  // Records the event of a step that was just queued.
  Status Began(const Step& step, GpuStream on = nullptr);
  // Waits until at most `left` steps are in flight, and reports the bytes that
  // have arrived.
  Status Finish(std::size_t left);

  // Checksums on the device: for one aligned piece, queued behind its copies,
  // collected at the end.
  bool CanHash(std::span<const Piece> pieces) const;
  void HashBehind(GpuAddress base, Bytes copied);
  Status FinishHashes();

  GpuCopies* const copies_;
  const GpuDriver& driver_;
  const Way way_;
  Lane* const lane_;
  const std::function<bool(Bytes)>& arrived_;
  std::array<Step, kInFlight> steps_{};
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::size_t next_stage_ = 0;
  Bytes so_far_ = 0;
  std::vector<Hash128>* hashes_ = nullptr;
  std::size_t hashed_ = 0;  // Pieces passed to the kernel.
  bool hashing_ = false;
  bool kernels_used_ = false;
};

}  // namespace spillway
