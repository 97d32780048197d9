/* SPDX-License-Identifier: Apache-2.0
 * The functions in front of the driver's, by the driver's ABI: this tree includes no vendor header.
 * Each exists once for every slot, since a function called by its address does not know which
 * driver it stands in front of. */
#include "preload/process.h"

typedef uint64_t Address; /* CUdeviceptr, a handle, or a pointer to device memory. */
typedef void* Opaque;     /* A stream, a pool. */

/* The beginning of CUmemAllocationProp and hipMemAllocationProp. */
struct Properties {
  int type;
  int handle_types;
  int location_type; /* 1: a device. */
  int location;
};

struct ArrayOld {
  unsigned width, height, format, channels;
};
struct Array {
  size_t width, height;
  unsigned format, channels;
};
struct Array3DOld {
  unsigned width, height, depth, format, channels, flags;
};
struct Array3D {
  size_t width, height, depth;
  unsigned format, channels, flags;
};

enum { kCurrentDevice = -1, kNoDevice = -2 };

static int DeviceOf(const struct Properties* properties) {
  return properties->location_type == 1 ? properties->location : kNoDevice;
}

/* Bytes of one element of an array: CUarray_format names 8, 16 and 32 bits. */
static size_t ElementBytes(unsigned format) {
  if (format == 0x01 || format == 0x08) return 1;
  return format == 0x02 || format == 0x09 || format == 0x10 ? 2 : 4;
}
static size_t ArrayBytes(size_t width, size_t height, size_t depth, unsigned format,
                         unsigned channels) {
  return width * (height > 0 ? height : 1) * (depth > 0 ? depth : 1) * ElementBytes(format) *
         channels;
}
static size_t PitchBytes(size_t width, size_t height) { return (width + 511) / 512 * 512 * height; }

/* Allocations: name, name and version for cuGetProcAddress, family, parameters, arguments, bytes,
 * device, and what the driver will be given to free them. */
