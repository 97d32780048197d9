// SPDX-License-Identifier: Apache-2.0
// Copies of a GPU's memory by its copy engines, on separate streams for each
// direction, at low priority so that running models are not disturbed. Small
// scattered pieces are gathered on the device into staging memory and then
// copied as one. Each call returns when its bytes have arrived.
//
// 1. A source is read only after the events that its order names.
// 2. A buffer is reused only after the event that guards it.
// 3. Each wait has a time limit. If a copy exceeds it the device counts as
//    lost, and memory that the copy may still use is never touched again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash128.h"
#include "base/mutex.h"
#include "device/gpu/gpu_driver.h"
#include "device/gpu/host_pins.h"
#include "spillway/fragment.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

class GpuCopies {
 public:
  enum class Way : std::uint8_t { kToHost, kToDevice, kOnDevice };
  static constexpr std::size_t kWays = 3;

  // The layout that the gather kernel reads.
  struct Piece {
    std::uint64_t to = 0;
    std::uint64_t from = 0;
    std::uint64_t bytes = 0;
  };

  struct Settings {
    // The largest step of a copy. To the host: small enough that the bytes that
    // have arrived are still in the processor's cache when they are hashed. To
    // the device: larger, since each step costs the link some microseconds.
    Bytes segment = 4 * kMiB;
    Bytes segment_up = 32 * kMiB;
    Bytes stage = 32 * kMiB;                     // Bytes gathered at once.
    Bytes gather_below = 256 * kKiB;             // Pieces smaller than this are gathered.
    std::size_t gather_from = 4;                 // If at least this many follow one another.
    std::size_t hash_batch = 64;                 // Pieces hashed at once.
    Duration within = std::chrono::seconds(20);  // Longest wait without progress.
  };

  GpuCopies(std::shared_ptr<const GpuDriver> driver, int device, GpuContext context, HostPins* pins,
            const Settings& settings);
  ~GpuCopies();
  GpuCopies(const GpuCopies&) = delete;
  GpuCopies& operator=(const GpuCopies&) = delete;

  // Called from any thread, which waits for the copy. `arrived` (may be empty)
  // gets the number of bytes at the front that have arrived; if it returns
  // false the copy is cancelled. `hashes` (may be null; only for copies to the
  // device): see Device::CopyFromHost.
  Status Run(Way way, std::vector<Piece> pieces, const DeviceOrder& order,
             const std::function<bool(Bytes)>& arrived = {},
             std::vector<Hash128>* hashes = nullptr);

  // Writes zeros, with the copy engines if the driver supports that.
  Status Fill(GpuAddress at, Bytes bytes);

  // Empty while the device works.
  std::string lost() const;
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  void Lose(const std::string& why);
  // Whether an operation was started whose end cannot be observed. Then all memory
  // it might use, which is all memory, is left alone for good. Implies is_lost().
  bool in_doubt() const { return in_doubt_.load(std::memory_order_acquire); }
  // Device memory taken for staging.
  Bytes overhead() const { return overhead_.load(std::memory_order_relaxed); }
  bool gathers() const { return gather_ != nullptr; }
  // See Settings. Call it before the first copy.
  void set_gather_below(Bytes bytes) { settings_.gather_below = bytes; }
  bool makes_hashes() const { return hash_ != nullptr; }

 private:
  static constexpr std::size_t kInFlight = 16;      // Segments.
  static constexpr std::size_t kStages = 2;         // Stages of gathered pieces.
  static constexpr std::size_t kLanesMax = 3;       // Concurrent copies per direction.
  static constexpr std::size_t kTableMax = 16384;   // Pieces gathered at once.
  static constexpr std::size_t kHashesMax = 32768;  // Of one value.

  // The resources of one copy; no other copy uses them meanwhile.
  struct Lane {
    GpuStream stream = nullptr;
    GpuStream kernels = nullptr;  // Gathers here, so that gathering overlaps with copies.
    GpuEvent order = nullptr;
    std::array<GpuEvent, kInFlight> done{};
    // Pinned host memory, for copies from or to memory that is not pinned.
    std::array<std::byte*, kInFlight> bounce{};
    struct Stage {
      GpuAddress memory = 0;
      Piece* table = nullptr;
      GpuEvent gathered = nullptr;
      GpuEvent free = nullptr;  // Recorded when both its memory and its table can be reused.
      bool used = false;
    };
    std::array<Stage, kStages> stages;
    bool staged = false;
    // Host memory that kernels read and write: the keys and the resulting hashes.
    std::uint64_t* hash_keys = nullptr;
    Hash128* hashes = nullptr;
  };
  // The lanes of one direction: the free ones, and the number in use.
  struct Lanes {
    std::vector<std::unique_ptr<Lane>> free;
    std::size_t out = 0;
  };
  class Job;

  // Takes a free lane for this direction or makes one; waits a bounded time if
  // kLanesMax are in use.
  Result<std::unique_ptr<Lane>> Take(Way way);
  // Returns a lane. If it is not `clean`, the device may still use its buffers
  // and it is never used again.
  void Give(Way way, std::unique_ptr<Lane> lane, bool clean);
  Result<std::unique_ptr<Lane>> MakeLane();
  void Destroy(Lane* lane);
  // Stage, Bounce, HashRoom: make sure that the lane has the memory for it;
  // false if there is none.
  bool Stage(Lane* lane);
  bool Bounce(Lane* lane);
  bool HashRoom(Lane* lane);
  Bytes BounceBytes() const;
  // Polls the event until it is done. After Settings::within the device counts
  // as lost and in doubt.
  Status Await(GpuEvent event);
  // Waits until the lane's streams are idle. Returns false if that cannot be observed.
  bool Drain(Lane* lane);
  // Declares the device lost and in doubt.
  void Doubt(const std::string& why);
  // The error for a driver's code; a fatal code means that the device is lost.
  Status Check(std::string_view call, int code);
  // Loads the gather and the checksum kernel, if the driver can.
  void LoadKernels();

  const std::shared_ptr<const GpuDriver> driver_;
  const int device_;
  const GpuContext context_;
  HostPins* const pins_;
  Settings settings_;
  int priority_ = 0;
  void* module_ = nullptr;
  void* gather_ = nullptr;
  void* hash_ = nullptr;

  Mutex mutex_;
  CondVar returned_;
  std::array<Lanes, kWays> lanes_ SPILLWAY_GUARDED_BY(mutex_);
  std::atomic<Bytes> overhead_{0};
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> in_doubt_{false};
  mutable Mutex lost_mutex_;
  std::string lost_ SPILLWAY_GUARDED_BY(lost_mutex_);
};

}  // namespace spillway
