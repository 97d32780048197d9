// SPDX-License-Identifier: Apache-2.0
// A device as named on a command line: a GPU by number, UUID or PCI address ("cuda:0",
// "hip:0000:41:00.0", "GPU-5b1e..."), or a virtual card by name ("cpu:demo", "demo"). Finding a GPU
// creates no context on it and takes none of its memory.
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

// The result of FindDevice.
struct NamedDevice {
  // The name under which caches on it are found: a GPU's UUID, or a card's name.
  std::string id;
  bool is_gpu = false;
  std::optional<GpuKind> kind = {};  // Empty: a card, or a UUID that no driver here knows.
  std::optional<GpuFacts> gpu = {};  // Empty in the same cases.

  // "cuda:0", or the id.
  const std::string& name() const { return gpu ? gpu->name : id; }
};

// Finds a device. InvalidArgument: not the name of a device. Unavailable: there is no such GPU, or
// no driver; the message lists the GPUs there are. Cards and complete UUIDs are accepted without a
// check.
Result<NamedDevice> FindDevice(std::string_view text);

// Loads a vendor's driver library. Unavailable: it is missing.
Result<std::shared_ptr<const GpuDriver>> LoadDriver(const Machine& machine, GpuKind kind);

// Opens a GPU with `options`, except that the device is the one given. A driver that does not
// respond is abandoned.
Result<std::unique_ptr<GpuDevice>> OpenGpu(const NamedDevice& device, GpuDeviceOptions options);

// Reads how much memory is free on a device, from any source that can: for a GPU, the first one
// that reads it without using its memory. Every call is bounded in time.
class DeviceReader {
 public:
  explicit DeviceReader(NamedDevice device) : device_(std::move(device)) {}
  std::optional<Reading> Read();
  // The reasons why the last answer was empty, by source.
  const std::string& why_not() const { return why_not_; }

 private:
  std::optional<Reading> Open();
  bool Try(const std::string& spec, std::optional<Reading>* reading);

  const NamedDevice device_;
  std::optional<BoundedReader> reader_;
  std::string why_not_;
};

}  // namespace spillway
