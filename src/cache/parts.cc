// SPDX-License-Identifier: Apache-2.0
#include "cache/parts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/parse.h"
#include "cache/capacity_checks.h"
#include "cache/disk_room_source.h"
#include "cache/part_source.h"
#include "device/cpu/card_source.h"
#include "device/cpu/cpu_device.h"
#include "device/gpu/gpu_device.h"
#include "device/gpu/gpu_list.h"
#include "device/gpu/gpu_record.h"
#include "device/host/host_pool.h"
#include "monitor/bounded_read.h"
#include "monitor/open_gpu.h"
#include "monitor/source/kind.h"
#include "tier/arena_tier.h"
#include "tier/disk/disk_store.h"

namespace spillway {

namespace {

constexpr Bytes kTiB = 1024 * kGiB;
constexpr Bytes kPageBytes = 4096;
constexpr Bytes kDiskMin = kMiB;

// A driver that does not answer in this time is not used.
constexpr Duration kOpenWithin = std::chrono::seconds(10);

using SourceResult = Result<std::shared_ptr<PressureSource>>;

// An error of the source names the setting it came from.
SourceResult Of(std::string_view setting, SourceResult source) {
  if (source) return source;
  return Error{source.error().code, fmt::format("{}: {}", setting, source.error().message)};
}

// Sources that only pressure_source knows.
constexpr std::array<std::string_view, 2> kOfTheDevice = {"auto", "part"};

// A source by name; `setting` is where the name came from.
SourceResult OpenNamed(std::string_view setting, const std::string& spec,
                       std::span<const std::string_view> besides = {}) {
  if (PartSource::IsSpec(spec)) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("{}: 'part' is a part of the device: only pressure_source takes it", setting)};
  }
  std::optional<SourceResult> opened = RunBounded(kOpenWithin, [spec, besides] {
    return OpenSource(spec, Machine::FromEnvironment(), besides);
  });
  if (!opened) {
    return Error{Code::kUnavailable, fmt::format("{} '{}': no answer within {} s", setting, spec,
                                                 kOpenWithin / std::chrono::seconds(1))};
  }
  return Of(setting, std::move(*opened));
}

SourceResult OpenPressure(const Options& options, std::shared_ptr<Device> device) {
  constexpr std::string_view kSetting = "pressure_source";
  if (options.pressure) return options.pressure;
  const bool part = PartSource::IsSpec(options.pressure_source);
  if (options.pressure_source != "auto" && !part) {
    return OpenNamed(kSetting, options.pressure_source, kOfTheDevice);
  }
  auto whole = std::make_shared<CardSource>(std::move(device), options.card);
  if (!part) return std::shared_ptr<PressureSource>(std::move(whole));
  return Of(kSetting, PartSource::Open(options.pressure_source, std::move(whole)));
}

Status OpenHost(const Options& options, const Seams& seams, Core::Parts* parts) {
  HostPoolOptions pool_options;
  pool_options.capacity = *options.host_capacity;
  if (auto* const gpu = dynamic_cast<GpuDevice*>(parts->device.get()); gpu != nullptr) {
    pool_options.listener = gpu->pins();
    pool_options.eager = true;
  }
  auto pool = HostPool::Open(pool_options);
  if (!pool) return pool.error();
  parts->host = std::move(*pool);
  if (Status ok = CheckAgainstDevice("host_capacity", *options.host_capacity, *parts->host); !ok) {
    return ok;
  }
  if (seams.around_device) parts->host = seams.around_device(std::move(parts->host));
  ArenaTierOptions tier_options;
  tier_options.name = "host";
  tier_options.capacity = options.host_capacity;
  tier_options.granule_min = kPageBytes;
  auto tier = ArenaTier::Open(parts->host.get(), tier_options);
  if (!tier) return tier.error();
  parts->tiers.host = std::move(*tier);
  SourceResult source = options.host_pressure
                            ? SourceResult(options.host_pressure)
                            : OpenNamed("host_pressure_source", options.host_pressure_source);
  if (!source) return source.error();
  parts->pressure[IndexOf(TierId::kHost)] = std::move(*source);
  return {};
}

