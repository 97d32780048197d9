// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/gpu_driver.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/driver_error.h"
#include "base/library.h"
#include "base/mutex.h"
#include "base/symbols.h"

namespace spillway {

std::string_view Name(GpuKind kind) { return kind == GpuKind::kCuda ? "cuda" : "hip"; }

Status GpuDriver::Bind(const Library& from) {
  Symbols symbols(from);
  const bool cuda = kind == GpuKind::kCuda;
  const auto need = [&](const char* in_cuda, const char* in_hip, auto** into) {
    symbols.Need(cuda ? in_cuda : in_hip, into);
  };
  const auto may = [&](const char* in_cuda, const char* in_hip, auto** into) {
    symbols.May(cuda ? in_cuda : in_hip, into);
  };
  need("cuInit", "hipInit", &init);
  need("cuDriverGetVersion", "hipRuntimeGetVersion", &driver_version);
  need("cuDeviceGetCount", "hipGetDeviceCount", &device_count);
  need("cuDeviceGet", "hipDeviceGet", &device_get);
  need("cuDeviceGetName", "hipDeviceGetName", &device_name);
  need("cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId", &pci_bus_id);
  may("cuDeviceGetUuid_v2", "hipDeviceGetUuid", &uuid);
  if (uuid == nullptr) need("cuDeviceGetUuid", "hipDeviceGetUuid", &uuid);
  need("cuMemGetInfo_v2", "hipMemGetInfo", &memory_info);
  if (cuda) {
    symbols.Need("cuDevicePrimaryCtxRetain", &context_retain);
    symbols.Need("cuDevicePrimaryCtxRelease_v2", &context_release);
    symbols.Need("cuCtxPushCurrent_v2", &context_push);
    symbols.Need("cuCtxPopCurrent_v2", &context_pop);
    symbols.May("cuGetErrorString", &error_string_cuda_);
    symbols.May("cuMemcpyBatchAsync_v2", &copy_batch_v2);
    if (copy_batch_v2 == nullptr) symbols.May("cuMemcpyBatchAsync", &copy_batch_v1);
  } else {
    symbols.Need("hipGetDevice", &device_current);
    symbols.Need("hipSetDevice", &device_set);
    symbols.May("hipGetErrorString", &error_string_hip_);
  }
  // CUDA has had these since 10.2. HIP may lack them and then uses slabs.
  const auto vmm = [&](const char* in_cuda, const char* in_hip, auto** into) {
    cuda ? need(in_cuda, in_hip, into) : may(in_cuda, in_hip, into);
  };
  vmm("cuMemAddressReserve", "hipMemAddressReserve", &address_reserve);
  vmm("cuMemAddressFree", "hipMemAddressFree", &address_free);
  vmm("cuMemCreate", "hipMemCreate", &memory_create);
  vmm("cuMemRelease", "hipMemRelease", &memory_release);
  vmm("cuMemMap", "hipMemMap", &memory_map);
  vmm("cuMemUnmap", "hipMemUnmap", &memory_unmap);
  vmm("cuMemSetAccess", "hipMemSetAccess", &memory_access);
  vmm("cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity", &granularity);
  if (address_reserve == nullptr || address_free == nullptr || memory_create == nullptr ||
      memory_release == nullptr || memory_map == nullptr || memory_unmap == nullptr ||
      memory_access == nullptr) {
    granularity = nullptr;
  }
  need("cuMemAlloc_v2", "hipMalloc", &memory_alloc);
  need("cuMemFree_v2", "hipFree", &memory_free);
  need("cuMemHostAlloc", "hipHostMalloc", &host_alloc);
  need("cuMemFreeHost", "hipHostFree", &host_free);
  need("cuMemHostRegister_v2", "hipHostRegister", &host_register);
  need("cuMemHostUnregister", "hipHostUnregister", &host_unregister);
  need("cuCtxGetStreamPriorityRange", "hipDeviceGetStreamPriorityRange", &stream_priorities);
  need("cuStreamCreateWithPriority", "hipStreamCreateWithPriority", &stream_create);
  need("cuStreamDestroy_v2", "hipStreamDestroy", &stream_destroy);
  need("cuStreamWaitEvent", "hipStreamWaitEvent", &stream_wait);
  need("cuEventCreate", "hipEventCreateWithFlags", &event_create);
  need("cuEventDestroy_v2", "hipEventDestroy", &event_destroy);
  need("cuEventRecord", "hipEventRecord", &event_record);
  need("cuEventQuery", "hipEventQuery", &event_query);
  need("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", &copy_to_host);
  need("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", &copy_to_device);
  need("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", &copy_on_device);
  need("cuMemsetD8Async", "hipMemsetD8Async", &fill);
  may("cuModuleLoadData", "hipModuleLoadData", &module_load);
  may("cuModuleUnload", "hipModuleUnload", &module_unload);
  may("cuModuleGetFunction", "hipModuleGetFunction", &module_function);
  may("cuLaunchKernel", "hipModuleLaunchKernel", &launch);
  return symbols.Done();
}

Result<std::shared_ptr<const GpuDriver>> GpuDriver::Load(GpuKind kind,
                                                         const std::vector<std::string>& names) {
  // Libraries are never unloaded, and initialising one twice is useless.
  static Mutex mutex;
  static std::map<std::pair<GpuKind, std::string>, std::shared_ptr<const GpuDriver>> loaded
      SPILLWAY_GUARDED_BY(mutex);
  Result<Library> library = Library::Open(names);
  if (!library) return library.error();
  const MutexLock lock(mutex);
  std::shared_ptr<const GpuDriver>& entry = loaded[{kind, library->name()}];
  if (entry != nullptr) return entry;
  auto driver = std::make_shared<GpuDriver>();
  driver->kind = kind;
  driver->library = library->name();
  if (Status bound = driver->Bind(*library); !bound) return bound.error();
  if (const int code = driver->init(0); code != 0) {
    return driver->Failed(kind == GpuKind::kCuda ? "cuInit" : "hipInit", code);
  }
  if (driver->driver_version(&driver->version) != 0) driver->version = 0;
  entry = std::move(driver);
  return entry;
}

Error GpuDriver::Failed(std::string_view call, int code) const {
  const char* words = nullptr;
  if (error_string_cuda_ != nullptr && error_string_cuda_(code, &words) != 0) words = nullptr;
  if (error_string_hip_ != nullptr) words = error_string_hip_(code);
  Error error = DriverError(call, code, words);
  if (code == kGpuNoMemory) error.code = Code::kNoMemory;
  return error;
}

bool GpuDriver::IsFatal(int code) {
  switch (code) {
    case 0:
    case 1:    // A wrong argument: our error, and the device still works.
    case 2:    // No memory.
    case 205:  // Could not map.
    case 304:  // The system refused something.
    case 600:  // Not ready.
    case 712:  // Registered already.
    case 713:  // Not registered.
    case 800:  // Not permitted.
    case 801:  // Not supported.
      return false;
    default:
      return true;
  }
}

GpuScope::GpuScope(const GpuDriver& driver, int device, GpuContext context) : driver_(driver) {
  if (driver.kind == GpuKind::kCuda) {
    code_ = Insist([&] { return driver.context_push(context); });
  } else if (Insist([&] { return driver.device_current(&before_); }) != 0 || before_ != device) {
    code_ = Insist([&] { return driver.device_set(device); });
  } else {
    before_ = -1;  // The device is already current.
  }
}

GpuScope::~GpuScope() {
  if (driver_.kind == GpuKind::kCuda) {
    GpuContext ignored = nullptr;
    if (code_ == 0) driver_.context_pop(&ignored);
  } else if (before_ >= 0) {
    Insist([&] { return driver_.device_set(before_); });
  }
}

}  // namespace spillway
