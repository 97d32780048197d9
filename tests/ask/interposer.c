/* SPDX-License-Identifier: Apache-2.0
 * Another library that stands in front of the driver, as profilers and memory limiters do: of the
 * symbol, and of dlsym. It counts, and says so at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*Alloc)(uint64_t*, size_t);
static Alloc looked_up;
static int counted;
static int failed;

__attribute__((visibility("default"))) int cuMemAlloc_v2(uint64_t* at, size_t bytes);
int cuMemAlloc_v2(uint64_t* at, size_t bytes) {
  Alloc next = looked_up;
  if (next == NULL) next = (Alloc)(uintptr_t)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
  ++counted;
  const int code = next(at, bytes);
  failed += code != 0;
  return code;
}

__attribute__((visibility("default"))) void* dlsym(void* handle, const char* name);
void* dlsym(void* handle, const char* name) {
  static void* (*next)(void*, const char*);
  if (next == NULL) {
    next = (void* (*)(void*, const char*))(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  }
  void* const found = next(handle, name);
  if (found == NULL || handle == RTLD_NEXT || strcmp(name, "cuMemAlloc_v2") != 0) return found;
  if (found == (void*)(uintptr_t)&cuMemAlloc_v2) return found;
  looked_up = (Alloc)(uintptr_t)found;
  return (void*)(uintptr_t)&cuMemAlloc_v2;
}

__attribute__((destructor)) static void End(void) {
  if (counted > 0) fprintf(stderr, "interposer: %d calls, %d failed\n", counted, failed);
}
