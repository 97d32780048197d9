// SPDX-License-Identifier: Apache-2.0
// HIP's other ways to allocate, which the cache does not use but other programs do, and the
// runtime's own search by name.
#include <array>
#include <cstdint>
#include <string_view>

#include "fakes/gpu/gpu.h"

namespace {

using fakes::Address;
fakes::Gpu& Gpu() { return fakes::Gpu::Get(); }

}  // namespace

FAKE_API int hipExtMallocWithFlags(Address* at, std::size_t bytes, unsigned /*flags*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int hipMallocManaged(Address* at, std::size_t bytes, unsigned /*flags*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int hipMallocAsync(Address* at, std::size_t bytes, void* /*stream*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int hipMallocFromPoolAsync(Address* at, std::size_t bytes, void* /*pool*/,
                                    void* /*stream*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int hipFreeAsync(Address at, void* /*stream*/) { return Gpu().MemoryFree(at); }

// Defined in hip.cc.
FAKE_API int hipMalloc(Address* at, std::size_t bytes);
FAKE_API int hipGetDevice(int* device);
FAKE_API int hipMemGetInfo(std::size_t* free, std::size_t* total);

FAKE_API int hipGetProcAddress(const char* name, void** at, int /*version*/,
                               std::uint64_t /*flags*/, int* result) {
  struct Known {
    std::string_view name;
    void* at;
  };
  const std::array known = {
      Known{"hipMalloc", reinterpret_cast<void*>(&hipMalloc)},
      Known{"hipMallocAsync", reinterpret_cast<void*>(&hipMallocAsync)},
      Known{"hipGetDevice", reinterpret_cast<void*>(&hipGetDevice)},
      Known{"hipMemGetInfo", reinterpret_cast<void*>(&hipMemGetInfo)},
  };
  *at = nullptr;
  for (const Known& one : known) {
    if (one.name == name) *at = one.at;
  }
  if (result != nullptr) *result = *at == nullptr ? 1 : 0;
  return *at == nullptr ? fakes::kNotFound : 0;
}
