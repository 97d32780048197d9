// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/cuda_neighbour.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/library.h"

namespace spillway::bench {

namespace {
constexpr Bytes kBlock = 256 * kMiB;
}  // namespace

Result<CudaNeighbour> CudaNeighbour::Open() {
  const Result<Library> library = Library::Open({"libcuda.so.1"});
  if (!library) return library.error();
  CudaNeighbour made;
  Driver& driver = made.driver_;
  const auto load = [&](auto& function, const char* name) {
    function =
        library->Symbol<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
    return function != nullptr;
  };
  if (!load(driver.init, "cuInit") || !load(driver.device_get, "cuDeviceGet") ||
      !load(driver.retain, "cuDevicePrimaryCtxRetain") ||
      !load(driver.set_current, "cuCtxSetCurrent") || !load(driver.pci, "cuDeviceGetPCIBusId") ||
      !load(driver.info, "cuMemGetInfo_v2") || !load(driver.alloc, "cuMemAlloc_v2") ||
      !load(driver.free, "cuMemFree_v2")) {
    return Error{Code::kUnavailable, "libcuda.so.1 lacks a function every version has"};
  }
  int device = 0;
  void* context = nullptr;
  std::array<char, 64> pci{};
  const auto failed = [](const char* call, int code) {
    return Error{Code::kUnavailable, fmt::format("{} failed: {}", call, code)};
  };
  if (const int code = driver.init(0)) return failed("cuInit", code);
  if (const int code = driver.device_get(&device, 0)) return failed("cuDeviceGet", code);
  if (const int code = driver.retain(&context, device)) return failed("primary context", code);
  if (const int code = driver.set_current(context)) return failed("cuCtxSetCurrent", code);
  if (const int code = driver.pci(pci.data(), static_cast<int>(pci.size()), device)) {
    return failed("cuDeviceGetPCIBusId", code);
  }
  made.pci_ = pci.data();
  std::size_t free = 0;
  std::size_t total = 0;
  if (const int code = driver.info(&free, &total)) return failed("cuMemGetInfo", code);
  made.total_ = total;
  return made;
}

Bytes CudaNeighbour::Free() const {
  std::size_t free = 0;
  std::size_t total = 0;
  return driver_.info(&free, &total) == 0 ? free : 0;
}

bool CudaNeighbour::Take(Bytes bytes) {
  Address at = 0;
  if (driver_.alloc(&at, bytes) != 0) return false;
  blocks_.push_back({at, bytes});
  return true;
}

Bytes CudaNeighbour::GiveLast() {
  if (blocks_.empty()) return 0;
  const Block last = blocks_.back();
  blocks_.pop_back();
  driver_.free(last.at);
  return last.bytes;
}

void CudaNeighbour::Settle(Bytes used) {
  for (Bytes now = total_ - Free(); now > used + kBlock / 2; now = total_ - Free()) {
    if (GiveLast() == 0) return;
  }
  for (Bytes now = total_ - Free(); now + kBlock / 2 < used; now = total_ - Free()) {
    // Large pieces first: an allocation takes about the same time for any size.
    const Bytes lacking = used - now;
    const Bytes piece = lacking > 16 * kBlock ? lacking / 2 / kBlock * kBlock : kBlock;
    if (!Take(piece)) return;
  }
}

}  // namespace spillway::bench
