/* SPDX-License-Identifier: Apache-2.0
 * libspillway_ask.so: preloaded into a program that knows nothing of Spillway, it stands in front
 * of the GPU driver's allocation calls. While they succeed it does nothing. When one answers "out
 * of memory" it asks the caches on that device for what is missing and calls the driver again.
 *
 *   symbols.c    which function is called instead of which: dlsym, dlvsym, slots
 *   elf.c        finds a function in the libraries that are loaded, without dlsym
 *   calls.c      the calls in front of the driver's
 *   process.c    the same for functions that drivers hand out by name (cuGetProcAddress)
 *   driver.c     what the library itself asks a driver: which device, how much is free
 *   rescue.c     a failed call: ask, try again, give up
 *   ask.c        the asking side of docs/design/ask.md
 *   sockets.c    the sockets of the caches of a device
 *   shown.c      free memory as a program sees it that sizes itself by it
 *   settings.c   environment, log, counters
 *
 * It lives in processes that are not ours:
 * 1. After the first call of a function nothing on its path allocates by malloc, opens a library
 *    or resets dlerror. A failing call uses stack, and pages of its own from mmap.
 * 2. No lock is held anywhere; shared state is atomic and only grows. So a fork or a signal in the
 *    middle of a call leaves nothing locked.
 * 3. errno and the cancellation state are as the driver's call left them.
 * 4. No descriptor outlives the call that opened it.
 * 5. Whatever can't be done (no slot left, no symbol, no socket) ends in the driver's own answer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPILLWAY_EXPORT __attribute__((visibility("default")))

/* What runs before a sanitizer has started must not be instrumented by it. */
#if defined(__clang__)
#define SPILLWAY_PLAIN __attribute__((disable_sanitizer_instrumentation, no_sanitize("all")))
#else
#define SPILLWAY_PLAIN
#endif

enum {
  kOutOfMemory = 2,    /* The same number in CUDA's driver API and in HIP. */
  kNotInitialized = 3, /* As both answer before their init. */
  kUuidText = 48,      /* "GPU-", 36 characters, and room to spare. */
  kSlots = 5,          /* Of one function: the exported one and four that were looked up. */
  kDriversMax = 16
};

/* --- settings.c --- */

struct Settings {
  int64_t wait_ns; /* How long a failed call may take. */
  bool show;       /* Free memory includes what the caches could give at once. */
  bool off;
  char log[256];     /* "stderr", a file, or nothing. */
  char run_dir[100]; /* SPILLWAY_RUN_DIR; a longer path can't name a socket. */
  char xdg_dir[100];
  bool only_run_dir;
};
const struct Settings* SpillwaySettings(void);
int64_t SpillwayNow(void); /* Nanoseconds of the monotonic clock. */

/* The end of one rescue, for the log and the counters. */
struct Outcome {
  const char* function;
  uint64_t bytes;
  uint64_t given;
  uint32_t caches;
  uint32_t asks;
  int64_t took_ns;
  int code;
};
void SpillwayCount(const struct Outcome* outcome);

/* --- elf.c --- */

/* The function `name` of a library that the program was started with, by how its file name begins.
 * Null: there is none. */
void* SpillwayFindStarted(const char* library, const char* name);
/* The function `name` of any loaded library but this one. */
void* SpillwayFindLoaded(const char* name);
/* Whether `at` is in this library. */
bool SpillwayIsOwn(const void* at);

/* --- driver.c --- */

enum Family { kCuda, kHip };

/* What we ask of the driver whose call has failed. A null member: it can't be asked. */
struct Driver {
  enum Family family;
  int (*current_device)(int* device);
  int (*uuid)(void* bytes16, int device);
  int (*memory_info)(size_t* free, size_t* total);
  int (*last_error)(void); /* HIP keeps the code of a failed call until it is read. */
};