// A quarter of the free space there, at most 256 GiB.
Result<Bytes> DefaultDiskCapacity(const std::string& dir) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(dir, error);
  while (!at.empty() && at.has_relative_path() && !std::filesystem::exists(at, error)) {
    at = at.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(at, error);
  if (error) {
    return Error{Code::kUnavailable, fmt::format("disk_dir '{}': {}", dir, error.message())};
  }
  const Bytes quarter = std::min<Bytes>(space.available / 4, 256 * kGiB);
  if (quarter < kDiskMin) {
    return Error{Code::kInvalidArgument,
                 fmt::format("disk_dir '{}': its file system has {} free, and a quarter of that is "
                             "too little; name a folder elsewhere, or set disk_capacity",
                             dir, FormatBytes(space.available))};
  }
  return quarter;
}

Status OpenDisk(const Options& options, const Seams& seams, Core::Parts* parts) {
  DiskOptions disk;
  disk.files = seams.files;
  disk.directory = options.disk_dir;
  disk.clock = options.clock;
  // Files of a test have whatever room they claim.
  if (Status ok = seams.files == nullptr ? CheckAgainstDisk(options) : Status(); !ok) return ok;
  if (options.disk_capacity) {
    disk.quota = *options.disk_capacity;
  } else {
    Result<Bytes> quota = DefaultDiskCapacity(options.disk_dir);
    if (!quota) return quota.error();
    disk.quota = *quota;
  }
  auto store = DiskStore::Open(disk);
  if (!store) return store.error();
  parts->tiers.disk = std::move(*store);
  SourceResult source = options.disk_pressure;
  if (!options.disk_pressure) {
    source = options.disk_pressure_source == "auto"
                 ? SourceResult(std::make_shared<DiskRoomSource>(options.disk_dir))
                 : OpenNamed("disk_pressure_source", options.disk_pressure_source);
  }
  if (!source) return source.error();
  parts->pressure[IndexOf(TierId::kDisk)] = std::move(*source);
  return {};
}

// The record of this driver decides, unless the setting does.
void DecideZeroing(const std::string& setting, const Machine& machine, GpuDevice* gpu) {
  bool zero = setting == "always";
  if (setting == "auto") {
    const std::string version = VersionText(gpu->driver(), machine.proc, machine.sys);
    const std::optional<GpuRecord> record =
        ReadGpuRecord(std::string(gpu->id()), std::string(Name(gpu->driver().kind)), version);
    zero = record && record->stale();
    if (zero) {
      LogInfo(
          "{}: memory is zeroed before it is released: driver {} was found to hand out memory "
          "without clearing it ({})",
          gpu->name(), version, record->when);
    }
  }
  gpu->set_zero_before_release(zero);
}

// How scattered pieces are copied: as measured once for this GPU and driver, or
// measured now, in a tenth of a second.
void DecideCopies(const Machine& machine, GpuDevice* gpu) {
  if (!gpu->gathers()) return;
  const std::string uuid(gpu->id());
  const std::string kind(Name(gpu->driver().kind));
  const std::string version = VersionText(gpu->driver(), machine.proc, machine.sys);
  if (const auto known = ReadCopyRecord(uuid, kind, version)) {
    gpu->set_gather_below(known->gather_below);
    return;
  }
  const Result<CopyTrial> trial = gpu->TryCopies();
  if (!trial) {
    LogInfo("{}: the best way to copy scattered pieces could not be measured: {}", gpu->name(),
            trial.error().message);
    return;
  }
  const Bytes below = trial->GatherBelow();
  gpu->set_gather_below(below);
  LogInfo("{}: scattered pieces {}", gpu->name(),
          below == 0 ? "are copied one by one"
                     : fmt::format("smaller than {} are gathered first", FormatBytes(below)));
  const std::string when =
      fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));  // real world: for people
  const Result<std::string> kept = WriteCopyRecord({uuid, kind, version, below, when});
  if (!kept)
    LogInfo("{}: this measurement could not be saved, the next cache repeats it: {}", gpu->name(),
            kept.error().message);
}

Result<std::shared_ptr<Device>> OpenGpu(const GpuName& name, const Options& cache_options) {
  const Machine machine = Machine::FromEnvironment();
  GpuDeviceOptions options;
  options.kind = name.kind;
  options.which = name.which;
  options.capacity = cache_options.capacity;
  auto opened = OpenGpuWithin(options, [machine](GpuDevice* gpu) { DecideCopies(machine, gpu); });
  if (!opened) {
    Error error = opened.error();
    error.message = fmt::format("device: {}; without a GPU, use \"cpu\"", error.message);
    return error;
  }
  DecideZeroing(cache_options.zero_before_release, machine, opened->get());
  return std::shared_ptr<Device>(std::move(*opened));
}

