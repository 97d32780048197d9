// SPDX-License-Identifier: Apache-2.0
#include "cli/named_device.h"

#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ask/protocol.h"
#include "base/printable.h"
#include "monitor/source/kind.h"

namespace spillway {

namespace {

constexpr Duration kReadWithin = std::chrono::seconds(2);
constexpr std::size_t kUuidLength = 40;  // "GPU-" and 36 more.
constexpr std::array kKinds = {GpuKind::kCuda, GpuKind::kHip};

Result<GpuFacts> FindAmong(const Machine& machine, GpuKind kind, const std::string& which) {
  const auto found = RunBounded(kDriverWithin, [machine, kind, which]() -> Result<GpuFacts> {
    const auto driver = GpuDriver::Load(kind, LibrariesOf(machine, kind));
    if (driver) return FindGpu(**driver, which);
    return Error{driver.error().code, "no driver: " + driver.error().message};
  });
  return found ? *found : Result<GpuFacts>(DriverIsLate(kind));
}

// Asks any driver that knows the UUID. It is accepted even if none does.
NamedDevice ByUuid(const std::string& uuid, bool ask_drivers) {
  NamedDevice device{.id = uuid, .is_gpu = true};
  if (!ask_drivers) return device;
  const Machine machine = Machine::FromEnvironment();
  for (const GpuKind kind : kKinds) {
    Result<GpuFacts> found = FindAmong(machine, kind, uuid);
    if (!found) continue;
    device.id = found->uuid;
    device.kind = kind;
    device.gpu = std::move(*found);
    break;
  }
  return device;
}

}  // namespace

Result<std::shared_ptr<const GpuDriver>> LoadDriver(const Machine& machine, GpuKind kind) {
  auto loaded = RunBounded(
      kDriverWithin, [machine, kind] { return GpuDriver::Load(kind, LibrariesOf(machine, kind)); });
  if (!loaded) return DriverIsLate(kind);
  return std::move(*loaded);
}

Result<NamedDevice> FindDevice(std::string_view text) {
  const std::string name(text);
  if (const std::optional<GpuName> gpu = ParseGpuName(name)) {
    Result<GpuFacts> found = FindAmong(Machine::FromEnvironment(), gpu->kind, gpu->which);
    if (!found) {
      return Error{found.error().code, fmt::format("{}: {}", name, found.error().message)};
    }
    NamedDevice device{.id = found->uuid, .is_gpu = true, .kind = gpu->kind};
    device.gpu = std::move(*found);
    return device;
  }
  std::string_view card = name;
  if (card == "cpu") card = "default";
  if (card.starts_with("cpu:")) card.remove_prefix(4);
  if (!IsAskDevice(card)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' names no device; right are cuda, cuda:N, hip, hip:N (N: a "
                             "number, UUID or PCI address), a GPU's UUID, cpu:CARD and a card's "
                             "name",
                             Printable(name))};
  }
  if (name.starts_with("GPU-") || name.starts_with("MIG-")) {
    return ByUuid(name, name.size() < kUuidLength);
  }
  return NamedDevice{.id = std::string(card)};
}

Result<std::unique_ptr<GpuDevice>> OpenGpu(const NamedDevice& device, GpuDeviceOptions options) {
  const NamedDevice whole =
      // A complete UUID has not been looked up before.
      device.kind ? device : ByUuid(device.id, true);
  if (!whole.kind) {
    return Error{Code::kUnavailable,
                 fmt::format("no driver here, of cuda or hip, knows a GPU '{}'", device.id)};
  }
  options.kind = *whole.kind;
  options.which = whole.id;
  return OpenGpuWithin(std::move(options));
}

bool DeviceReader::Try(const std::string& spec, std::optional<Reading>* reading) {
  struct Opened {
    std::shared_ptr<PressureSource> source;
    Reading reading;
  };
  const auto open = [spec]() -> Result<Opened> {
    Result<std::shared_ptr<PressureSource>> source = OpenSource(spec, Machine::FromEnvironment());
    if (!source) return source.error();
    Result<Reading> read = (*source)->Read();
    if (!read) return read.error();
    return Opened{std::move(*source), *read};
  };
  const std::optional<Result<Opened>> opened = RunBounded(kReadWithin, open);
  if (opened && *opened) {
    reader_.emplace((*opened)->source);
    *reading = (*opened)->reading;
    return true;
  }
  why_not_ = opened ? opened->error().message
                    : fmt::format("{}: no answer within {} s", spec,
                                  kReadWithin / std::chrono::seconds(1));
  return false;
}

std::optional<Reading> DeviceReader::Open() {
  std::optional<Reading> reading;
  if (!device_.is_gpu) {
    Try("card:" + device_.id, &reading);
    return reading;
  }
  // First by UUID; then by PCI address, since sources spell UUIDs differently.
  std::vector<std::string> whys;
  for (const bool by_pci : {false, true}) {
    std::optional<GpuFacts> gpu = device_.gpu;
    if (by_pci && !gpu) gpu = ByUuid(device_.id, true).gpu;
    if (by_pci && !gpu) break;
    whys.clear();
    for (const SourceKind* kind : SourceKinds()) {
      if (!kind->for_gpus()) continue;
      if (Try(fmt::format("{}:{}", kind->name(), by_pci ? gpu->pci : device_.id), &reading)) {
        return reading;
      }
      whys.push_back(why_not_);
    }
  }
  why_not_ = fmt::format("{}", fmt::join(whys, "; "));
  return std::nullopt;
}

std::optional<Reading> DeviceReader::Read() {
  if (!reader_) return Open();
  const Result<Reading> reading = reader_->Read(kReadWithin);
  if (reading) return *reading;
  why_not_ = reading.error().message;
  return std::nullopt;
}

}  // namespace spillway
