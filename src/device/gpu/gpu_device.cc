#include "device/gpu/gpu_device.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cctype>
#include <charconv>
#include <cstring>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/parse.h"
#include "device/host_copy.h"

namespace spillway {

namespace {

constexpr Bytes kChunkMax = 64 * kMiB;
constexpr Bytes kChunksInTier = 1024;
constexpr Bytes kStagesInCard = 256;
// A driver that says "not ready" is asked again: others are queueing work.
constexpr int kAccessTries = 64;
// In the place of a chunk's handle: the driver did not take it back.
constexpr GpuHandle kStuck = ~GpuHandle{0};

GpuAddress AddressOf(const void* at) { return reinterpret_cast<GpuAddress>(at); }

std::string UuidText(const std::array<unsigned char, 16>& bytes) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

Result<std::unique_ptr<GpuDevice>> GpuDevice::Open(const GpuDeviceOptions& options) {
  auto device = std::unique_ptr<GpuDevice>(new GpuDevice(options));
  auto driver = GpuDriver::Load(options.kind, options.libraries);
  if (!driver) return driver.error();
  device->driver_ = std::move(*driver);
  if (Status found = device->Find(); !found) return found.error();
  if (Status ready = device->Prepare(); !ready) return ready.error();
  return device;
}

Status GpuDevice::Find() {
  int count = 0;
  if (const int code = driver_->device_count(&count); code != 0) {
    return driver_->Failed("counting devices", code);
  }
  std::optional<int> number;
  int parsed = 0;
  const std::string& which = options_.which;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), parsed);
  if (which.empty()) {
    number = 0;
  } else if (error == std::errc() && end == which.data() + which.size()) {
    number = parsed;
  }
  std::vector<std::string> seen;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    std::array<unsigned char, 16> uuid{};
    std::array<char, 32> pci{};
    std::array<char, 128> model{};
    if (driver_->device_get(&device, ordinal) != 0) continue;
    if (driver_->uuid(uuid.data(), device) != 0) continue;
    driver_->pci_bus_id(pci.data(), static_cast<int>(pci.size()), device);
    driver_->device_name(model.data(), static_cast<int>(model.size()), device);
    pci.back() = model.back() = '\0';
    const std::string text = UuidText(uuid);
    seen.push_back(fmt::format("{} ({})", ordinal, text));
    const bool it =
        number ? *number == ordinal
               : text.starts_with(Lower(which)) || "gpu-" + Lower(which) == Lower(text) ||
                     Lower(text).starts_with(Lower(which)) || Lower(pci.data()) == Lower(which);
    if (!it) continue;
    device_ = device;
    uuid_ = text;
    pci_ = pci.data();
    model_ = model.data();
    name_ = fmt::format("{}:{}", Name(options_.kind), ordinal);
    return {};
  }
  if (seen.empty()) {
    return Error{Code::kUnavailable, fmt::format("{} knows no device", driver_->library)};
  }
  return Error{Code::kUnavailable, fmt::format("{} has no device '{}'; it has {}", driver_->library,
                                               which, fmt::join(seen, ", "))};
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
    return driver_->Failed("asking for its memory", code);
  }
  std::size_t granule = 0;
  const GpuMemoryKind kind = Kind();
  if (const int code = driver_->granularity(&granule, &kind, 0); code != 0 || granule == 0) {
    return driver_->Failed("virtual memory management", code);
  }
  // Large ones are returned faster, small ones come free sooner.
  const Bytes share = std::bit_floor(options_.capacity.value_or(total) / kChunksInTier);
  chunk_bytes_ = options_.chunk_bytes.value_or(
      std::clamp<Bytes>(share, granule, std::max<Bytes>(kChunkMax, granule)));
  if (!std::has_single_bit(chunk_bytes_) || chunk_bytes_ % granule != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("chunks of {} bytes do not fit {}: a power of two is needed that is a "
                             "multiple of {}",
                             chunk_bytes_, name_, FormatBytes(granule))};
  }
  total_ = total;
  pins_ = std::make_unique<HostPins>(driver_, device_, context_);
  // Staging stays small beside what it serves.
  GpuCopies::Settings copies = options_.copies;
  copies.stage = std::min(copies.stage, std::max<Bytes>(granule, total / kStagesInCard));
  copies_ = std::make_unique<GpuCopies>(driver_, device_, context_, pins_.get(), copies);
  return {};
}

