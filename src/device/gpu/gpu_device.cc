// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/parse.h"

namespace spillway {

namespace {

constexpr Bytes kChunkMax = 64 * kMiB;
constexpr Bytes kChunksInTier = 1024;
constexpr Bytes kStagesInCard = 256;
constexpr Bytes kTrialsInCard = 1024;  // A trial of copies takes at most this part of the card.
constexpr Bytes kTrialMax = 16 * kMiB;
constexpr Bytes kSlabGranule = 2 * kMiB;
constexpr int kTrials = 3;
// A driver that returns "not ready" is asked again: other threads are queueing work.
constexpr int kAccessTries = 64;
// Stored instead of a chunk's handle when the driver did not take the chunk back.
constexpr GpuHandle kStuck = ~GpuHandle{0};

// Addresses of this process without memory, used as names of chunks that have
// other addresses.
Result<GpuAddress> TakeNames(Bytes bytes, Bytes align) {
  void* const all =
      ::mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) {
    return Error{Code::kNoMemory, fmt::format("reserving addresses: {}", std::strerror(errno))};
  }
  const GpuAddress from = AddressOf(all);
  const GpuAddress at = (from + align - 1) / align * align;
  auto* const first = static_cast<std::byte*>(all);
  if (at > from) ::munmap(first, at - from);
  ::munmap(first + (at - from) + bytes, align - (at - from));
  return at;
}

}  // namespace

Result<std::unique_ptr<GpuDevice>> GpuDevice::Open(const GpuDeviceOptions& options) {
  auto device = std::unique_ptr<GpuDevice>(new GpuDevice(options));
  auto driver = GpuDriver::Load(options.kind, options.libraries);
  if (!driver) return driver.error();
  device->driver_ = std::move(*driver);
  Result<GpuFacts> found = FindGpu(*device->driver_, options.which);
  if (!found) return found.error();
  device->device_ = found->device;
  device->facts_ = std::move(*found);
  if (Status ready = device->Prepare(); !ready) return ready.error();
  return device;
}

GpuMemoryKind GpuDevice::Kind() const {
  GpuMemoryKind kind;
  kind.location = {1, device_};
  return kind;
}

Status GpuDevice::Prepare() {
  if (driver_->kind == GpuKind::kCuda) {
    if (const int code = driver_->context_retain(&context_, device_); code != 0) {
      return driver_->Failed("cuDevicePrimaryCtxRetain", code);
    }
    retained_ = true;
  }
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return driver_->Failed("making the device current", scope.code());
  std::size_t free = 0;
  std::size_t total = 0;
  if (const int code = driver_->memory_info(&free, &total); code != 0) {
    return driver_->Failed("reading its free memory", code);
  }
  std::size_t granule = kSlabGranule;
  const GpuMemoryKind kind = Kind();
  if (driver_->has_vmm()) {
    const int code = driver_->granularity(&granule, &kind, 0);
    if ((code != 0 || granule == 0) && driver_->kind == GpuKind::kCuda) {
      return driver_->Failed("virtual memory management", code);
    }
    if (code != 0 || granule == 0) {
      granule = kSlabGranule;
      why_slabs_ = driver_->Failed("virtual memory management", code).message;
    }
  }
  granule_ = granule;
  // Large chunks are returned faster, small ones become empty sooner.
  const Bytes share = std::bit_floor(options_.capacity.value_or(total) / kChunksInTier);
  chunk_bytes_ = options_.chunk_bytes.value_or(
      std::clamp<Bytes>(share, granule, std::max<Bytes>(kChunkMax, granule)));
  if (!std::has_single_bit(chunk_bytes_) || chunk_bytes_ % granule != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("chunks of {} bytes do not fit {}: a power of two is needed that is a "
                             "multiple of {}",
                             chunk_bytes_, facts_.name, FormatBytes(granule))};
  }
  total_ = total;
  if (Status chosen = ChooseMemory(); !chosen) return chosen;
  pins_ = std::make_unique<HostPins>(driver_, device_, context_);
  // Staging memory stays small in relation to the card.
  GpuCopies::Settings copies = options_.copies;
  copies.stage = std::min(copies.stage, std::max<Bytes>(granule, total / kStagesInCard));
  copies_ = std::make_unique<GpuCopies>(driver_, device_, context_, pins_.get(), copies);
  return {};
}

VmmTrial GpuDevice::TryVmm(Duration within) const {
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() == 0) return spillway::TryVmm(*driver_, device_, chunk_bytes_, within);
  VmmTrial none;
  none.broken = true;
  none.why_not = driver_->Failed("making the device current", scope.code()).message;
  return none;
}

Result<CopyTrial> GpuDevice::TryCopies() const {
  const Bytes most =
      std::clamp<Bytes>(std::bit_floor(total_ / kTrialsInCard), 256 * kKiB, kTrialMax);
  return spillway::TryCopies(driver_, device_, context_, pins_.get(), options_.copies, most);
}

