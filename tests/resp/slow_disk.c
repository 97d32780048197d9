// SPDX-License-Identifier: Apache-2.0
// slow_disk.so, preloaded into spillwayd: reading the disk tier's journal at the start
// takes SLOW_DISK_MS longer. So kill.py has a daemon that is still finding what lies on
// its disk while clients write, without a disk that holds millions of entries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// Headers are read by less, before the daemon serves anybody.
enum { kWindow = 1 << 20 };

static void Wait(int file, size_t bytes) {
  static atomic_bool waited;
  const char* const ms = getenv("SLOW_DISK_MS");
  if (ms == NULL || bytes < kWindow) return;
  char link[64];
  char name[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, name, sizeof name - 1);
  if (length <= 0) return;
  name[length] = '\0';
  if (strstr(name, "/journal-") == NULL || atomic_exchange(&waited, 1)) return;
  const long all = atol(ms);
  struct timespec left = {all / 1000, all % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) continue;
}

typedef ssize_t Pread(int, void*, size_t, off_t);
static ssize_t Read(const char* name, int file, void* data, size_t bytes, off_t at) {
  Wait(file, bytes);
  return ((Pread*)dlsym(RTLD_NEXT, name))(file, data, bytes, at);
}

#pragma GCC visibility push(default)
ssize_t pread(int file, void* data, size_t bytes, off_t at) {
  return Read("pread", file, data, bytes, at);
}
ssize_t pread64(int file, void* data, size_t bytes, off_t at) {
  return Read("pread64", file, data, bytes, at);
}
#pragma GCC visibility pop
