// The GPUs a driver knows: their names, found without a context and so without
// taking any of their memory.
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
  int device = 0;     // As the driver's functions take it.
  int ordinal = 0;    // As people count it.
  std::string uuid;   // "GPU-5b1e0c2f-..."
  std::string pci;    // "0000:41:00.0"
  std::string model;  // "NVIDIA H200"
};

// Those that answer, in the driver's order; none is no error.
Result<std::vector<GpuFacts>> ListGpus(const GpuDriver& driver);

// The one that `which` names: a number, a UUID or its beginning, with or without
// "GPU-", or a PCI address; empty: the first. Unavailable: names those there are.
Result<GpuFacts> FindGpu(const GpuDriver& driver, std::string_view which);

// A device as settings and commands write it: "cuda", "cuda:0", "hip:GPU-...".
struct GpuName {
  GpuKind kind = GpuKind::kCuda;
  std::string which;  // Empty: the first.
};
// Empty: it names no GPU.
std::optional<GpuName> ParseGpuName(std::string_view device);

// The version of a driver as one compares it: that of its library, and of its
// kernel module where that tells. `proc` and `sys` are where the kernel's files are.
std::string VersionText(const GpuDriver& driver, const std::string& proc, const std::string& sys);

}  // namespace spillway
