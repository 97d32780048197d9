// SPDX-License-Identifier: Apache-2.0
// HIP, in front of the fakes of gpu.h. FAKE_NO_DEVICE finds no card;
// FAKE_WITHOUT_MAP and _MODULES leave these functions out.
#include <utility>

#include "fakes/gpu/gpu.h"

namespace fakes {
bool IsCuda() { return false; }
}  // namespace fakes

namespace {

using fakes::Address;
fakes::Gpu& Gpu() { return fakes::Gpu::Get(); }

// HIP keeps the code of a call that failed until it is read.
thread_local int last_error = 0;
int Kept(int code) {
  if (code != 0) last_error = code;
  return code;
}

}  // namespace

// Cards

#ifdef FAKE_NO_DEVICE
FAKE_API int hipInit(unsigned) { return Gpu().Init(100); }
#else
FAKE_API int hipInit(unsigned) { return Gpu().Init(0); }
#endif
FAKE_API int hipRuntimeGetVersion(int* version) { return Gpu().DriverVersion(version); }
FAKE_API int hipGetDeviceCount(int* count) { return Gpu().DeviceCount(count); }
FAKE_API int hipDeviceGet(int* device, int ordinal) { return Gpu().DeviceGet(device, ordinal); }
FAKE_API int hipDeviceGetName(char* text, int length, int device) {
  return Gpu().DeviceName(text, length, device);
}
FAKE_API int hipDeviceGetPCIBusId(char* text, int length, int device) {
  return Gpu().PciBusId(text, length, device);
}
FAKE_API int hipDeviceGetUuid(void* bytes, int device) { return Gpu().Uuid(bytes, device); }
FAKE_API int hipMemGetInfo(std::size_t* free, std::size_t* total) {
  return Gpu().MemoryInfo(free, total);
}
FAKE_API int hipGetDevice(int* device) { return Gpu().DeviceCurrent(device); }
FAKE_API int hipSetDevice(int device) { return Gpu().DeviceSet(device); }
FAKE_API const char* hipGetErrorString(int code) {
  const char* words = fakes::Words(code);
  return words == nullptr ? "unknown error" : words;
}

// Memory

FAKE_API int hipMemAddressReserve(Address* at, std::size_t bytes, std::size_t align,
                                  Address /*near*/, std::uint64_t flags) {
  return Gpu().AddressReserve(at, bytes, align, flags);
}
FAKE_API int hipMemAddressFree(Address at, std::size_t bytes) {
  return Gpu().AddressFree(at, bytes);
}
FAKE_API int hipMemCreate(std::uint64_t* handle, std::size_t bytes,
                          const fakes::GpuMemoryKind* kind, std::uint64_t flags) {
  return Gpu().MemoryCreate(handle, bytes, kind, flags);
}
FAKE_API int hipMemRelease(std::uint64_t handle) { return Gpu().MemoryRelease(handle); }
#ifndef FAKE_WITHOUT_MAP
FAKE_API int hipMemMap(Address at, std::size_t bytes, std::size_t offset, std::uint64_t handle,
                       std::uint64_t flags) {
  return Gpu().MemoryMap(at, bytes, offset, handle, flags);
}
#endif
FAKE_API int hipMemUnmap(Address at, std::size_t bytes) { return Gpu().MemoryUnmap(at, bytes); }
FAKE_API int hipMemSetAccess(Address at, std::size_t bytes, const fakes::GpuAccess* access,
                             std::size_t count) {
  return Gpu().MemoryAccess(at, bytes, access, count);
}
FAKE_API int hipMemGetAllocationGranularity(std::size_t* bytes, const fakes::GpuMemoryKind* kind,
                                            int recommended) {
  return Gpu().Granularity(bytes, kind, recommended);
}
FAKE_API int hipMalloc(Address* at, std::size_t bytes) {
  return Kept(Gpu().MemoryAlloc(at, bytes));
}
FAKE_API int hipGetLastError() { return std::exchange(last_error, 0); }
FAKE_API int hipFree(Address at) { return Gpu().MemoryFree(at); }
FAKE_API int hipHostMalloc(void** at, std::size_t bytes, unsigned flags) {
  return Gpu().HostAlloc(at, bytes, flags);
}
FAKE_API int hipHostFree(void* at) { return Gpu().HostFree(at); }
FAKE_API int hipHostRegister(void* at, std::size_t bytes, unsigned flags) {
  return Gpu().HostRegister(at, bytes, flags);
}
FAKE_API int hipHostUnregister(void* at) { return Gpu().HostUnregister(at); }

// Streams and copies

FAKE_API int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Gpu().StreamPriorities(least, greatest);
}
FAKE_API int hipStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return Gpu().StreamCreate(stream, flags, priority);
}
FAKE_API int hipStreamDestroy(void* stream) { return Gpu().StreamDestroy(stream); }
FAKE_API int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return Gpu().StreamWait(stream, event, flags);
}
FAKE_API int hipEventCreateWithFlags(void** event, unsigned flags) {
  return Gpu().EventCreate(event, flags);
}
FAKE_API int hipEventDestroy(void* event) { return Gpu().EventDestroy(event); }
FAKE_API int hipEventRecord(void* event, void* stream) { return Gpu().EventRecord(event, stream); }
FAKE_API int hipEventQuery(void* event) { return Gpu().EventQuery(event); }
FAKE_API int hipMemcpyDtoHAsync(void* to, Address from, std::size_t bytes, void* stream) {
  return Gpu().CopyToHost(to, from, bytes, stream);
}
FAKE_API int hipMemcpyHtoDAsync(Address to, const void* from, std::size_t bytes, void* stream) {
  return Gpu().CopyToDevice(to, from, bytes, stream);
}
FAKE_API int hipMemcpyDtoDAsync(Address to, Address from, std::size_t bytes, void* stream) {
  return Gpu().CopyOnDevice(to, from, bytes, stream);
}
FAKE_API int hipMemsetD8Async(Address at, unsigned char value, std::size_t bytes, void* stream) {
  return Gpu().Fill(at, value, bytes, stream);
}
#ifndef FAKE_WITHOUT_MODULES
FAKE_API int hipModuleLoadData(void** module, const void* image) {
  return Gpu().ModuleLoad(module, image);
}
FAKE_API int hipModuleUnload(void* module) { return Gpu().ModuleUnload(module); }
FAKE_API int hipModuleGetFunction(void** function, void* module, const char* name) {
  return Gpu().ModuleFunction(function, module, name);
}
FAKE_API int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned /*shared_bytes*/,
                                   void* stream, void** arguments, void** extra) {
  return Gpu().Launch(function, {gx, gy, gz, bx, by, bz}, stream, arguments, extra);
}
#endif