#define SPILLWAY_ALLOCATIONS(X)                                                                    \
  X(cuMemAlloc, "cuMemAlloc", 0, kCuda, (unsigned* at, unsigned bytes), (at, bytes), bytes,        \
    kCurrentDevice, *at)                                                                           \
  X(cuMemAlloc_v2, "cuMemAlloc", 3020, kCuda, (Address * at, size_t bytes), (at, bytes), bytes,    \
    kCurrentDevice, *at)                                                                           \
  X(cuMemAllocPitch, "cuMemAllocPitch", 0, kCuda,                                                  \
    (unsigned* at, unsigned* pitch, unsigned width, unsigned height, unsigned element),            \
    (at, pitch, width, height, element), PitchBytes(width, height), kCurrentDevice, *at)           \
  X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, kCuda,                                            \
    (Address * at, size_t* pitch, size_t width, size_t height, unsigned element),                  \
    (at, pitch, width, height, element), PitchBytes(width, height), kCurrentDevice, *at)           \
  X(cuMemAllocManaged, "cuMemAllocManaged", 0, kCuda,                                              \
    (Address * at, size_t bytes, unsigned flags), (at, bytes, flags), bytes, kCurrentDevice, *at)  \
  X(cuMemAllocAsync, "cuMemAllocAsync", 0, kCuda, (Address * at, size_t bytes, Opaque stream),     \
    (at, bytes, stream), bytes, kCurrentDevice, *at)                                               \
  X(cuMemAllocAsync_ptsz, NULL, 0, kCuda, (Address * at, size_t bytes, Opaque stream),             \
    (at, bytes, stream), bytes, kCurrentDevice, *at)                                               \
  X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 0, kCuda,                                  \
    (Address * at, size_t bytes, Opaque pool, Opaque stream), (at, bytes, pool, stream), bytes,    \
    kCurrentDevice, *at)                                                                           \
  X(cuMemAllocFromPoolAsync_ptsz, NULL, 0, kCuda,                                                  \
    (Address * at, size_t bytes, Opaque pool, Opaque stream), (at, bytes, pool, stream), bytes,    \
    kCurrentDevice, *at)                                                                           \
  X(cuMemCreate, "cuMemCreate", 0, kCuda,                                                          \
    (Address * handle, size_t bytes, const struct Properties* properties, uint64_t flags),         \
    (handle, bytes, properties, flags), bytes, DeviceOf(properties), *handle)                      \
  X(cuArrayCreate, "cuArrayCreate", 0, kCuda, (Address * handle, const struct ArrayOld* array),    \
    (handle, array), ArrayBytes(array->width, array->height, 1, array->format, array->channels),   \
    kCurrentDevice, *handle)                                                                       \
  X(cuArrayCreate_v2, "cuArrayCreate", 3020, kCuda, (Address * handle, const struct Array* array), \
    (handle, array), ArrayBytes(array->width, array->height, 1, array->format, array->channels),   \
    kCurrentDevice, *handle)                                                                       \
  X(cuArray3DCreate, "cuArray3DCreate", 0, kCuda,                                                  \
    (Address * handle, const struct Array3DOld* array), (handle, array),                           \
    ArrayBytes(array->width, array->height, array->depth, array->format, array->channels),         \
    kCurrentDevice, *handle)                                                                       \
  X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, kCuda,                                            \
    (Address * handle, const struct Array3D* array), (handle, array),                              \
    ArrayBytes(array->width, array->height, array->depth, array->format, array->channels),         \
    kCurrentDevice, *handle)                                                                       \
  X(hipMalloc, "hipMalloc", 0, kHip, (Address * at, size_t bytes), (at, bytes), bytes,             \
    kCurrentDevice, *at)                                                                           \
  X(hipExtMallocWithFlags, "hipExtMallocWithFlags", 0, kHip,                                       \
    (Address * at, size_t bytes, unsigned flags), (at, bytes, flags), bytes, kCurrentDevice, *at)  \
  X(hipMallocManaged, "hipMallocManaged", 0, kHip, (Address * at, size_t bytes, unsigned flags),   \
    (at, bytes, flags), bytes, kCurrentDevice, *at)                                                \
  X(hipMallocPitch, "hipMallocPitch", 0, kHip,                                                     \
    (Address * at, size_t* pitch, size_t width, size_t height), (at, pitch, width, height),        \
    PitchBytes(width, height), kCurrentDevice, *at)                                                \
  X(hipMallocAsync, "hipMallocAsync", 0, kHip, (Address * at, size_t bytes, Opaque stream),        \
    (at, bytes, stream), bytes, kCurrentDevice, *at)                                               \
  X(hipMallocFromPoolAsync, "hipMallocFromPoolAsync", 0, kHip,                                     \
    (Address * at, size_t bytes, Opaque pool, Opaque stream), (at, bytes, pool, stream), bytes,    \
    kCurrentDevice, *at)                                                                           \
  X(hipMemCreate, "hipMemCreate", 0, kHip,                                                         \
    (Address * handle, size_t bytes, const struct Properties* properties, uint64_t flags),         \
    (handle, bytes, properties, flags), bytes, DeviceOf(properties), *handle)

/* Frees: name, name for cuGetProcAddress and version, family, parameters, arguments, what. */
#define SPILLWAY_FREES(X)                                                                      \
  X(cuMemFree_v2, "cuMemFree", 3020, kCuda, (Address at), (at), at)                            \
  X(cuMemFreeAsync, "cuMemFreeAsync", 0, kCuda, (Address at, Opaque stream), (at, stream), at) \
  X(cuMemFreeAsync_ptsz, NULL, 0, kCuda, (Address at, Opaque stream), (at, stream), at)        \
  X(cuMemRelease, "cuMemRelease", 0, kCuda, (Address handle), (handle), handle)                \
  X(cuArrayDestroy, "cuArrayDestroy", 0, kCuda, (Address handle), (handle), handle)            \
  X(hipFree, "hipFree", 0, kHip, (Address at), (at), at)                                       \
  X(hipFreeAsync, "hipFreeAsync", 0, kHip, (Address at, Opaque stream), (at, stream), at)      \
  X(hipMemRelease, "hipMemRelease", 0, kHip, (Address handle), (handle), handle)

#define SPILLWAY_INFOS(X)                            \
  X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, kCuda, 0) \
  X(hipMemGetInfo, "hipMemGetInfo", 0, kHip, 0)