// A virtual card. A private one is as large as its capacity, in whole chunks; without a
// capacity it is larger than any machine, and the machine is the limit.
Result<std::shared_ptr<Device>> OpenCard(const Options& options) {
  // A private card of at least this size keeps some freed pages mapped.
  constexpr Bytes kWarmFrom = 512 * kMiB;
  constexpr Bytes kWarm = 64 * kMiB;
  CpuDeviceOptions device_options;
  device_options.name = options.card;
  if (options.unlimited || options.capacity.value_or(DefaultCardBytes()) >= kWarmFrom) {
    device_options.warm_bytes = kWarm;
  }
  if (options.card.empty() && options.unlimited) {
    device_options.total = kTiB;
  } else if (options.card.empty() && options.capacity) {
    const Bytes chunk = CpuDevice::ChunkBytesFor(*options.capacity);
    device_options.total = (*options.capacity + chunk - 1) / chunk * chunk;
    device_options.chunk_bytes = chunk;
  }
  auto device = CpuDevice::Open(device_options);
  if (!device) return device.error();
  return std::shared_ptr<Device>(std::move(*device));
}

// Unix time minus the cache's clock, so that deadlines can be stored on disk.
std::int64_t UnixOffset(const Options& options) {
  const std::shared_ptr<Clock> clock = options.clock ? options.clock : SystemClock();
  const auto unix_now = std::chrono::system_clock::now();  // real world: own ttls outlive us
  return std::chrono::duration_cast<std::chrono::nanoseconds>(unix_now.time_since_epoch()).count() -
         clock->Now().time_since_epoch().count();
}

}  // namespace

Bytes DefaultHostCapacity() {
  return std::clamp<Bytes>(2 * DefaultCardBytes(), 64 * kMiB, 64 * kGiB);
}

Status CheckOptions(const Options& options) {
  const std::optional<GpuName> gpu = ParseGpuName(options.device);
  if (options.device != "cpu" && !gpu) {
    return Bad(
        fmt::format("device: '{}' is not known; known: cpu, cuda, cuda:N, hip, hip:N, with "
                    "the number, UUID or PCI address of a GPU as N",
                    options.device));
  }
  if (gpu && !options.card.empty()) {
    return Bad(fmt::format("card: '{}' is a card of the cpu device, and device is {}", options.card,
                           options.device));
  }
  if (gpu && options.unlimited) {
    return Bad("unlimited: a GPU's memory is limited; leave it out");
  }
  if (options.zero_before_release != "auto" && options.zero_before_release != "always" &&
      options.zero_before_release != "never") {
    return Bad(fmt::format("zero_before_release: '{}' is not known; known: auto, always, never",
                           options.zero_before_release));
  }
  if (!options.log.empty() && !LogLevelNamed(options.log)) {
    return Bad(
        fmt::format("log: '{}' is not known; known: info, warning, error, off", options.log));
  }
  if (options.capacity && *options.capacity == 0) {
    return Bad("capacity is 0: it must be at least 1 byte; leave it out for the whole card");
  }
  if (options.token_budget && *options.token_budget < 0) {
    return Bad(fmt::format("token_budget is {}: it must be at least 0", *options.token_budget));
  }
  if (options.ttl && *options.ttl <= Duration::zero()) {
    return Bad("ttl is not positive: leave it out for none");
  }
  if (options.idle_normal < Duration::zero() || options.idle_critical < Duration::zero()) {
    return Bad("idle_normal and idle_critical must be at least 0");
  }
  if (options.sample_period < std::chrono::milliseconds(1)) {
    return Bad("sample_period is under 1 ms: sampling more often has no use");
  }
  if (options.reclaim_slice <= Duration::zero()) return Bad("reclaim_slice must be positive");
  if (options.host_capacity && *options.host_capacity == 0) {
    return Bad("host_capacity is 0: leave it out for no host tier");
  }
  if (options.disk_capacity && *options.disk_capacity < kDiskMin) {
    return Bad(fmt::format("disk_capacity is {} bytes: it must be at least 1 MiB",
                           *options.disk_capacity));
  }
  if (options.disk_capacity && options.disk_dir.empty()) {
    return Bad("disk_capacity is set, but disk_dir is not: name the folder of the disk tier");
  }
  for (const auto& [name, ttl] :
       {std::pair{"host_ttl", options.host_ttl}, std::pair{"disk_ttl", options.disk_ttl}}) {
    if (ttl && *ttl <= Duration::zero()) {
      return Bad(fmt::format("{} is not positive: leave it out for none", name));
    }
  }
  if (options.write_back_after && *options.write_back_after < Duration::zero()) {
    return Bad("write_back_after must be at least 0, or \"none\"");
  }
  if (options.write_back_rate && *options.write_back_rate < kMiB) {
    return Bad("write_back_rate is under 1 MiB a second: use \"none\" for no bound");
  }
  if (options.scrub_every && *options.scrub_every <= Duration::zero()) {
    return Bad("scrub_every must be positive, or \"none\"");
  }
  if (options.room_wait < Duration::zero() || options.emergency_time < Duration::zero()) {
    return Bad("room_wait and emergency_time must be at least 0");
  }
  const bool tiers_below = options.host_capacity || !options.disk_dir.empty();
  if (tiers_below && options.unlimited) {
    return Bad(
        "unlimited: a device tier without a capacity never fills the tiers below it; "
        "set a capacity, or leave out host_capacity and disk_dir");
  }
  if (tiers_below && options.policy == "seed") {
    return Bad("policy: \"seed\" knows one tier; leave out host_capacity and disk_dir");
  }
  if (!(options.reserve >= 0 && options.reserve <= 0.1)) {
    return Bad(fmt::format("reserve is {}: it must be from 0 to 0.1, a share of the card",
                           options.reserve));
  }
  return {};
}

