/* SPDX-License-Identifier: Apache-2.0
 * Free memory as it is shown to a program that sizes itself by it: what is free, and what the
 * caches could give at once. Programs take the figure for a fact about the card, so it must not
 * rise while they allocate: what was shown first, less what the program has allocated since, is
 * the most that is shown. For that, allocations are remembered: a table of pages of our own, which
 * only this mode has. */
#include <sys/mman.h>

#include "preload/preload.h"

enum { kPlaces = 1 << 20, kDevices = 32, kTries = 64 };

/* key 0: free; 1: was used. An allocation's address or handle is neither. */
struct Made {
  uint64_t key;
  uint64_t bytes_and_device; /* The device in the lowest six bits: bytes are whole words. */
};
static struct Made* made;

static struct {
  uint64_t own;     /* Bytes the program has allocated. */
  uint64_t ceiling; /* What was shown first plus what it had then, plus 1; 0: nothing yet. */
} devices[kDevices];

static struct Made* Table(void) {
  struct Made* table = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
  if (table != NULL) return table;
  struct Made* const fresh = mmap(NULL, kPlaces * sizeof *fresh, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) return NULL;
  if (__atomic_compare_exchange_n(&made, &table, fresh, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return fresh;
  }
  munmap(fresh, kPlaces * sizeof *fresh);
  return table;
}

static size_t Home(uint64_t key) { return (key * UINT64_C(0x9E3779B97F4A7C15)) >> 44; }

static int Current(const struct Driver* driver, int device) {
  if (device < 0) {
    ++spillway_depth;
    if (driver->current_device(&device) != 0) device = -1;
    --spillway_depth;
  }
  return device < kDevices ? device : -1;
}

/* An allocation that is not remembered, because its neighbourhood of the table is full, only makes
 * the ceiling lower it less than it could. */
void SpillwayTook(const struct Driver* driver, int device, uint64_t key, uint64_t bytes) {
  struct Made* const table = Table();
  if (driver == NULL || table == NULL || key < 2) return;
  device = Current(driver, device);
  if (device < 0) return;
  bytes &= ~UINT64_C(63);
  for (size_t i = 0; i < kTries; ++i) {
    struct Made* const place = &table[(Home(key) + i) % kPlaces];
    uint64_t before = __atomic_load_n(&place->key, __ATOMIC_RELAXED);
    if (before > 1) continue;
    if (!__atomic_compare_exchange_n(&place->key, &before, key, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
      continue;
    }
    __atomic_store_n(&place->bytes_and_device, bytes | (uint64_t)device, __ATOMIC_RELEASE);
    __atomic_fetch_add(&devices[device].own, bytes, __ATOMIC_RELAXED);
    return;
  }
}

void SpillwayReturned(uint64_t key) {
  struct Made* const table = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
  if (table == NULL || key < 2) return;
  for (size_t i = 0; i < kTries; ++i) {
    struct Made* const place = &table[(Home(key) + i) % kPlaces];
    const uint64_t here = __atomic_load_n(&place->key, __ATOMIC_ACQUIRE);
    if (here == 0) return;
    if (here != key) continue;
    const uint64_t what = __atomic_load_n(&place->bytes_and_device, __ATOMIC_ACQUIRE);
    __atomic_fetch_sub(&devices[what & 63].own, what & ~UINT64_C(63), __ATOMIC_RELAXED);
    __atomic_store_n(&place->key, 1, __ATOMIC_RELEASE);
    return;
  }
}

static uint64_t AtOnce(const struct Driver* driver, int* device) {
  char name[kUuidText];
  ++spillway_depth;
  const bool known = SpillwayDeviceName(driver, -1, device, name);
  --spillway_depth;
  if (!known) return 0;
  struct Asking* const asking = SpillwayAskOpen(name, SpillwayNow() + SpillwaySettings()->wait_ns);
  if (asking == NULL) return 0;
  const uint64_t bytes = SpillwayAskAtOnce(asking);
  SpillwayAskClose(asking);
  return bytes;
}

uint64_t SpillwayShown(const struct Driver* driver, uint64_t free_bytes, uint64_t total) {
  int device = -1;
  const uint64_t more = AtOnce(driver, &device);
  if (free_bytes > total) return free_bytes;
  uint64_t shown = more > total - free_bytes ? total : free_bytes + more;
  if (device < 0 || device >= kDevices) return shown;
  const uint64_t own = __atomic_load_n(&devices[device].own, __ATOMIC_RELAXED);
  uint64_t ceiling = 0;
  if (!__atomic_compare_exchange_n(&devices[device].ceiling, &ceiling, shown + own + 1, false,
                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    const uint64_t most = ceiling - 1 > own ? ceiling - 1 - own : 0;
    if (shown > most) shown = most;
  }
  return shown;
}