typedef void* (*Finder)(void* from, const char* name);
/* The driver whose functions `find` returns. Null: no room for another. */
const struct Driver* SpillwayDriver(enum Family family, Finder find, void* from);
/* Its device (-1: the calling thread's current one) as caches name it. */
bool SpillwayDeviceName(const struct Driver* driver, int device, int* ordinal,
                        char text[kUuidText]);

/* --- symbols.c, calls.c, process.c --- */

/* A function of a driver, and what is known of it. Slot 0 is the one behind our exported symbol. */
struct Slot {
  int taken;
  void* real;
  const struct Driver* driver;
};

typedef void (*Function)(void);

/* kShownCall: stands in front of the driver's only when the setting `show` is on. */
enum Kind { kPlainCall, kShownCall };

/* One function that is interposed. */
struct Call {
  const char* name;     /* As dlsym knows it. */
  const char* asked_as; /* As cuGetProcAddress knows it, from `since` on. */
  int since;
  enum Family family;
  enum Kind kind;
  Function ours[kSlots]; /* What is called instead, for each slot. */
  struct Slot slots[kSlots];
};
extern struct Call spillway_calls[];
extern const size_t spillway_call_count;

/* The function in front of `real`, or `real` if it is none of ours or no slot is left. */
void* SpillwayInstead(struct Call* call, void* real, const struct Driver* driver);
struct Call* SpillwayCallNamed(const char* name);
struct Call* SpillwayCallAskedAs(const char* name, int version);
/* The slot behind an exported symbol; its `real` is null if no driver is loaded. */
const struct Slot* SpillwayExported(struct Call* call);

/* Not zero while this thread is in a driver's call: what that calls in turn is left alone. */
extern __thread int spillway_depth __attribute__((tls_model("initial-exec")));

/* --- rescue.c --- */

struct Asking;
struct Rescue {
  const char* function;
  const struct Driver* driver;
  struct Asking* asking;
  size_t bytes;
  int64_t began;
  int64_t until;
  unsigned tries;
  bool last;
  bool can_tell; /* The current device is the one that is full, so its free memory can be read. */
  int saved_errno;
  int cancel_state;
  struct Outcome outcome;
};
/* A call has answered "out of memory". False: nothing can be asked, and nothing was begun. */
bool SpillwayRescueBegin(struct Rescue* rescue, const char* function, const struct Slot* slot,
                         size_t bytes, int device);
/* Asks for what is missing. True: call the driver again. */
bool SpillwayRescueAgain(struct Rescue* rescue);
void SpillwayRescueEnd(struct Rescue* rescue, int code);

/* --- ask.c --- */

struct Given {
  uint64_t freed;
  uint32_t caches; /* That answered. */
  bool more;       /* Some may give more, or could not listen just now. */
};
/* Null: no memory, or no cache of that device can be reached. */
struct Asking* SpillwayAskOpen(const char* device, int64_t until);
/* Asks all of them for `bytes` together; `keep` is to be free in the end. */
struct Given SpillwayAsk(struct Asking* asking, uint64_t bytes, uint64_t keep, int64_t until);
/* How much they could give at once. */
uint64_t SpillwayAskAtOnce(const struct Asking* asking);
/* Ends what was granted, too. */
void SpillwayAskClose(struct Asking* asking);

/* --- sockets.c --- */

/* Connects to the next socket of `device`. -1: there is none left; -2: it must be tried later. */
struct SocketSearch {
  const char* device;
  int place; /* Which directory; -1 before the first. */
  int dir;
  int at;
  int end;
  char path[128];
  char entries[4096] __attribute__((aligned(8)));
};
void SpillwaySearchBegin(struct SocketSearch* search, const char* device);
int SpillwaySearchNext(struct SocketSearch* search);
void SpillwaySearchEnd(struct SocketSearch* search);

/* --- shown.c --- */

/* Called when the setting `show` is on. */
void SpillwayTook(const struct Driver* driver, int device, uint64_t key, uint64_t bytes);
void SpillwayReturned(uint64_t key);
uint64_t SpillwayShown(const struct Driver* driver, uint64_t free_bytes, uint64_t total);
