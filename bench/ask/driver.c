/* SPDX-License-Identifier: Apache-2.0
 * The least driver that libspillway_ask.so stands in front of: its calls do nothing, so that what
 * is measured is the library. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DRIVER __attribute__((visibility("default")))

DRIVER int bench_answer = 0;

DRIVER int cuCtxGetDevice(int* device);
DRIVER int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
DRIVER int cuDeviceGetUuid_v2(void* bytes, int device);
DRIVER int cuDeviceGetUuid_v2(void* bytes, int device) {
  memset(bytes, device + 1, 16);
  return 0;
}
DRIVER int cuMemGetInfo_v2(size_t* free_bytes, size_t* total);
DRIVER int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  *free_bytes = *total = (size_t)1 << 36;
  return 0;
}
DRIVER int cuMemAlloc_v2(uint64_t* at, size_t bytes);
DRIVER int cuMemAlloc_v2(uint64_t* at, size_t bytes) {
  *at = bytes;
  return bench_answer;
}
