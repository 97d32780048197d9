/* SPDX-License-Identifier: Apache-2.0
 * A module that is linked with the driver and loaded by a program for itself alone, as Python
 * loads its extensions: the driver is in no scope but this module's. */
#include <stddef.h>
#include <stdint.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxPushCurrent_v2(void* context);
int cuMemAlloc_v2(uint64_t* at, size_t bytes);

__attribute__((visibility("default"))) int Take(size_t bytes);
int Take(size_t bytes) {
  void* context = NULL;
  uint64_t at = 0;
  if (cuInit(0) != 0) return -1;
  if (cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxPushCurrent_v2(context) != 0) return -2;
  return cuMemAlloc_v2(&at, bytes);
}
