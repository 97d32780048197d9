// SPDX-License-Identifier: Apache-2.0
// CUDA's driver API, in front of the fakes of gpu.h. FAKE_NO_DEVICE finds no
// card; FAKE_WITHOUT_BATCH, _BATCH_V2, _MAP and _MODULES leave these
// functions out.
#include "fakes/gpu/gpu.h"

namespace fakes {
bool IsCuda() { return true; }
}  // namespace fakes

namespace {

using fakes::Address;
fakes::Gpu& Gpu() { return fakes::Gpu::Get(); }

}  // namespace

// Cards

#ifdef FAKE_NO_DEVICE
FAKE_API int cuInit(unsigned) { return Gpu().Init(100); }
#else
FAKE_API int cuInit(unsigned) { return Gpu().Init(0); }
#endif
FAKE_API int cuDriverGetVersion(int* version) { return Gpu().DriverVersion(version); }
FAKE_API int cuDeviceGetCount(int* count) { return Gpu().DeviceCount(count); }
FAKE_API int cuDeviceGet(int* device, int ordinal) { return Gpu().DeviceGet(device, ordinal); }
FAKE_API int cuDeviceGetName(char* text, int length, int device) {
  return Gpu().DeviceName(text, length, device);
}
FAKE_API int cuDeviceGetPCIBusId(char* text, int length, int device) {
  return Gpu().PciBusId(text, length, device);
}
FAKE_API int cuDeviceGetUuid_v2(void* bytes, int device) { return Gpu().Uuid(bytes, device); }
FAKE_API int cuDeviceGetUuid(void* bytes, int device) { return Gpu().Uuid(bytes, device); }
FAKE_API int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return Gpu().MemoryInfo(free, total);
}
FAKE_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  return Gpu().ContextRetain(context, device);
}
FAKE_API int cuDevicePrimaryCtxRelease_v2(int device) { return Gpu().ContextRelease(device); }
FAKE_API int cuCtxPushCurrent_v2(void* context) { return Gpu().ContextPush(context); }
FAKE_API int cuCtxPopCurrent_v2(void** context) { return Gpu().ContextPop(context); }
FAKE_API int cuGetErrorString(int code, const char** words) {
  *words = fakes::Words(code);
  return *words == nullptr ? 1 : 0;
}

// Memory

FAKE_API int cuMemAddressReserve(Address* at, std::size_t bytes, std::size_t align,
                                 Address /*near*/, std::uint64_t flags) {
  return Gpu().AddressReserve(at, bytes, align, flags);
}
FAKE_API int cuMemAddressFree(Address at, std::size_t bytes) {
  return Gpu().AddressFree(at, bytes);
}
FAKE_API int cuMemCreate(std::uint64_t* handle, std::size_t bytes, const fakes::GpuMemoryKind* kind,
                         std::uint64_t flags) {
  return Gpu().MemoryCreate(handle, bytes, kind, flags);
}
FAKE_API int cuMemRelease(std::uint64_t handle) { return Gpu().MemoryRelease(handle); }
#ifndef FAKE_WITHOUT_MAP
FAKE_API int cuMemMap(Address at, std::size_t bytes, std::size_t offset, std::uint64_t handle,
                      std::uint64_t flags) {
  return Gpu().MemoryMap(at, bytes, offset, handle, flags);
}
#endif
FAKE_API int cuMemUnmap(Address at, std::size_t bytes) { return Gpu().MemoryUnmap(at, bytes); }
FAKE_API int cuMemSetAccess(Address at, std::size_t bytes, const fakes::GpuAccess* access,
                            std::size_t count) {
  return Gpu().MemoryAccess(at, bytes, access, count);
}
FAKE_API int cuMemGetAllocationGranularity(std::size_t* bytes, const fakes::GpuMemoryKind* kind,
                                           int recommended) {
  return Gpu().Granularity(bytes, kind, recommended);
}
FAKE_API int cuMemAlloc_v2(Address* at, std::size_t bytes) { return Gpu().MemoryAlloc(at, bytes); }
FAKE_API int cuMemFree_v2(Address at) { return Gpu().MemoryFree(at); }
FAKE_API int cuMemHostAlloc(void** at, std::size_t bytes, unsigned flags) {
  return Gpu().HostAlloc(at, bytes, flags);
}
FAKE_API int cuMemFreeHost(void* at) { return Gpu().HostFree(at); }
FAKE_API int cuMemHostRegister_v2(void* at, std::size_t bytes, unsigned flags) {
  return Gpu().HostRegister(at, bytes, flags);
}
FAKE_API int cuMemHostUnregister(void* at) { return Gpu().HostUnregister(at); }

// Streams and copies

FAKE_API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return Gpu().StreamPriorities(least, greatest);
}
FAKE_API int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return Gpu().StreamCreate(stream, flags, priority);
}
FAKE_API int cuStreamDestroy_v2(void* stream) { return Gpu().StreamDestroy(stream); }
FAKE_API int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return Gpu().StreamWait(stream, event, flags);
}
FAKE_API int cuEventCreate(void** event, unsigned flags) { return Gpu().EventCreate(event, flags); }
FAKE_API int cuEventDestroy_v2(void* event) { return Gpu().EventDestroy(event); }
FAKE_API int cuEventRecord(void* event, void* stream) { return Gpu().EventRecord(event, stream); }
FAKE_API int cuEventQuery(void* event) { return Gpu().EventQuery(event); }
FAKE_API int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void* stream) {
  return Gpu().CopyToHost(to, from, bytes, stream);
}
FAKE_API int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  return Gpu().CopyToDevice(to, from, bytes, stream);
}
FAKE_API int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void* stream) {
  return Gpu().CopyOnDevice(to, from, bytes, stream);
}
FAKE_API int cuMemsetD8Async(Address at, unsigned char value, std::size_t bytes, void* stream) {
  return Gpu().Fill(at, value, bytes, stream);
}
#ifndef FAKE_WITHOUT_BATCH
#ifndef FAKE_WITHOUT_BATCH_V2
FAKE_API int cuMemcpyBatchAsync_v2(Address* to, Address* from, std::size_t* bytes,
                                   std::size_t count, fakes::GpuCopyKind* kinds, std::size_t* first,
                                   std::size_t kind_count, void* stream) {
  return Gpu().CopyBatch("copy_batch_v2", to, from, bytes, count, kinds, first, kind_count, stream);
}
#endif
FAKE_API int cuMemcpyBatchAsync(Address* to, Address* from, std::size_t* bytes, std::size_t count,
                                fakes::GpuCopyKind* kinds, std::size_t* first,
                                std::size_t kind_count, std::size_t* failed, void* stream) {
  const int code =
      Gpu().CopyBatch("copy_batch_v1", to, from, bytes, count, kinds, first, kind_count, stream);
  if (code != 0 && failed != nullptr) *failed = count;
  return code;
}
#endif
#ifndef FAKE_WITHOUT_MODULES
FAKE_API int cuModuleLoadData(void** module, const void* image) {
  return Gpu().ModuleLoad(module, image);
}
FAKE_API int cuModuleUnload(void* module) { return Gpu().ModuleUnload(module); }
FAKE_API int cuModuleGetFunction(void** function, void* module, const char* name) {
  return Gpu().ModuleFunction(function, module, name);
}
FAKE_API int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned /*shared_bytes*/, void* stream,
                            void** arguments, void** extra) {
  return Gpu().Launch(function, {gx, gy, gz, bx, by, bz}, stream, arguments, extra);
}
#endif
