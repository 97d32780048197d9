// SPDX-License-Identifier: Apache-2.0
// A GPU's memory by virtual memory management: addresses are reserved once, and
// chunks of physical memory are created, mapped and released one by one.
// Returning a chunk waits for nothing: not for kernels, and not for copies,
// since no copy uses a chunk that is being returned. Chunks are created
// exportable, though nothing is exported.
//
// Or by slabs, if a trial at open shows that an AMD driver does virtual memory
// management wrong. A chunk is then a plain allocation, the addresses of a
// range are names that only this class understands, and returning a chunk waits
// for the device's kernels (docs/design/gpu-memory.md).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"
#include "device/gpu/copy_trial.h"
#include "device/gpu/gpu_copies.h"
#include "device/gpu/gpu_driver.h"
#include "device/gpu/gpu_list.h"
#include "device/gpu/host_pins.h"
#include "device/gpu/vmm_trial.h"

namespace spillway {

struct GpuDeviceOptions {
  GpuKind kind = GpuKind::kCuda;
  // Its number, its UUID (or the beginning of it, including "GPU-") or its PCI
  // address. Empty: the first GPU.
  std::string which = {};
  std::vector<std::string> libraries = {};
  // A power of two and a multiple of the driver's granularity. Empty: about
  // 1,000 to a tier of `capacity`, at most 64 MiB each.
  std::optional<Bytes> chunk_bytes = {};
  std::optional<Bytes> capacity = {};  // Empty: the whole card.
  // How chunks are allocated. kAuto: virtual memory management; with HIP only
  // if a trial shows that it works.
  enum class Memory : std::uint8_t { kAuto, kVmm, kSlabs };
  Memory memory = Memory::kAuto;
  // Zeroes each chunk before it is returned, for drivers that hand out memory
  // with its old contents.
  bool zero_before_release = false;
  GpuCopies::Settings copies = {};
};

class GpuDevice final : public Device {
 public:
  // Unavailable, with the reason: no library, no such device, or a device that
  // cannot do this.
  static Result<std::unique_ptr<GpuDevice>> Open(const GpuDeviceOptions& options);
  // All ranges must have been released.
  ~GpuDevice() override;

  std::string_view name() const override { return facts_.name; }  // "cuda:0"
  std::string_view id() const override { return facts_.uuid; }
  const std::string& model() const { return facts_.model; }
  const std::string& pci() const { return facts_.pci; }
  const GpuDriver& driver() const { return *driver_; }
  Bytes total() const override { return total_; }
  bool shared() const override { return true; }
  bool host_readable() const override { return false; }
  bool is_lost() const override { return copies_->is_lost(); }
  bool in_doubt() const override { return copies_->in_doubt(); }
  Bytes chunk_bytes() const override { return chunk_bytes_; }
  Result<Reading> ReadMemory() override;

  Result<std::byte*> ReserveRange(Bytes bytes) override;
  void ReleaseRange(std::byte* base, Bytes bytes) override;
  Status MapChunk(std::byte* at) override;
  void UnmapChunk(std::byte* at) override;

  // `to` and `from` may also be host memory: the device knows its own addresses.
  Status CopyIn(std::byte* to, const Source& source) override;
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override;
  Status CopyToHost(const std::byte* from, Bytes bytes, std::byte* to,
                    const std::function<bool(Bytes)>& arrived) override;
  Status CopyFromHost(std::byte* to, const std::byte* from, Bytes bytes,
                      const std::function<bool(Bytes)>& arrived,
                      std::vector<Hash128>* hashes) override;
  bool makes_hashes() const override { return !slabs_ && copies_->makes_hashes(); }
  bool has_addresses() const override { return !slabs_; }

  // Writes zeros to mapped memory on the copies' own streams, so it does not
  // wait for kernels of others. Complete on return.
  Status Zero(std::byte* at, Bytes bytes);
  // Whether the address is in a range of this device. Any thread.
  bool Owns(const void* at) const;
  // Registers host memory with the driver, so that copies from and to it are direct.
  ChunkListener* pins() { return pins_.get(); }
  Bytes registered() const { return pins_->registered(); }

