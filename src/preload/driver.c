/* SPDX-License-Identifier: Apache-2.0
 * The functions of a driver that we call ourselves. They are looked up when the program looks up
 * its own, never on the path of a failing call. A driver that was unloaded and loaded again
 * elsewhere is another one: its functions have other addresses, and so do the program's. */
#include "preload/preload.h"

static struct Entry {
  int taken;
  int ready;
  struct Driver driver;
} drivers[kDriversMax];

static void Fill(struct Driver* driver, Finder find, void* from) {
  const bool cuda = driver->family == kCuda;
  void* const found[] = {
      find(from, cuda ? "cuCtxGetDevice" : "hipGetDevice"),
      find(from, cuda ? "cuDeviceGetUuid_v2" : "hipDeviceGetUuid"),
      cuda ? find(from, "cuDeviceGetUuid") : NULL,
      find(from, cuda ? "cuMemGetInfo_v2" : "hipMemGetInfo"),
      cuda ? NULL : find(from, "hipGetLastError"),
  };
  driver->current_device = (int (*)(int*))(uintptr_t)found[0];
  driver->uuid = (int (*)(void*, int))(uintptr_t)(found[1] != NULL ? found[1] : found[2]);
  driver->memory_info = (int (*)(size_t*, size_t*))(uintptr_t)found[3];
  driver->last_error = (int (*)(void))(uintptr_t)found[4];
}

static bool Same(const struct Driver* a, const struct Driver* b) {
  return a->family == b->family && a->current_device == b->current_device && a->uuid == b->uuid &&
         a->memory_info == b->memory_info && a->last_error == b->last_error;
}

const struct Driver* SpillwayDriver(enum Family family, Finder find, void* from) {
  struct Driver driver = {.family = family};
  Fill(&driver, find, from);
  if (driver.current_device == NULL || driver.uuid == NULL) return NULL;
  for (size_t i = 0; i < kDriversMax; ++i) {
    struct Entry* const entry = &drivers[i];
    if (__atomic_load_n(&entry->ready, __ATOMIC_ACQUIRE) != 0) {
      if (Same(&entry->driver, &driver)) return &entry->driver;
      continue;
    }
    int expected = 0;
    if (!__atomic_compare_exchange_n(&entry->taken, &expected, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
      continue; /* Another thread fills it. If it is the same driver, it has two entries. */
    }
    entry->driver = driver;
    __atomic_store_n(&entry->ready, 1, __ATOMIC_RELEASE);
    return &entry->driver;
  }
  return NULL;
}

bool SpillwayDeviceName(const struct Driver* driver, int device, int* ordinal,
                        char text[kUuidText]) {
  static const char digits[] = "0123456789abcdef";
  unsigned char bytes[16] = {0};
  if (device < 0 && driver->current_device(&device) != 0) return false;
  *ordinal = device;
  if (driver->uuid(bytes, device) != 0) return false;
  size_t at = 0;
  for (const char* c = "GPU-"; *c != '\0'; ++c) text[at++] = *c;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
    text[at++] = digits[bytes[i] >> 4];
    text[at++] = digits[bytes[i] & 15];
  }
  text[at] = '\0';
  return true;
}
