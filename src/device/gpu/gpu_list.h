// SPDX-License-Identifier: Apache-2.0
// The GPUs that a driver knows. They are listed without a context, and so
// without taking any of their memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu/gpu_driver.h"
#include "spillway/result.h"

namespace spillway {

struct GpuFacts {
  std::string name;   // "cuda:0"
  int device = 0;     // The number that the driver's functions take.
  int ordinal = 0;    // The number that people use.
  std::string uuid;   // "GPU-5b1e0c2f-..."
  std::string pci;    // "0000:41:00.0"
  std::string model;  // "NVIDIA H200"
};

// The devices that answer, in the driver's order; an empty list is not an error.
Result<std::vector<GpuFacts>> ListGpus(const GpuDriver& driver);

// Finds the GPU that `which` names: a number, a UUID or its beginning, with or
// without "GPU-", or a PCI address; empty: the first. Unavailable: the message
// lists the GPUs there are.
Result<GpuFacts> FindGpu(const GpuDriver& driver, std::string_view which);

// A device as it is written in settings and commands: "cuda", "cuda:0", "hip:GPU-...".
struct GpuName {
  GpuKind kind = GpuKind::kCuda;
  std::string which;  // Empty: the first.
};
// Empty: `device` does not name a GPU.
std::optional<GpuName> ParseGpuName(std::string_view device);

// The version of a driver for comparisons: that of its library, and of its kernel
// module if known. `proc` and `sys` are the directories of the kernel's files.
std::string VersionText(const GpuDriver& driver, const std::string& proc, const std::string& sys);

}  // namespace spillway
