// Copies of a GPU's memory: by its copy engines, on streams of our own for each
// direction, at low priority, so that a model that runs is not disturbed. Small
// scattered pieces are gathered on the device into staging memory and then
// travel as one. Every call returns when its bytes have arrived.
//
// 1. A source is read only after what its order names.
// 2. A buffer is used again only after the event that guards it.
// 3. Every wait has a bound; a copy that is not done by then has lost us the
//    device, and what it may still touch is never touched again.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/hash128.h"
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

  // As the gather kernel reads it.
  struct Piece {
    std::uint64_t to = 0;
    std::uint64_t from = 0;
    std::uint64_t bytes = 0;
  };

  struct Settings {
    // A copy's largest step. To the host: small enough that what has arrived is
    // still in the processor's cache when it is hashed. To the device: each step
    // costs the link some microseconds.
    Bytes segment = 4 * kMiB;
    Bytes segment_up = 32 * kMiB;
    Bytes stage = 32 * kMiB;                     // Gathered at once.
    Bytes gather_below = 256 * kKiB;             // Pieces smaller than this are gathered.
    std::size_t gather_from = 4;                 // If there are so many in a row.
    std::size_t hash_batch = 64;                 // Pieces hashed at once.
    Duration within = std::chrono::seconds(20);  // Longest wait without any progress.
  };

  GpuCopies(std::shared_ptr<const GpuDriver> driver, int device, GpuContext context, HostPins* pins,
            const Settings& settings);
  ~GpuCopies();
  GpuCopies(const GpuCopies&) = delete;
  GpuCopies& operator=(const GpuCopies&) = delete;

  // From the calling thread, which waits. `arrived` (may be empty): how many of
  // the first bytes are there; false: it is called off.
  // `hashes` (may be null; to the device only): see Device::CopyFromHost.
  Status Run(Way way, std::vector<Piece> pieces, const DeviceOrder& order,
             const std::function<bool(Bytes)>& arrived = {},
             std::vector<Hash128>* hashes = nullptr);

  // Zeros, by the copy engines' own means where the driver has them.
  Status Fill(GpuAddress at, Bytes bytes);

  // Empty as long as all is well.
  std::string lost() const;
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  void Lose(const std::string& why);
  // Something was begun whose end nobody will hear of: what it may touch, which
  // is all there is, is left alone for good. Implies that the device is lost.
  bool in_doubt() const { return in_doubt_.load(std::memory_order_acquire); }
  // Device memory taken for staging.
  Bytes overhead() const { return overhead_.load(std::memory_order_relaxed); }
  bool gathers() const { return gather_ != nullptr; }
  // See Settings. Before the first copy.
  void set_gather_below(Bytes bytes) { settings_.gather_below = bytes; }
  bool makes_hashes() const { return hash_ != nullptr; }

 private:
  static constexpr std::size_t kInFlight = 16;      // Segments.
  static constexpr std::size_t kStages = 2;         // Of gathered pieces.
  static constexpr std::size_t kLanesMax = 3;       // Copies at once, one way.
  static constexpr std::size_t kTableMax = 16384;   // Pieces gathered at once.
  static constexpr std::size_t kHashesMax = 32768;  // Of one value.

  // What one copy uses, and nobody else meanwhile.
  struct Lane {
    GpuStream stream = nullptr;
    GpuStream kernels = nullptr;  // Gathers, so that they overlap with copies.
    GpuEvent order = nullptr;
    std::array<GpuEvent, kInFlight> done{};
    // Memory of the host that the driver knows, for memory that it does not.
    std::array<std::byte*, kInFlight> bounce{};
    struct Stage {
      GpuAddress memory = 0;
      Piece* table = nullptr;
      GpuEvent gathered = nullptr;
      GpuEvent free = nullptr;  // Both its memory and its table can be used again.
      bool used = false;
    };
    std::array<Stage, kStages> stages;
    bool staged = false;
    // Host memory that kernels read and write: the keys, and what they make.
    std::uint64_t* hash_keys = nullptr;
    Hash128* hashes = nullptr;
  };
  struct Lanes {
    std::vector<std::unique_ptr<Lane>> free;
    std::size_t out = 0;
  };
  class Job;

  Result<std::unique_ptr<Lane>> Take(Way way);
  void Give(Way way, std::unique_ptr<Lane> lane, bool clean);
  Result<std::unique_ptr<Lane>> MakeLane();
  void Destroy(Lane* lane);
  // Whether it has memory to gather in, now.
  bool Stage(Lane* lane);
  bool Bounce(Lane* lane);
  bool HashRoom(Lane* lane);
  Bytes BounceBytes() const;
  Status Await(GpuEvent event);
  // Waits for whatever is on its streams. False: it can't be told.
  bool Drain(Lane* lane);
  void Doubt(const std::string& why);
  Status Check(std::string_view call, int code);
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

  std::mutex mutex_;
  std::condition_variable returned_;
  std::array<Lanes, kWays> lanes_;  // Guarded by mutex_.
  std::atomic<Bytes> overhead_{0};
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> in_doubt_{false};
  mutable std::mutex lost_mutex_;
  std::string lost_;  // Guarded by lost_mutex_.
};

}  // namespace spillway
