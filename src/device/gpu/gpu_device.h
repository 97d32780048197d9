// A GPU's memory by virtual memory management: addresses set aside once, chunks
// of physical memory created, mapped and released one by one. Returning a chunk
// waits for nothing: not for kernels, not for copies, since nobody copies what
// is being returned. Chunks are created exportable, though nothing is exported.
//
// Or by slabs, where a trial at open shows that an AMD driver gets that wrong: a
// chunk is then a plain allocation, the addresses of a range are names that only
// this class understands, and returning a chunk waits for the device's kernels
// (docs/design/gpu-memory.md).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

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
  // Its number, its UUID (or the beginning of it, "GPU-" included) or its PCI
  // address. Empty: the first.
  std::string which = {};
  std::vector<std::string> libraries = {};
  // A power of two and a multiple of the driver's granularity. Empty: about 1,000
  // to a tier of `capacity`, at most 64 MiB each.
  std::optional<Bytes> chunk_bytes = {};
  std::optional<Bytes> capacity = {};  // Empty: the whole card.
  // How chunks are had. By itself: virtual memory management; with HIP a trial says
  // whether it works.
  enum class Memory : std::uint8_t { kAuto, kVmm, kSlabs };
  Memory memory = Memory::kAuto;
  // Every chunk is zeroed before it is returned, where a driver hands out what
  // the last one left in it.
  bool zero_before_release = false;
  GpuCopies::Settings copies = {};
};

class GpuDevice final : public Device {
 public:
  // Unavailable: no library, no such device, or one that cannot do this, and why.
  static Result<std::unique_ptr<GpuDevice>> Open(const GpuDeviceOptions& options);
  // Every range must have been released.
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

  // `to` and `from` may be memory of the host, too: the device knows its own.
  Status CopyIn(std::byte* to, const Source& source) override;
  Status CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) override;
  Status CopyToHost(const std::byte* from, Bytes bytes, std::byte* to,
                    const std::function<bool(Bytes)>& arrived) override;
  Status CopyFromHost(std::byte* to, const std::byte* from, Bytes bytes,
                      const std::function<bool(Bytes)>& arrived,
                      std::vector<Hash128>* hashes) override;
  bool makes_hashes() const override { return !slabs_ && copies_->makes_hashes(); }
  bool has_addresses() const override { return !slabs_; }

  // Writes zeros to mapped memory, by the copies' own streams: it waits for no
  // kernel of others. Done when it returns.
  Status Zero(std::byte* at, Bytes bytes);
  // Whether it is an address in a range of this device. Any thread.
  bool Owns(const void* at) const;
  // Tells the driver of host memory, so that copies to and from it are direct.
  ChunkListener* pins() { return pins_.get(); }
  Bytes registered() const { return pins_->registered(); }

  // The ledger. Any thread.
  struct Ledger {
    Bytes held = 0;              // Mapped now.
    Bytes staging = 0;           // Taken for copies, besides.
    std::uint64_t created = 0;   // Chunks.
    std::uint64_t released = 0;  // Chunks.
    std::uint64_t stuck = 0;     // Chunks that the driver did not take back.
    std::uint64_t unzeroed = 0;  // Chunks that should have been zeroed, and were not.
  };
  Ledger ledger() const;
  // Empty as long as all is well.
  std::string lost() const { return copies_->lost(); }
  // Whether chunks are plain allocations, and why. Empty: they are not.
  const std::string& why_slabs() const { return why_slabs_; }
  Bytes granularity() const { return granule_; }
  // A trial now, of the driver's own calls (vmm_trial.h).
  VmmTrial TryVmm(Duration within) const;
  // A trial now, of how scattered pieces travel best (copy_trial.h), and what came of
  // one, before the first copy.
  Result<CopyTrial> TryCopies() const;
  void set_gather_below(Bytes bytes) { copies_->set_gather_below(bytes); }
  // Whether the kernel that gathers scattered pieces has been loaded.
  bool gathers() const { return copies_->gathers(); }
  // Before the first chunk is mapped: see GpuDeviceOptions.
  void set_zero_before_release(bool zero) { options_.zero_before_release = zero; }
  bool zero_before_release() const { return options_.zero_before_release; }

 private:
  struct Range {
    std::byte* base = nullptr;
    // What is there: a handle, or the address of a slab. 0: nothing; all bits: stuck.
    std::vector<GpuHandle> chunks;
  };
  // An address of the driver's, and how much follows there in a row.
  struct Stretch {
    GpuAddress at = 0;
    Bytes bytes = 0;
  };

  explicit GpuDevice(const GpuDeviceOptions& options) : options_(options) {}
  Status Prepare();
  Status ChooseMemory();
  Result<GpuAddress> TakeAddresses(Bytes bytes);
  void GiveAddresses(std::byte* base, Bytes bytes);
  Status MapSlab(GpuHandle* handle);
  Status Refuse(std::string_view call, int code);
  // By the driver's addresses: as they are, but for slabs.
  std::vector<GpuCopies::Piece> Real(std::vector<GpuCopies::Piece> pieces) const;
  Stretch RealAt(GpuAddress at, Bytes bytes) const;
  Range* RangeOf(const void* at);
  GpuHandle& HandleAt(std::byte* at);
  Error NotCurrent(int code);
  // 0, or the driver's code.
  int GiveBack(std::byte* at, GpuHandle handle);
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

  mutable std::shared_mutex ranges_mutex_;
  std::vector<Range> ranges_;  // Changed on the strand under the mutex, read anywhere.
  std::atomic<Bytes> held_{0};
  std::atomic<std::uint64_t> created_{0};
  std::atomic<std::uint64_t> released_{0};
  std::atomic<std::uint64_t> stuck_{0};
  std::atomic<std::uint64_t> unzeroed_{0};
};

}  // namespace spillway