  // Counters of chunks and bytes. Any thread.
  struct Ledger {
    Bytes held = 0;              // Mapped now.
    Bytes staging = 0;           // Taken for copies, in addition.
    std::uint64_t created = 0;   // Chunks.
    std::uint64_t released = 0;  // Chunks.
    std::uint64_t stuck = 0;     // Chunks that the driver did not take back.
    std::uint64_t unzeroed = 0;  // Chunks that should have been zeroed before release but were not.
  };
  Ledger ledger() const;
  // Empty while the device works.
  std::string lost() const { return copies_->lost(); }
  // Why chunks are plain allocations; empty: they are not.
  const std::string& why_slabs() const { return why_slabs_; }
  Bytes granularity() const { return granule_; }
  // Runs a trial of the driver's virtual memory calls now (vmm_trial.h).
  VmmTrial TryVmm(Duration within) const;
  // Runs a trial now of the fastest way to copy scattered pieces
  // (copy_trial.h). set_gather_below applies its result, before the first copy.
  Result<CopyTrial> TryCopies() const;
  void set_gather_below(Bytes bytes) { copies_->set_gather_below(bytes); }
  // Whether the kernel that gathers scattered pieces has been loaded.
  bool gathers() const { return copies_->gathers(); }
  // Call it before the first chunk is mapped; see GpuDeviceOptions.
  void set_zero_before_release(bool zero) { options_.zero_before_release = zero; }
  bool zero_before_release() const { return options_.zero_before_release; }

 private:
  struct Range {
    std::byte* base = nullptr;
    // By chunk: a handle, or the address of a slab. 0: nothing; all bits set: stuck.
    std::vector<GpuHandle> chunks;
  };
  // An address that the driver understands, and how many bytes follow it contiguously.
  struct Stretch {
    GpuAddress at = 0;
    Bytes bytes = 0;
  };

  explicit GpuDevice(const GpuDeviceOptions& options) : options_(options) {}
  // The steps of Open: make the device current, choose the chunk size, choose
  // between virtual memory management and slabs.
  Status Prepare();
  Status ChooseMemory();
  // Reserves and releases addresses: of the driver, or with slabs of this process.
  Result<GpuAddress> TakeAddresses(Bytes bytes);
  void GiveAddresses(std::byte* base, Bytes bytes);
  // MapChunk with slabs: a plain allocation.
  Status MapSlab(GpuHandle* handle);
  // The error of a failed MapChunk: Unavailable if the device is lost,
  // otherwise NoMemory.
  Status Refuse(std::string_view call, int code);
  // Replaces names of slab memory by the driver's addresses; all other addresses stay.
  std::vector<GpuCopies::Piece> Real(std::vector<GpuCopies::Piece> pieces) const;
  Stretch RealAt(GpuAddress at, Bytes bytes) const SPILLWAY_REQUIRES_SHARED(ranges_mutex_);
  Range* RangeOf(const void* at) SPILLWAY_REQUIRES_SHARED(ranges_mutex_);
  // The handle of the chunk at this address. Strand only: the strand alone changes the
  // ranges, so it reads them without the lock.
  GpuHandle& HandleAt(std::byte* at) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS;
  Error NotCurrent(int code);
  // Returns 0 or the driver's code.
  int GiveBack(std::byte* at, GpuHandle handle);
  // Runs the copies of each direction, one direction after the other.
  Status RunAll(std::array<std::vector<GpuCopies::Piece>, GpuCopies::kWays> pieces,
                const DeviceOrder& order);
  GpuMemoryKind Kind() const;

  GpuDeviceOptions options_;
  std::shared_ptr<const GpuDriver> driver_;
  int device_ = 0;
  GpuContext context_ = nullptr;
  bool retained_ = false;
  GpuFacts facts_;
  Bytes total_ = 0;
  Bytes chunk_bytes_ = 0;
  Bytes granule_ = 0;
  bool slabs_ = false;
  std::string why_slabs_;
  std::unique_ptr<HostPins> pins_;
  std::unique_ptr<GpuCopies> copies_;

  mutable SharedMutex ranges_mutex_;
  // Changed on the strand, read anywhere.
  std::vector<Range> ranges_ SPILLWAY_GUARDED_BY(ranges_mutex_);
  std::atomic<Bytes> held_{0};
  std::atomic<std::uint64_t> created_{0};
  std::atomic<std::uint64_t> released_{0};
  std::atomic<std::uint64_t> stuck_{0};
  std::atomic<std::uint64_t> unzeroed_{0};
};

}  // namespace spillway