// The smallest chunks show whether memory is really returned, and cost little
// if it is not. The chunk size in use shows whether the driver accepts it.
Status GpuDevice::ChooseMemory() {
  using Memory = GpuDeviceOptions::Memory;
  const bool sure = options_.memory == Memory::kVmm ||
                    (options_.memory == Memory::kAuto && driver_->kind == GpuKind::kCuda);
  if (sure) return {};
  if (options_.memory == Memory::kSlabs) why_slabs_ = "slabs were asked for";
  for (const Bytes chunk : {granule_, chunk_bytes_}) {
    VmmTrial trial;
    for (int tried = 0; why_slabs_.empty() && tried < kTrials && !trial.good; ++tried) {
      trial = spillway::TryVmm(*driver_, device_, chunk, options_.copies.within);
      if (trial.broken) return Error{Code::kUnavailable, trial.why_not};
      // Other processes allocate and free meanwhile, so one failure proves nothing.
      if (trial.no_memory && chunk > granule_) break;
    }
    if (!trial.good && !(trial.no_memory && chunk > granule_) && why_slabs_.empty()) {
      why_slabs_ = trial.why_not;
    }
  }
  if (why_slabs_.empty()) return {};
  slabs_ = true;
  LogWarning("{}: memory is allocated as slabs, and returning it waits for running kernels: {}",
             name(), why_slabs_);
  return {};
}

GpuDevice::~GpuDevice() {
  assert(ranges_.empty());
  const bool in_doubt = copies_ != nullptr && copies_->in_doubt();
  copies_.reset();
  pins_.reset();
  // Only once, whatever the result: contexts are counted, and other code has a share.
  if (retained_ && !in_doubt) driver_->context_release(device_);
}

Error GpuDevice::NotCurrent(int code) {
  Error failed = driver_->Failed("making the device current", code);
  if (GpuDriver::IsFatal(code)) copies_->Lose(failed.message);
  return failed;
}

Result<Reading> GpuDevice::ReadMemory() {
  if (copies_->is_lost()) return Error{Code::kUnavailable, lost()};
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return NotCurrent(scope.code());
  std::size_t free = 0;
  std::size_t total = 0;
  const Bytes before = held_;
  if (const int code = driver_->memory_info(&free, &total); code != 0) {
    const Error failed = driver_->Failed("reading its free memory", code);
    if (GpuDriver::IsFatal(code)) copies_->Lose(failed.message);
    return failed;
  }
  return Reading{.total = total, .free = free, .scope = Scope::kCard, .held = (before + held_) / 2};
}

GpuDevice::Ledger GpuDevice::ledger() const {
  return {.held = held_,
          .staging = copies_->overhead(),
          .created = created_,
          .released = released_,
          .stuck = stuck_,
          .unzeroed = unzeroed_};
}

// --- chunks ---

Result<std::byte*> GpuDevice::ReserveRange(Bytes bytes) {
  assert(bytes % chunk_bytes_ == 0);
  if (copies_->is_lost()) return Error{Code::kUnavailable, lost()};
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return NotCurrent(scope.code());
  std::vector<GpuHandle> chunks(bytes / chunk_bytes_, 0);
  const WriterLock lock(ranges_mutex_);
  ranges_.reserve(ranges_.size() + 1);
  const Result<GpuAddress> at = TakeAddresses(bytes);
  if (!at) return at.error();
  auto* const base = reinterpret_cast<std::byte*>(*at);  // NOLINT(performance-no-int-to-ptr)
  ranges_.push_back({base, std::move(chunks)});
  return base;
}

Result<GpuAddress> GpuDevice::TakeAddresses(Bytes bytes) {
  if (slabs_) return TakeNames(bytes, chunk_bytes_);
  GpuAddress at = 0;
  int code = driver_->address_reserve(&at, bytes, chunk_bytes_, 0, 0);
  if (code == 0 && at % chunk_bytes_ != 0) {
    driver_->address_free(at, bytes);
    code = 1;
  }
  if (code != 0) return driver_->Failed("reserving addresses", code);
  return at;
}

void GpuDevice::GiveAddresses(std::byte* base, Bytes bytes) {
  if (slabs_) {
    ::munmap(base, bytes);
    return;
  }
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return;
  Insist([&] { return driver_->address_free(AddressOf(base), bytes); });
}

void GpuDevice::ReleaseRange(std::byte* base, Bytes bytes) {
  bool whole = !copies_->in_doubt();
  {
    const WriterLock lock(ranges_mutex_);
    std::erase_if(ranges_, [&](const Range& range) {
      if (range.base != base) return false;
      for (const GpuHandle handle : range.chunks) {
        assert(handle == 0 || handle == kStuck);
        whole = whole && handle != kStuck;
      }
      return true;
    });
  }
  if (!whole) return;  // Addresses that still have memory behind them must not be reused.
  GiveAddresses(base, bytes);
}

