// SPDX-License-Identifier: Apache-2.0
// A GPU vendor's driver, loaded at run time: one table of functions for CUDA's
// driver API and HIP, in the types that both share. A device address, a stream,
// an event or a handle is 64 bits in either. Where arguments differ, the table
// has a form that both support.
//
// Each function returns 0 or the driver's code. Calls about memory, streams or
// copies must be made inside a GpuScope.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

enum class GpuKind : std::uint8_t { kCuda, kHip };
std::string_view Name(GpuKind kind);  // "cuda", "hip"

using GpuAddress = std::uint64_t;
inline GpuAddress AddressOf(const void* at) { return reinterpret_cast<GpuAddress>(at); }
using GpuHandle = std::uint64_t;  // Physical memory.
using GpuStream = void*;
using GpuEvent = void*;
using GpuContext = void*;

struct GpuLocation {
  int type = 1;  // A device.
  int id = 0;
};
struct GpuMemoryKind {
  int type = 1;          // Pinned to its device: the only type there is.
  int handle_types = 1;  // Exportable as a file descriptor.
  GpuLocation location;
  void* unused = nullptr;
  std::array<unsigned char, 8> flags{};
};
static_assert(sizeof(GpuMemoryKind) == 32);
struct GpuAccess {
  GpuLocation location;
  int flags = 3;  // Read and write.
};
static_assert(sizeof(GpuAccess) == 12);
struct GpuCopyKind {
  int order = 1;  // 1: in stream order. 3: the source may be read at any time.
  GpuLocation from{0, 0};
  GpuLocation to{0, 0};
  unsigned flags = 0;
};
static_assert(sizeof(GpuCopyKind) == 24);

// Codes with the same meaning in CUDA and HIP.
inline constexpr int kGpuNoMemory = 2;
inline constexpr int kGpuNotReady = 600;
// Streams that do not wait for the default stream; events without timing.
inline constexpr unsigned kGpuNonBlocking = 1;
inline constexpr unsigned kGpuNoTiming = 2;
// Pinned for every context of this process.
inline constexpr unsigned kGpuPortable = 1;

struct GpuDriver {
  // Loads the first of `names` that can be loaded and has all functions needed.
  // It stays loaded for the life of the process, so loading it again returns
  // the same object. Unavailable: the reason.
  static Result<std::shared_ptr<const GpuDriver>> Load(GpuKind kind,
                                                       const std::vector<std::string>& names);

  GpuKind kind = GpuKind::kCuda;
  std::string library;
  int version = 0;

  int (*init)(unsigned flags) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_name)(char*, int length, int device) = nullptr;
  int (*pci_bus_id)(char*, int length, int device) = nullptr;
  int (*uuid)(void* bytes16, int device) = nullptr;
  int (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;

  // CUDA makes a context current, HIP a device.
  int (*context_retain)(GpuContext*, int device) = nullptr;
  int (*context_release)(int device) = nullptr;
  int (*context_push)(GpuContext) = nullptr;
  int (*context_pop)(GpuContext*) = nullptr;
  int (*device_current)(int*) = nullptr;
  int (*device_set)(int) = nullptr;

  int (*address_reserve)(GpuAddress*, std::size_t bytes, std::size_t align, GpuAddress at,
                         std::uint64_t flags) = nullptr;
  int (*address_free)(GpuAddress, std::size_t) = nullptr;
  int (*memory_create)(GpuHandle*, std::size_t, const GpuMemoryKind*,
                       std::uint64_t flags) = nullptr;
  int (*memory_release)(GpuHandle) = nullptr;
  int (*memory_map)(GpuAddress, std::size_t, std::size_t offset, GpuHandle,
                    std::uint64_t flags) = nullptr;
  int (*memory_unmap)(GpuAddress, std::size_t) = nullptr;
  int (*memory_access)(GpuAddress, std::size_t, const GpuAccess*, std::size_t count) = nullptr;
  int (*granularity)(std::size_t*, const GpuMemoryKind*, int recommended) = nullptr;
  // HIP may lack some of these functions; then none is used.
  bool has_vmm() const { return granularity != nullptr; }
  int (*memory_alloc)(GpuAddress*, std::size_t) = nullptr;  // For memory that is not returned soon.
  int (*memory_free)(GpuAddress) = nullptr;                 // Waits for kernels.

  int (*host_alloc)(void**, std::size_t, unsigned flags) = nullptr;
  int (*host_free)(void*) = nullptr;
  int (*host_register)(void*, std::size_t, unsigned flags) = nullptr;
  int (*host_unregister)(void*) = nullptr;

  int (*stream_priorities)(int* least, int* greatest) = nullptr;
  int (*stream_create)(GpuStream*, unsigned flags, int priority) = nullptr;
  int (*stream_destroy)(GpuStream) = nullptr;
  int (*stream_wait)(GpuStream, GpuEvent, unsigned flags) = nullptr;
  int (*event_create)(GpuEvent*, unsigned flags) = nullptr;
  int (*event_destroy)(GpuEvent) = nullptr;
  int (*event_record)(GpuEvent, GpuStream) = nullptr;
  int (*event_query)(GpuEvent) = nullptr;

  int (*copy_to_host)(void*, GpuAddress, std::size_t, GpuStream) = nullptr;
  int (*copy_to_device)(GpuAddress, const void*, std::size_t, GpuStream) = nullptr;
  int (*copy_on_device)(GpuAddress to, GpuAddress from, std::size_t, GpuStream) = nullptr;
  int (*fill)(GpuAddress, unsigned char, std::size_t, GpuStream) = nullptr;
  // Many copies in one call, if the driver supports it (CUDA from 12.8 on).
  int (*copy_batch_v2)(GpuAddress* to, GpuAddress* from, std::size_t* bytes, std::size_t count,
                       GpuCopyKind*, std::size_t* first, std::size_t kinds, GpuStream) = nullptr;
  int (*copy_batch_v1)(GpuAddress* to, GpuAddress* from, std::size_t* bytes, std::size_t count,
                       GpuCopyKind*, std::size_t* first, std::size_t kinds, std::size_t* failed,
                       GpuStream) = nullptr;
  bool has_batch() const { return copy_batch_v2 != nullptr || copy_batch_v1 != nullptr; }

  int (*module_load)(void** module, const void* image) = nullptr;
  int (*module_unload)(void* module) = nullptr;
  int (*module_function)(void** function, void* module, const char* name) = nullptr;
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, GpuStream,
                void** arguments, void** extra) = nullptr;

  // "cuMemCreate failed: 2 (out of memory)", with the code NoMemory or Unavailable.
  Error Failed(std::string_view call, int code) const;
  // Whether the device or the context can no longer be used after this code.
  static bool IsFatal(int code);

 private:
  Status Bind(const class Library& from);
  int (*error_string_cuda_)(int, const char**) = nullptr;
  const char* (*error_string_hip_)(int) = nullptr;
};

// Repeats a call once if it fails. For calls that return something or make a
// device current: drivers may report an older error that is not this call's.
template <typename Call>
int Insist(Call&& call) {
  const int code = call();
  return code == 0 ? 0 : call();
}

// While it lives, calls of this thread go to this device; then the device that
// was current before is current again.
class GpuScope {
 public:
  GpuScope(const GpuDriver& driver, int device, GpuContext context);
  ~GpuScope();
  GpuScope(const GpuScope&) = delete;
  GpuScope& operator=(const GpuScope&) = delete;
  // 0, or the code with which making the device current failed.
  int code() const { return code_; }

 private:
  const GpuDriver& driver_;
  int before_ = -1;  // HIP.
  int code_ = 0;
};

}  // namespace spillway