GpuDevice::~GpuDevice() {
  assert(ranges_.empty());
  const bool in_doubt = copies_ != nullptr && copies_->in_doubt();
  copies_.reset();
  pins_.reset();
  // Not twice, whatever it answers: it counts, and others have their share in it.
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
    const Error failed = driver_->Failed("asking for its memory", code);
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
          .stuck = stuck_};
}

// --- chunks ---

Result<std::byte*> GpuDevice::ReserveRange(Bytes bytes) {
  assert(bytes % chunk_bytes_ == 0);
  if (copies_->is_lost()) return Error{Code::kUnavailable, lost()};
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return NotCurrent(scope.code());
  std::vector<GpuHandle> chunks(bytes / chunk_bytes_, 0);
  const std::unique_lock lock(ranges_mutex_);
  ranges_.reserve(ranges_.size() + 1);
  GpuAddress at = 0;
  int code = driver_->address_reserve(&at, bytes, chunk_bytes_, 0, 0);
  if (code == 0 && at % chunk_bytes_ != 0) {
    driver_->address_free(at, bytes);
    code = 1;
  }
  if (code != 0) return driver_->Failed("setting addresses aside", code);
  auto* const base = reinterpret_cast<std::byte*>(at);  // NOLINT(performance-no-int-to-ptr)
  ranges_.push_back({base, std::move(chunks)});
  return base;
}

void GpuDevice::ReleaseRange(std::byte* base, Bytes bytes) {
  bool whole = !copies_->in_doubt();
  {
    const std::unique_lock lock(ranges_mutex_);
    std::erase_if(ranges_, [&](const Range& range) {
      if (range.base != base) return false;
      for (const GpuHandle handle : range.chunks) {
        assert(handle == 0 || handle == kStuck);
        whole = whole && handle != kStuck;
      }
      return true;
    });
  }
  if (!whole) return;  // Addresses with something behind them are nobody else's.
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return;
  Insist([&] { return driver_->address_free(AddressOf(base), bytes); });
}

GpuDevice::Range* GpuDevice::RangeOf(const void* at) {
  const auto found = std::ranges::find_if(ranges_, [&](const Range& range) {
    return at >= range.base && at < range.base + range.chunks.size() * chunk_bytes_;
  });
  return found == ranges_.end() ? nullptr : &*found;
}

bool GpuDevice::Owns(const void* at) const {
  const std::shared_lock lock(ranges_mutex_);
  return const_cast<GpuDevice*>(this)->RangeOf(at) != nullptr;
}

// On the strand, which alone changes the ranges.
GpuHandle& GpuDevice::HandleAt(std::byte* at) {
  Range* const range = RangeOf(at);
  assert(range != nullptr);
  return range->chunks[static_cast<Bytes>(at - range->base) / chunk_bytes_];
}

Status GpuDevice::MapChunk(std::byte* at) {
  if (copies_->is_lost()) return Error{Code::kUnavailable, lost()};
  GpuHandle& handle = HandleAt(at);
  if (handle == kStuck) {
    return Error{Code::kNoMemory, "the driver did not take back what was at these addresses"};
  }
  assert(handle == 0);
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return NotCurrent(scope.code());
  const auto refuse = [&](std::string_view call, int code) -> Status {
    const Error failed = driver_->Failed(call, code);
    if (GpuDriver::IsFatal(code)) copies_->Lose(failed.message);
    // Whatever the reason, there is no chunk to be had now.
    return Error{copies_->is_lost() ? Code::kUnavailable : Code::kNoMemory, failed.message};
  };
  const GpuMemoryKind kind = Kind();
  GpuHandle created = 0;
  if (const int code = driver_->memory_create(&created, chunk_bytes_, &kind, 0); code != 0) {
    return refuse("cuMemCreate", code);
  }
  ++created_;
  const auto release = [&] {
    const int code = Insist([&] { return driver_->memory_release(created); });
    (code == 0 ? released_ : stuck_) += 1;
  };
  if (const int code = driver_->memory_map(AddressOf(at), chunk_bytes_, 0, created, 0); code != 0) {
    release();
    return refuse("cuMemMap", code);
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
    return refuse("cuMemSetAccess", code);
  }
  handle = created;
  held_ += chunk_bytes_;
  return {};
}