GpuDevice::Range* GpuDevice::RangeOf(const void* at) {
  const auto found = std::ranges::find_if(ranges_, [&](const Range& range) {
    return at >= range.base && at < range.base + range.chunks.size() * chunk_bytes_;
  });
  return found == ranges_.end() ? nullptr : &*found;
}

bool GpuDevice::Owns(const void* at) const {
  const ReaderLock lock(ranges_mutex_);
  return const_cast<GpuDevice*>(this)->RangeOf(at) != nullptr;
}

GpuHandle& GpuDevice::HandleAt(std::byte* at) {
  Range* const range = RangeOf(at);
  assert(range != nullptr);
  return range->chunks[static_cast<Bytes>(at - range->base) / chunk_bytes_];
}

Status GpuDevice::Refuse(std::string_view call, int code) {
  const Error failed = driver_->Failed(call, code);
  if (GpuDriver::IsFatal(code)) copies_->Lose(failed.message);
  // Whatever the reason, no chunk can be had now.
  return Error{copies_->is_lost() ? Code::kUnavailable : Code::kNoMemory, failed.message};
}

Status GpuDevice::MapSlab(GpuHandle* handle) {
  GpuAddress slab = 0;
  if (const int code = driver_->memory_alloc(&slab, chunk_bytes_); code != 0) {
    return Refuse("hipMalloc", code);
  }
  ++created_;
  *handle = slab;
  held_ += chunk_bytes_;
  return {};
}

Status GpuDevice::MapChunk(std::byte* at) {
  if (copies_->is_lost()) return Error{Code::kUnavailable, lost()};
  GpuHandle& handle = HandleAt(at);
  if (handle == kStuck) {
    return Error{Code::kNoMemory, "the driver did not take back the chunk at these addresses"};
  }
  assert(handle == 0);
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return NotCurrent(scope.code());
  if (slabs_) return MapSlab(&handle);
  const GpuMemoryKind kind = Kind();
  GpuHandle created = 0;
  if (const int code = driver_->memory_create(&created, chunk_bytes_, &kind, 0); code != 0) {
    return Refuse("cuMemCreate", code);
  }
  ++created_;
  const auto release = [&] {
    const int code = Insist([&] { return driver_->memory_release(created); });
    (code == 0 ? released_ : stuck_) += 1;
  };
  if (const int code = driver_->memory_map(AddressOf(at), chunk_bytes_, 0, created, 0); code != 0) {
    release();
    return Refuse("cuMemMap", code);
  }
  GpuAccess access;
  access.location = {1, device_};
  int code = kGpuNotReady;
  for (int i = 0; i < kAccessTries && code == kGpuNotReady; ++i) {
    code = driver_->memory_access(AddressOf(at), chunk_bytes_, &access, 1);
  }
  if (code != 0) {
    if (Insist([&] { return driver_->memory_unmap(AddressOf(at), chunk_bytes_); }) == 0) {
      release();
    } else {
      handle = kStuck;
      ++stuck_;
    }
    return Refuse("cuMemSetAccess", code);
  }
  handle = created;
  held_ += chunk_bytes_;
  return {};
}

void GpuDevice::UnmapChunk(std::byte* at) {
  GpuHandle& handle = HandleAt(at);
  assert(handle != 0 && handle != kStuck);
  if (options_.zero_before_release && !copies_->is_lost()) {
    if (const Status zeroed = Zero(at, chunk_bytes_); !zeroed) {
      ++unzeroed_;
      LogWarning("{}: a chunk is returned without being zeroed: {}", name(),
                 zeroed.error().message);
    }
  }
  const int code = copies_->in_doubt() ? kGpuNotReady : GiveBack(at, handle);
  (code == 0 ? released_ : stuck_) += 1;
  if (code != 0) {
    // The memory is freed when the process ends. The addresses are not used
    // again, since the chunk may still be behind them.
    const std::string why = driver_->Failed("cuMemUnmap", code).message;
    if (!copies_->is_lost()) LogError("the driver did not take a chunk back: {}", why);
    if (GpuDriver::IsFatal(code)) copies_->Lose(why);
  }
  handle = code == 0 ? 0 : kStuck;
  held_ -= chunk_bytes_;
}

int GpuDevice::GiveBack(std::byte* at, GpuHandle handle) {
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return scope.code();
  if (slabs_) return Insist([&] { return driver_->memory_free(handle); });
  const int code = Insist([&] { return driver_->memory_unmap(AddressOf(at), chunk_bytes_); });
  if (code != 0) return code;
  return Insist([&] { return driver_->memory_release(handle); });
}

}  // namespace spillway
