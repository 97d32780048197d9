// SPDX-License-Identifier: Apache-2.0
// CUDA's other ways to allocate, which the cache does not use but other programs do, and the
// driver's own search by name.
#include <array>
#include <cstdint>
#include <string_view>

#include "fakes/gpu/gpu.h"

namespace {

using fakes::Address;
fakes::Gpu& Gpu() { return fakes::Gpu::Get(); }

constexpr std::size_t kPitch = 512;

struct ArrayShape {
  std::size_t width, height;
  unsigned format, channels;
};

}  // namespace

FAKE_API int cuCtxGetDevice(int* device) { return Gpu().ContextDevice(device); }

FAKE_API int cuMemAllocPitch_v2(Address* at, std::size_t* pitch, std::size_t width,
                                std::size_t height, unsigned /*element*/) {
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return Gpu().MemoryAlloc(at, *pitch * height);
}
FAKE_API int cuMemAllocManaged(Address* at, std::size_t bytes, unsigned /*flags*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int cuMemAllocAsync(Address* at, std::size_t bytes, void* /*stream*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int cuMemAllocAsync_ptsz(Address* at, std::size_t bytes, void* /*stream*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int cuMemAllocFromPoolAsync(Address* at, std::size_t bytes, void* /*pool*/,
                                     void* /*stream*/) {
  return Gpu().MemoryAlloc(at, bytes);
}
FAKE_API int cuMemFreeAsync(Address at, void* /*stream*/) { return Gpu().MemoryFree(at); }
FAKE_API int cuArrayCreate_v2(Address* array, const ArrayShape* shape) {
  return Gpu().MemoryAlloc(array, shape->width * shape->height * shape->channels * 4);
}
FAKE_API int cuArrayDestroy(Address array) { return Gpu().MemoryFree(array); }

// Defined in cuda.cc.
FAKE_API int cuInit(unsigned);
FAKE_API int cuDeviceGetUuid_v2(void* bytes, int device);
FAKE_API int cuDevicePrimaryCtxRetain(void** context, int device);
FAKE_API int cuCtxPushCurrent_v2(void* context);
FAKE_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
FAKE_API int cuMemAlloc_v2(Address* at, std::size_t bytes);
FAKE_API int cuMemFree_v2(Address at);
FAKE_API int cuMemCreate(std::uint64_t* handle, std::size_t bytes, const fakes::GpuMemoryKind* kind,
                         std::uint64_t flags);
FAKE_API int cuMemRelease(std::uint64_t handle);

FAKE_API int cuGetProcAddress(const char* name, void** at, int version, std::uint64_t flags);
FAKE_API int cuGetProcAddress_v2(const char* name, void** at, int version, std::uint64_t flags,
                                 int* result);

namespace {

struct Known {
  std::string_view name;
  int since;           // The version from which on this one is meant.
  std::uint64_t flag;  // 2: for the calling thread's own stream.
  void* at;
};

template <typename Function>
void* At(Function* function) {
  return reinterpret_cast<void*>(function);
}

// By name and version, the last that fits.
int Search(std::string_view name, void** at, int version, std::uint64_t flags) {
  const std::array known = {
      Known{"cuInit", 2000, 0, At(&cuInit)},
      Known{"cuDeviceGetUuid", 11040, 0, At(&cuDeviceGetUuid_v2)},
      Known{"cuDevicePrimaryCtxRetain", 7000, 0, At(&cuDevicePrimaryCtxRetain)},
      Known{"cuCtxPushCurrent", 4000, 0, At(&cuCtxPushCurrent_v2)},
      Known{"cuCtxGetDevice", 2000, 0, At(&cuCtxGetDevice)},
      Known{"cuMemGetInfo", 3020, 0, At(&cuMemGetInfo_v2)},
      Known{"cuMemAlloc", 3020, 0, At(&cuMemAlloc_v2)},
      Known{"cuMemFree", 3020, 0, At(&cuMemFree_v2)},
      Known{"cuMemAllocPitch", 3020, 0, At(&cuMemAllocPitch_v2)},
      Known{"cuMemAllocManaged", 6000, 0, At(&cuMemAllocManaged)},
      Known{"cuMemAllocAsync", 11020, 0, At(&cuMemAllocAsync)},
      Known{"cuMemAllocAsync", 11020, 2, At(&cuMemAllocAsync_ptsz)},
      Known{"cuMemAllocFromPoolAsync", 11020, 0, At(&cuMemAllocFromPoolAsync)},
      Known{"cuMemFreeAsync", 11020, 0, At(&cuMemFreeAsync)},
      Known{"cuMemCreate", 10020, 0, At(&cuMemCreate)},
      Known{"cuMemRelease", 10020, 0, At(&cuMemRelease)},
      Known{"cuArrayCreate", 3020, 0, At(&cuArrayCreate_v2)},
      Known{"cuGetProcAddress", 11030, 0, At(&cuGetProcAddress)},
      Known{"cuGetProcAddress", 12000, 0, At(&cuGetProcAddress_v2)},
  };
  *at = nullptr;
  for (const Known& one : known) {
    if (one.name == name && one.since <= version && (one.flag & ~flags) == 0) *at = one.at;
  }
  return *at == nullptr ? fakes::kNotFound : 0;
}

}  // namespace

FAKE_API int cuGetProcAddress(const char* name, void** at, int version, std::uint64_t flags) {
  return Search(name, at, version, flags);
}
FAKE_API int cuGetProcAddress_v2(const char* name, void** at, int version, std::uint64_t flags,
                                 int* result) {
  const int code = Search(name, at, version, flags);
  if (result != nullptr) *result = code == 0 ? 0 : 1;
  return code;
}
