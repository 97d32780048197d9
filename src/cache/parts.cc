#include "cache/parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "device/cpu/card_source.h"
#include "device/cpu/cpu_device.h"
#include "monitor/bounded_read.h"
#include "monitor/source/kind.h"
#include "tier/arena_tier.h"

namespace spillway {

namespace {

constexpr Bytes kTiB = 1024 * kGiB;

// A driver that does not answer in this time is not used.
constexpr Duration kOpenWithin = std::chrono::seconds(10);

Error Bad(std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; }

using SourceResult = Result<std::shared_ptr<PressureSource>>;

SourceResult OpenPressure(const Options& options, std::shared_ptr<Device> device) {
  if (options.pressure) return options.pressure;
  const std::string& spec = options.pressure_source;
  if (spec == "auto") {
    return std::shared_ptr<PressureSource>(
        std::make_shared<CardSource>(std::move(device), options.card));
  }
  std::optional<SourceResult> opened =
      RunBounded(kOpenWithin, [spec] { return OpenSource(spec, Machine::FromEnvironment()); });
  if (!opened) {
    return Error{Code::kUnavailable, fmt::format("pressure_source '{}': no answer within {} s",
                                                 spec, kOpenWithin / std::chrono::seconds(1))};
  }
  if (!*opened) {
    Error error = opened->error();
    error.message = "pressure_source: " + error.message;
    return error;
  }
  return std::move(*opened);
}

}  // namespace

Status CheckOptions(const Options& options) {
  if (options.device != "cpu") {
    return Bad(fmt::format("device: '{}' is not known; known: cpu", options.device));
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
    return Bad("sample_period is under 1 ms: from there on sampling only costs");
  }
  if (options.reclaim_slice <= Duration::zero()) return Bad("reclaim_slice must be positive");
  if (!(options.reserve >= 0 && options.reserve <= 0.1)) {
    return Bad(fmt::format("reserve is {}: it must be from 0 to 0.1, a share of the card",
                           options.reserve));
  }
  return {};
}

Bytes ReserveFor(const Options& options, Bytes total) {
  const auto share = static_cast<Bytes>(options.reserve * static_cast<double>(total));
  return std::min(std::max(share, options.reserve_bytes_min), total / 10);
}

Result<Core::Parts> OpenParts(const Options& options) {
  if (Status ok = CheckOptions(options); !ok) return ok.error();
  CpuDeviceOptions device_options;
  device_options.name = options.card;
  // A private card is as large as what is asked of it, in whole chunks; without
  // a capacity it is larger than any machine, and the machine is the limit.
  if (options.card.empty() && options.unlimited) {
    device_options.total = kTiB;
  } else if (options.card.empty() && options.capacity) {
    const Bytes chunk = CpuDevice::ChunkBytesFor(*options.capacity);
    device_options.total = (*options.capacity + chunk - 1) / chunk * chunk;
    device_options.chunk_bytes = chunk;
  }
  auto device = CpuDevice::Open(device_options);
  if (!device) return device.error();

  Core::Parts parts;
  parts.device = std::move(*device);
  const Bytes total = parts.device->total();
  if (options.capacity && *options.capacity > total) {
    return Bad(fmt::format("capacity is {} bytes, but the card '{}' has {}", *options.capacity,
                           options.card, total));
  }
  ArenaTierOptions tier_options;
  tier_options.capacity = options.capacity;
  auto tier = ArenaTier::Open(parts.device.get(), tier_options);
  if (!tier) return tier.error();
  parts.tier = std::move(*tier);
  parts.total = total;
  parts.reserve = parts.device->shared() ? ReserveFor(options, total) : 0;
  SourceResult pressure = OpenPressure(options, parts.device);
  if (!pressure) return pressure.error();
  parts.pressure = std::move(*pressure);
  return parts;
}

}  // namespace spillway
