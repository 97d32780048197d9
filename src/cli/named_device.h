// A device as somebody names it to a command: a GPU by number, UUID or PCI
// address ("cuda:0", "hip:0000:41:00.0", "GPU-5b1e..."), a virtual card by name
// ("cpu:demo", "demo"). Finding a GPU makes no context on it and takes none of
// its memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu/gpu_device.h"
#include "device/gpu/gpu_list.h"
#include "monitor/bounded_read.h"
#include "monitor/machine.h"
#include "monitor/open_gpu.h"
#include "spillway/pressure.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

struct NamedDevice {
  // By what caches on it are found: the UUID of a GPU, the name of a card.
  std::string id;
  bool is_gpu = false;
  std::optional<GpuKind> kind = {};  // Empty: a card, or a UUID no driver here knows.
  std::optional<GpuFacts> gpu = {};  // Likewise.

  // "cuda:0", or the id.
  const std::string& name() const { return gpu ? gpu->name : id; }
};

// InvalidArgument: it can't be the name of a device. Unavailable: there is no such
// GPU, or no driver; names those there are. Cards, and UUIDs in full, are taken as
// they are.
Result<NamedDevice> FindDevice(std::string_view text);

Result<std::shared_ptr<const GpuDriver>> LoadDriver(const Machine& machine, GpuKind kind);

// Takes over what `options` says besides which device it is. A driver that does
// not answer is left behind.
Result<std::unique_ptr<GpuDevice>> OpenGpu(const NamedDevice& device, GpuDeviceOptions options);

// What is free on a device, by whatever source can tell: for a GPU the first that
// reads it without taking memory of it. Every call is bounded.
class DeviceReader {
 public:
  explicit DeviceReader(NamedDevice device) : device_(std::move(device)) {}
  std::optional<Reading> Read();
  // Why the last answer was empty, by source.
  const std::string& why_not() const { return why_not_; }

 private:
  std::optional<Reading> Open();
  bool Try(const std::string& spec, std::optional<Reading>* reading);

  const NamedDevice device_;
  std::optional<BoundedReader> reader_;
  std::string why_not_;
};

}  // namespace spillway
