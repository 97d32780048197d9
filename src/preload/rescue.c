/* SPDX-License-Identifier: Apache-2.0
 * A call that has answered "out of memory" is a rescue until it succeeds, no cache can give more,
 * or the time is over. Between two tries nothing is held but the connections to the caches: while
 * they are open the caches leave free what they have given. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "preload/preload.h"

/* Drivers hand memory out in such pieces. */
static const size_t kGranularity = (size_t)2 << 20;
/* Not more than this is asked for beyond what a call wants, however often it fails. */
static const size_t kMarginMax = (size_t)256 << 20;

static size_t Min(size_t a, size_t b) { return a < b ? a : b; }

static void Restore(const struct Rescue* rescue) {
  int ignored;
  pthread_setcancelstate(rescue->cancel_state, &ignored);
  errno = rescue->saved_errno;
}

bool SpillwayRescueBegin(struct Rescue* rescue, const char* function, const struct Slot* slot,
                         size_t bytes, int device) {
  const struct Settings* const settings = SpillwaySettings();
  const struct Driver* const driver = slot->driver;
  if (settings->off || driver == NULL || bytes == 0) return false;
  const int saved_errno = errno;
  *rescue = (struct Rescue){
      .function = function, .driver = driver, .bytes = bytes, .saved_errno = saved_errno};
  char name[kUuidText];
  int ordinal = -1;
  int current = -1;
  ++spillway_depth;
  const bool known = SpillwayDeviceName(driver, device, &ordinal, name);
  if (device < 0) current = ordinal;
  rescue->can_tell = known && (current == ordinal ||
                               (driver->current_device(&current) == 0 && current == ordinal));
  --spillway_depth;
  if (known) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &rescue->cancel_state);
    rescue->began = SpillwayNow();
    rescue->until = rescue->began + settings->wait_ns;
    rescue->outcome = (struct Outcome){.function = function, .bytes = bytes};
    rescue->asking = SpillwayAskOpen(name, rescue->until);
    if (rescue->asking != NULL) return true;
    rescue->outcome.code = kOutOfMemory;
    SpillwayCount(&rescue->outcome);
    Restore(rescue);
  }
  errno = saved_errno;
  return false;
}

/* Free memory as the driver tells it; 0: it does not. */
static size_t FreeNow(const struct Rescue* rescue) {
  size_t free_bytes = 0;
  size_t total = 0;
  if (!rescue->can_tell || rescue->driver->memory_info == NULL) return 0;
  ++spillway_depth;
  if (rescue->driver->memory_info(&free_bytes, &total) != 0) free_bytes = 0;
  --spillway_depth;
  return free_bytes;
}

/* Twice as long after each try, at most 32 ms, and not beyond the deadline. */
static void Pause(const struct Rescue* rescue) {
  const unsigned shift = rescue->tries < 6 ? rescue->tries : 6;
  int64_t ns = (int64_t)500000 << shift;
  const int64_t left = rescue->until - SpillwayNow();
  if (ns > left) ns = left;
  if (ns <= 0) return;
  const struct timespec pause = {0, ns};
  nanosleep(&pause, NULL);
}

bool SpillwayRescueAgain(struct Rescue* rescue) {
  if (rescue->last) return false;
  for (;;) {
    /* What it was given was not enough, or another program was faster. */
    if (rescue->tries > 0) Pause(rescue);
    if (SpillwayNow() >= rescue->until) return false;
    /* Asked for in whole pieces; each failure shows that the driver needs more than is told. */
    const size_t margin = Min(kGranularity << Min(rescue->tries, 7), kMarginMax);
    const size_t whole =
        rescue->bytes > SIZE_MAX - 2 * kMarginMax
            ? rescue->bytes
            : (rescue->bytes + kGranularity - 1) / kGranularity * kGranularity + margin;
    const size_t free_bytes = FreeNow(rescue);
    const size_t missing = free_bytes < whole ? whole - free_bytes : margin;
    ++rescue->tries;
    const struct Given given = SpillwayAsk(rescue->asking, missing, whole, rescue->until);
    ++rescue->outcome.asks;
    rescue->outcome.given += given.freed;
    if (given.caches > rescue->outcome.caches) rescue->outcome.caches = given.caches;
    if (given.freed > 0) return true;
    if (given.more) continue;
    /* No cache can give more. What others have given back meanwhile may be enough. */
    rescue->last = true;
    return given.caches > 0;
  }
}

void SpillwayRescueEnd(struct Rescue* rescue, int code) {
  /* The program must not find the error of a call that has succeeded in the end. */
  if (code == 0 && rescue->driver->last_error != NULL) {
    ++spillway_depth;
    (void)rescue->driver->last_error();
    --spillway_depth;
  }
  SpillwayAskClose(rescue->asking);
  rescue->outcome.code = code;
  rescue->outcome.took_ns = SpillwayNow() - rescue->began;
  SpillwayCount(&rescue->outcome);
  Restore(rescue);
}