namespace {

// Such a configuration works, but is rarely what was intended.
void WarnOfSmallerTiers(const Core::Parts& parts) {
  const Bytes device = parts.tiers.device->capacity();
  const Bytes host = parts.tiers.host ? parts.tiers.host->capacity() : device;
  const auto warn = [](std::string_view lower, Bytes small, std::string_view upper, Bytes large) {
    LogWarning(
        "the {} tier ({}) is smaller than the {} tier ({}): only that many bytes of the upper tier "
        "can be clean and given back at once (docs/tiers.md)",
        lower, FormatBytes(small), upper, FormatBytes(large));
  };
  if (host < device) warn("host", host, "device", device);
  if (parts.tiers.disk && parts.tiers.disk->capacity() < std::max(host, device)) {
    warn("disk", parts.tiers.disk->capacity(), host < device ? "device" : "host",
         std::max(host, device));
  }
}

}  // namespace

Bytes ReserveFor(const Options& options, Bytes total) {
  const auto share = static_cast<Bytes>(options.reserve * static_cast<double>(total));
  return std::min(std::max(share, options.reserve_bytes_min), total / 10);
}

// Checks first, then opens top down. A failure closes what was opened before.
Result<Core::Parts> OpenParts(const Options& given, const Seams& seams) {
  if (Status ok = CheckOptions(given); !ok) return ok.error();
  Options options = given;
  if (const auto least = LogLevelNamed(options.log)) SetLogLevel(*least);
  const std::optional<GpuName> gpu = ParseGpuName(options.device);
  // A GPU's entries are copied to the host, whatever tiers are below it.
  if (gpu && !options.host_capacity) options.host_capacity = DefaultHostCapacity();
  if (Status ok = CheckAgainstMemory(options, Machine::FromEnvironment()); !ok) return ok.error();
  auto device = gpu ? OpenGpu(*gpu, options) : OpenCard(options);
  if (!device) return device.error();

  Core::Parts parts;
  parts.device = std::move(*device);
  if (seams.around_device) parts.device = seams.around_device(std::move(parts.device));
  const Bytes total = parts.device->total();
  if (options.capacity) {
    if (Status ok = CheckAgainstDevice("capacity", *options.capacity, *parts.device); !ok) {
      return ok.error();
    }
  }
  ArenaTierOptions tier_options;
  tier_options.capacity = options.capacity;
  auto tier = ArenaTier::Open(parts.device.get(), tier_options);
  if (!tier) return tier.error();
  parts.tiers.device = std::move(*tier);
  parts.total = total;
  parts.reserve = parts.device->shared() ? ReserveFor(options, total) : 0;
  SourceResult pressure = OpenPressure(options, parts.device);
  if (!pressure) return pressure.error();
  parts.pressure[IndexOf(TierId::kDevice)] = std::move(*pressure);
  if (options.host_capacity) {
    if (Status ok = OpenHost(options, seams, &parts); !ok) return ok.error();
  }
  if (!options.disk_dir.empty()) {
    if (Status ok = OpenDisk(options, seams, &parts); !ok) return ok.error();
  }
  parts.unix_offset = UnixOffset(options);
  parts.tells_losses = true;
  WarnOfSmallerTiers(parts);
  return parts;
}

}  // namespace spillway
