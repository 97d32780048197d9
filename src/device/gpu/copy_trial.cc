// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/copy_trial.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <new>
#include <ranges>

namespace spillway {

namespace {

using Steady = std::chrono::steady_clock;  // real world: a device keeps no other time

constexpr Bytes kSmallest = 8 * kKiB;
constexpr Bytes kLargest = kMiB;
constexpr int kRounds = 3;

// Memory of the trial, on the device and on the host.
class Ground {
 public:
  Ground(const GpuDriver& driver, HostPins* pins, Bytes bytes)
      : driver_(driver), pins_(pins), bytes_(bytes) {}
  ~Ground() {
    if (abandoned_) return;
    if (host_ != nullptr) pins_->Removed(host_, bytes_);
    std::free(host_);  // NOLINT(cppcoreguidelines-no-malloc): aligned_alloc's.
    if (device_ != 0) Insist([&] { return driver_.memory_free(device_); });
  }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;

  Status Take() {
    // Twice the size: every other piece is used, so no two are adjacent.
    if (const int code = driver_.memory_alloc(&device_, 2 * bytes_); code != 0) {
      device_ = 0;
      return driver_.Failed("memory for a trial of copies", code);
    }
    constexpr std::size_t kPageBytes = 4096;
    host_ = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes_));
    if (host_ == nullptr) return Error{Code::kNoMemory, "no memory for a trial of copies"};
    std::fill_n(host_, bytes_, std::byte{0x5a});
    pins_->Added(host_, bytes_);
    if (pins_->Reach(host_) < bytes_) {
      return Error{Code::kUnavailable, "the driver refuses to register host memory"};
    }
    return {};
  }
  // Keeps the memory: the device may still be using it.
  void Abandon() { abandoned_ = true; }
  std::vector<GpuCopies::Piece> Pieces(Bytes piece, GpuCopies::Way way) const {
    std::vector<GpuCopies::Piece> pieces;
    for (Bytes at = 0; at + piece <= bytes_; at += piece) {
      const auto host = reinterpret_cast<std::uint64_t>(host_ + at);
      const std::uint64_t device = device_ + 2 * at;
      const bool down = way == GpuCopies::Way::kToHost;
      pieces.push_back({down ? host : device, down ? device : host, piece});
    }
    return pieces;
  }

 private:
  const GpuDriver& driver_;
  HostPins* const pins_;
  const Bytes bytes_;
  GpuAddress device_ = 0;
  std::byte* host_ = nullptr;
  bool abandoned_ = false;
};

// To the device and back. The first round only warms up.
Result<Duration> BestOf(const Ground& ground, GpuCopies* copies, Bytes piece) {
  Duration best = Duration::max();
  for (int round = 0; round <= kRounds; ++round) {
    const auto start = Steady::now();  // real world: as above
    for (const GpuCopies::Way way : {GpuCopies::Way::kToDevice, GpuCopies::Way::kToHost}) {
      if (Status ok = copies->Run(way, ground.Pieces(piece, way), {}); !ok) return ok.error();
    }
    const auto took = std::chrono::duration_cast<Duration>(Steady::now() - start);  // real world
    if (round > 0) best = std::min(best, took);
  }
  return best;
}

}  // namespace

// On a tie the copy engines win: gathering needs a kernel and memory.
Bytes CopyTrial::GatherBelow() const {
  for (const Row& row : std::views::reverse(rows)) {
    if (row.gathered * 100 < row.direct * 97) return 2 * row.piece;
  }
  return 0;
}

Result<CopyTrial> TryCopies(const std::shared_ptr<const GpuDriver>& driver, int device,
                            GpuContext context, HostPins* pins, const GpuCopies::Settings& settings,
                            Bytes most) {
  const GpuScope scope(*driver, device, context);
  if (scope.code() != 0) return driver->Failed("making the device current", scope.code());
  GpuCopies::Settings always = settings;
  always.gather_below = std::numeric_limits<Bytes>::max();
  always.gather_from = 1;
  GpuCopies::Settings never = settings;
  never.gather_below = 0;
  GpuCopies gathered(driver, device, context, pins, always);
  GpuCopies direct(driver, device, context, pins, never);
  if (!gathered.gathers()) {
    return Error{Code::kUnavailable, "the gather kernel is not loaded"};
  }
  try {
    Ground ground(*driver, pins, most);
    if (Status ok = ground.Take(); !ok) return ok.error();
    CopyTrial trial;
    for (Bytes piece = kSmallest; piece <= std::min(kLargest, most / 4); piece *= 2) {
      const Result<Duration> one = BestOf(ground, &gathered, piece);
      const Result<Duration> other = one ? BestOf(ground, &direct, piece) : one;
      if (gathered.in_doubt() || direct.in_doubt()) ground.Abandon();
      if (!other) return other.error();
      trial.rows.push_back({piece, *one, *other});
    }
    return trial;
  } catch (const std::bad_alloc&) {
    return Error{Code::kNoMemory, "no memory for a trial of copies"};
  }
}

}  // namespace spillway