/* Without and with a last argument for the result of the search. */
#define SPILLWAY_PROCESS(X)                                      \
  X(cuGetProcAddress, "cuGetProcAddress", 0, kCuda, false)       \
  X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, kCuda, true) \
  X(hipGetProcAddress, "hipGetProcAddress", 0, kHip, true)

#define SPILLWAY_NUMBER(name, ...) kCall_##name,
enum Number {
  SPILLWAY_ALLOCATIONS(SPILLWAY_NUMBER) SPILLWAY_FREES(SPILLWAY_NUMBER)
      SPILLWAY_INFOS(SPILLWAY_NUMBER) SPILLWAY_PROCESS(SPILLWAY_NUMBER) kCalls
};

/* Slots 1 and up have a driver since their functions were handed out. */
static const struct Slot* SlotOf(enum Number call, int n) {
  const struct Slot* const slot = &spillway_calls[call].slots[n];
  if (n > 0 || __atomic_load_n(&slot->real, __ATOMIC_ACQUIRE) != NULL) return slot;
  return SpillwayExported(&spillway_calls[call]);
}

/* One name for each slot; the exported one has the driver's. */
#define SPILLWAY_EACH_SLOT(D, name, ...)                \
  D(SPILLWAY_EXPORT int, name, name, 0, __VA_ARGS__)    \
  D(static int, name##_of_slot_1, name, 1, __VA_ARGS__) \
  D(static int, name##_of_slot_2, name, 2, __VA_ARGS__) \
  D(static int, name##_of_slot_3, name, 3, __VA_ARGS__) \
  D(static int, name##_of_slot_4, name, 4, __VA_ARGS__)

/* A call that succeeds costs a look at this thread's depth and at two settings. */
#define SPILLWAY_ALLOCATE(linkage, function, name, n, params, args, wanted, device, key) \
  linkage function params;                                                               \
  linkage function params {                                                              \
    const struct Slot* const slot = SlotOf(kCall_##name, n);                             \
    int(*const real) params = (int(*) params)(uintptr_t)slot->real;                      \
    if (real == NULL) return kNotInitialized;                                            \
    if (spillway_depth != 0) return real args;                                           \
    ++spillway_depth;                                                                    \
    int code = real args;                                                                \
    --spillway_depth;                                                                    \
    if (__builtin_expect(code == kOutOfMemory, 0)) {                                     \
      struct Rescue rescue;                                                              \
      if (!SpillwayRescueBegin(&rescue, #name, slot, wanted, device)) return code;       \
      while (code == kOutOfMemory && SpillwayRescueAgain(&rescue)) {                     \
        ++spillway_depth;                                                                \
        code = real args;                                                                \
        --spillway_depth;                                                                \
      }                                                                                  \
      SpillwayRescueEnd(&rescue, code);                                                  \
    }                                                                                    \
    if (code == 0 && __builtin_expect(SpillwaySettings()->show, 0)) {                    \
      SpillwayTook(slot->driver, device, key, wanted);                                   \
    }                                                                                    \
    return code;                                                                         \
  }
#define SPILLWAY_ALLOCATE_ALL(name, asked_as, since, family, params, args, wanted, device, key) \
  SPILLWAY_EACH_SLOT(SPILLWAY_ALLOCATE, name, params, args, wanted, device, key)
SPILLWAY_ALLOCATIONS(SPILLWAY_ALLOCATE_ALL)

/* Forgotten before the driver can hand the same address out again. */
#define SPILLWAY_FREE(linkage, function, name, n, params, args, key)            \
  linkage function params;                                                      \
  linkage function params {                                                     \
    const struct Slot* const slot = SlotOf(kCall_##name, n);                    \
    int(*const real) params = (int(*) params)(uintptr_t)slot->real;             \
    if (real == NULL) return kNotInitialized;                                   \
    if (spillway_depth == 0 && SpillwaySettings()->show) SpillwayReturned(key); \
    return real args;                                                           \
  }
#define SPILLWAY_FREE_ALL(name, asked_as, since, family, params, args, key) \
  SPILLWAY_EACH_SLOT(SPILLWAY_FREE, name, params, args, key)
SPILLWAY_FREES(SPILLWAY_FREE_ALL)

#define SPILLWAY_INFO(linkage, function, name, n, unused)                                   \
  linkage function(size_t* free_bytes, size_t* total);                                      \
  linkage function(size_t* free_bytes, size_t* total) {                                     \
    const struct Slot* const slot = SlotOf(kCall_##name, n);                                \
    int (*const real)(size_t*, size_t*) = (int (*)(size_t*, size_t*))(uintptr_t)slot->real; \
    if (real == NULL) return kNotInitialized;                                               \
    ++spillway_depth;                                                                       \
    const int code = real(free_bytes, total);                                               \
    --spillway_depth;                                                                       \
    if (code != 0 || spillway_depth != 0 || !SpillwaySettings()->show) return code;         \
    if (free_bytes == NULL || total == NULL || slot->driver == NULL) return code;           \
    *free_bytes = SpillwayShown(slot->driver, *free_bytes, *total);                         \
    return code;                                                                            \
  }
#define SPILLWAY_INFO_ALL(name, asked_as, since, family, unused) \
  SPILLWAY_EACH_SLOT(SPILLWAY_INFO, name, unused)
SPILLWAY_INFOS(SPILLWAY_INFO_ALL)

#define SPILLWAY_PROCESS_false(linkage, function, name, n, family)               \
  linkage function(const char* symbol, void** at, int version, uint64_t flags);  \
  linkage function(const char* symbol, void** at, int version, uint64_t flags) { \
    const struct Slot* const slot = SlotOf(kCall_##name, n);                     \
    const ProcessCall real = (ProcessCall)(uintptr_t)slot->real;                 \
    if (real == NULL) return kNotInitialized;                                    \
    const int code = real(symbol, at, version, flags);                           \
    if (code == 0 && at != NULL && *at != NULL) {                                \
      *at = SpillwayHandOut(slot, family, false, symbol, version, *at);          \
    }                                                                            \
    return code;                                                                 \
  }
#define SPILLWAY_PROCESS_true(linkage, function, name, n, family)                             \
  linkage function(const char* symbol, void** at, int version, uint64_t flags, int* result);  \
  linkage function(const char* symbol, void** at, int version, uint64_t flags, int* result) { \
    const struct Slot* const slot = SlotOf(kCall_##name, n);                                  \
    const ProcessCallWithResult real = (ProcessCallWithResult)(uintptr_t)slot->real;          \
    if (real == NULL) return kNotInitialized;                                                 \
    const int code = real(symbol, at, version, flags, result);                                \
    if (code == 0 && at != NULL && *at != NULL) {                                             \
      *at = SpillwayHandOut(slot, family, true, symbol, version, *at);                        \
    }                                                                                         \
    return code;                                                                              \
  }
#define SPILLWAY_PROCESS_ALL(name, asked_as, since, family, has_result) \
  SPILLWAY_EACH_SLOT(SPILLWAY_PROCESS_##has_result, name, family)
SPILLWAY_PROCESS(SPILLWAY_PROCESS_ALL)

#define SPILLWAY_ENTRY(call, asked, from, of, sort)                                          \
  {.name = #call,                                                                            \
   .asked_as = asked,                                                                        \
   .since = from,                                                                            \
   .family = of,                                                                             \
   .kind = sort,                                                                             \
   .ours = {(Function) & call, (Function) & call##_of_slot_1, (Function) & call##_of_slot_2, \
            (Function) & call##_of_slot_3, (Function) & call##_of_slot_4}},
#define SPILLWAY_PLAIN_ENTRY(call, asked, from, of, ...) \
  SPILLWAY_ENTRY(call, asked, from, of, kPlainCall)
#define SPILLWAY_SHOWN_ENTRY(call, asked, from, of, ...) \
  SPILLWAY_ENTRY(call, asked, from, of, kShownCall)

struct Call spillway_calls[] = {
    SPILLWAY_ALLOCATIONS(SPILLWAY_PLAIN_ENTRY) SPILLWAY_FREES(SPILLWAY_SHOWN_ENTRY)
        SPILLWAY_INFOS(SPILLWAY_SHOWN_ENTRY) SPILLWAY_PROCESS(SPILLWAY_PLAIN_ENTRY)};
const size_t spillway_call_count = kCalls;
