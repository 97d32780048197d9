// One copy: steps are put on the stream up to kInFlight ahead, each with its
// event; they end in the order in which they began.
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

  Status After(const DeviceOrder& order);
  // Of what arrives on the device as one piece, checksums are made there, too.
  void Hash(std::vector<Hash128>* hashes) { hashes_ = hashes; }
  Status Run(std::span<const Piece> pieces);

 private:
  struct Step {
    Bytes bytes = 0;
    std::byte* to = nullptr;  // From a bounce buffer to here, when it is done.
  };

  Status Do(std::string_view call, int code) { return copies_->Check(call, code); }
  std::uint64_t HostSide(const Piece& piece) const {
    return way_ == Way::kToHost ? piece.to : piece.from;
  }
  std::size_t SmallOnes(std::span<const Piece> pieces) const;
  std::size_t BatchOf(std::span<const Piece> pieces) const;
  Status Batch(std::span<const Piece> pieces);
  Status Launch(GpuStream stream, Piece* table, std::size_t count);
  Status Gather(std::span<const Piece> pieces);
  Status Whole(const Piece& piece);
  Status Began(const Step& step, GpuStream on = nullptr);
  Status Finish(std::size_t left);

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
  std::size_t hashed_ = 0;  // Pieces given to the kernel.
  bool hashing_ = false;
  bool kernels_used_ = false;
};

}  // namespace spillway