void GpuDevice::UnmapChunk(std::byte* at) {
  GpuHandle& handle = HandleAt(at);
  assert(handle != 0 && handle != kStuck);
  if (options_.zero_before_release && !copies_->is_lost()) Zero(at);
  const int code = copies_->in_doubt() ? kGpuNotReady : GiveBack(at, handle);
  (code == 0 ? released_ : stuck_) += 1;
  if (code != 0) {
    // The memory comes back with the end of the process; the addresses are not
    // used again, whatever is behind them.
    const std::string why = driver_->Failed("cuMemUnmap", code).message;
    if (!copies_->is_lost()) LogError("a chunk was not taken back: {}", why);
    if (GpuDriver::IsFatal(code)) copies_->Lose(why);
  }
  handle = code == 0 ? 0 : kStuck;
  held_ -= chunk_bytes_;
}

int GpuDevice::GiveBack(std::byte* at, GpuHandle handle) {
  const GpuScope scope(*driver_, device_, context_);
  if (scope.code() != 0) return scope.code();
  const int code = Insist([&] { return driver_->memory_unmap(AddressOf(at), chunk_bytes_); });
  if (code != 0) return code;
  return Insist([&] { return driver_->memory_release(handle); });
}

void GpuDevice::Zero(std::byte* at) {
  static_cast<void>(copies_->Fill(AddressOf(at), chunk_bytes_));
}

// --- copies ---

Status GpuDevice::CopyIn(std::byte* to, const Source& source) {
  const bool here = Owns(to);
  std::array<std::vector<GpuCopies::Piece>, GpuCopies::kWays> pieces;
  for (const Fragment& fragment : source.fragments()) {
    if (fragment.bytes == 0) continue;
    const bool from_device = fragment.place == Place::kDevice;
    if (!here && !from_device) {
      std::memcpy(to, fragment.data, fragment.bytes);
    } else {
      const auto way = !here         ? GpuCopies::Way::kToHost
                       : from_device ? GpuCopies::Way::kOnDevice
                                     : GpuCopies::Way::kToDevice;
      pieces[static_cast<std::size_t>(way)].push_back(
          {AddressOf(to), AddressOf(fragment.data), fragment.bytes});
    }
    to += fragment.bytes;
  }
  return RunAll(std::move(pieces), source.order());
}

Status GpuDevice::CopyOut(const std::byte* from, Bytes bytes, const Sink& sink) {
  const bool here = Owns(from);
  std::array<std::vector<GpuCopies::Piece>, GpuCopies::kWays> pieces;
  for (const MutableFragment& fragment : sink.fragments()) {
    const Bytes take = std::min(fragment.bytes, bytes);
    if (take == 0) continue;
    const bool to_device = fragment.place == Place::kDevice;
    if (!here && !to_device) {
      std::memcpy(fragment.data, from, take);
    } else {
      const auto way = !here       ? GpuCopies::Way::kToDevice
                       : to_device ? GpuCopies::Way::kOnDevice
                                   : GpuCopies::Way::kToHost;
      pieces[static_cast<std::size_t>(way)].push_back(
          {AddressOf(fragment.data), AddressOf(from), take});
    }
    from += take;
    bytes -= take;
  }
  assert(bytes == 0 && "the sink is smaller than the value");
  return RunAll(std::move(pieces), sink.order());
}

Status GpuDevice::RunAll(std::array<std::vector<GpuCopies::Piece>, GpuCopies::kWays> pieces,
                         const DeviceOrder& order) {
  for (std::size_t way = 0; way < pieces.size(); ++way) {
    if (pieces[way].empty()) continue;
    Status ok = copies_->Run(static_cast<GpuCopies::Way>(way), std::move(pieces[way]), order);
    if (!ok) return ok;
  }
  return {};
}

Status GpuDevice::CopyToHost(const std::byte* from, Bytes bytes, std::byte* to,
                             const std::function<bool(Bytes)>& arrived) {
  return copies_->Run(GpuCopies::Way::kToHost, {{AddressOf(to), AddressOf(from), bytes}}, {},
                      arrived);
}

Status GpuDevice::CopyFromHost(std::byte* to, const std::byte* from, Bytes bytes,
                               const std::function<bool(Bytes)>& arrived,
                               std::vector<Hash128>* hashes) {
  return copies_->Run(GpuCopies::Way::kToDevice, {{AddressOf(to), AddressOf(from), bytes}}, {},
                      arrived, hashes);
}

}  // namespace spillway
