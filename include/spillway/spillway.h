// SPDX-License-Identifier: Apache-2.0
/* The C ABI of Spillway: the cache of spillway/cache.h, for C and for every language that can
 * call C.
 *
 *   spillway_cache* cache;
 *   if (spillway_cache_open(NULL, &cache) != SPILLWAY_OK) puts(spillway_error_message());
 *   spillway_cache_put(cache, spillway_text("context:planner"), bytes, size, NULL);
 *   spillway_lease lease;
 *   spillway_cache_get(cache, spillway_text("context:planner"), &lease);
 *   if (lease.handle != 0) use(lease.data, lease.bytes);
 *   spillway_lease_release(&lease);
 *   spillway_cache_close(cache);
 *
 * Rules for every function:
 *   - It may be called from any thread. Only open and close of one cache must not overlap with
 *     other calls on it.
 *   - A function that can fail returns a spillway_code; spillway_error_message() gives this
 *     thread's message for it. A missing key is not a failure.
 *   - NULL for a required argument is SPILLWAY_INVALID_ARGUMENT. No exception is thrown.
 *   - Structs that may grow in later versions begin with their size: set it to sizeof, or call
 *     the init function. Fields beyond the caller's size get their defaults; in all other
 *     structs zero is the default.
 *   - A cache does not survive a fork: in the child process every call on a cache that the parent
 *     opened returns SPILLWAY_CLOSED, spillway_cache_close included. Open a new one there.
 *   - A key is 1 to 65,536 arbitrary bytes. Returned text is UTF-8 if the keys in it are.
 *
 * SPILLWAY_ABI_VERSION is the version of this interface. It rises when an existing function or
 * field changes its meaning, not when functions or fields are added. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "spillway/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPILLWAY_ABI_VERSION 1

/* --- names and codes --- */

typedef enum spillway_code {
  SPILLWAY_OK = 0,
  SPILLWAY_INVALID_ARGUMENT = 1, /* The request itself is wrong. */
  SPILLWAY_BLOCKED = 2,          /* Pressure: no tier accepts new entries now. */
  SPILLWAY_OVER_BUDGET = 3,      /* The token budget is used up; no entry may be evicted. */
  SPILLWAY_TOO_LARGE = 4,        /* Larger than the capacity of every tier. */
  SPILLWAY_NO_MEMORY = 5,        /* A device or the system refused to allocate memory. */
  SPILLWAY_NOT_RESIDENT = 6,     /* The entry exists, but not in the tier asked for. */
  SPILLWAY_DEADLINE = 7,         /* The time limit of the call was reached. */
  SPILLWAY_CANCELLED = 8,
  SPILLWAY_BUSY = 9,         /* A limit was reached. */
  SPILLWAY_CLOSED = 10,      /* The cache is closed or closing. */
  SPILLWAY_UNAVAILABLE = 11, /* A device, file or pressure source is missing. */
  SPILLWAY_INTERNAL = 12,
  SPILLWAY_CORRUPT = 13 /* The bytes differ from those that were stored. */
} spillway_code;

typedef enum spillway_level {
  SPILLWAY_RELAXED = 0,
  SPILLWAY_NORMAL = 1,
  SPILLWAY_PRESSURE = 2,
  SPILLWAY_CRITICAL = 3,
  SPILLWAY_EMERGENCY = 4,
  SPILLWAY_WORKFLOW_AWARE = 5 /* A mode, never a level. */
} spillway_level;

typedef enum spillway_place { SPILLWAY_HOST = 0, SPILLWAY_DEVICE = 1 } spillway_place;

/* What a client knows about an entry's next use: it will be used again, or it is done. */
typedef enum spillway_hint {
  SPILLWAY_HINT_NONE = 0,
  SPILLWAY_HINT_AGAIN = 1,
  SPILLWAY_HINT_DONE = 2
} spillway_hint;

/* Lower-case names, as used in logs and metrics; "" for unknown numbers. */
SPILLWAY_API const char* spillway_code_name(int32_t code); /* "InvalidArgument" */
SPILLWAY_API const char* spillway_mode_name(int32_t mode);
SPILLWAY_API const char* spillway_action_name(int32_t action);
SPILLWAY_API const char* spillway_reason_name(int32_t reason);

/* "0.1.0", and the SPILLWAY_ABI_VERSION the library was built with. */
SPILLWAY_API const char* spillway_version(void);
SPILLWAY_API int32_t spillway_abi_version(void);

/* The message of the last failed call on this thread; "" if none has failed. Valid until the
 * next call on this thread fails. */
SPILLWAY_API const char* spillway_error_message(void);

/* --- the log --- */

typedef enum spillway_log_level {
  SPILLWAY_LOG_INFO = 0,
  SPILLWAY_LOG_WARNING = 1,
  SPILLWAY_LOG_ERROR = 2,
  SPILLWAY_LOG_OFF = 3
} spillway_log_level;
/* Receives one line of the log. May be called from any thread, one line at a time. Must not call
 * the library. */
typedef void (*spillway_log_call)(int32_t level, const char* text, void* context);
/* Sets the log of the whole process: lines less serious than `least` are dropped; the rest goes
 * to `call` or, if that is NULL, to standard error. */
SPILLWAY_API spillway_code spillway_set_log(int32_t least, spillway_log_call call, void* context);

/* Frees text that a function of this library returned as a `char**`. */
SPILLWAY_API void spillway_free(void* text);

/* --- bytes --- */

typedef struct spillway_bytes {
  const void* data;
  size_t bytes;
} spillway_bytes;

static inline spillway_bytes spillway_text(const char* text) {
  spillway_bytes bytes;
  bytes.data = text;
  bytes.bytes = text ? strlen(text) : 0;
  return bytes;
}

/* A piece of a value: the memory to read it from, or to write it to. GPU memory requires a cache
 * on that GPU (options.device); other caches refuse it. */
typedef struct spillway_fragment {
  const void* data;
  uint64_t bytes;
  int32_t place; /* spillway_place */
} spillway_fragment;

typedef struct spillway_sink {
  void* data;
  uint64_t bytes;
  int32_t place; /* spillway_place */
} spillway_sink;

/* When pieces in device memory may be read or written: after all work submitted to a stream so
 * far, or after an event (CUstream, CUevent or the HIP types). NONE: all work on them has
 * completed. The default stream is a stream, too, and needs SPILLWAY_AFTER_STREAM. */
typedef enum spillway_after {
  SPILLWAY_AFTER_NONE = 0,
  SPILLWAY_AFTER_STREAM = 1,
  SPILLWAY_AFTER_EVENT = 2
} spillway_after;

typedef struct spillway_order {
  int32_t after; /* spillway_after */
  void* handle;
} spillway_order;

/* --- a cache --- */

typedef struct spillway_cache spillway_cache;

#define SPILLWAY_WHOLE_CARD UINT64_MAX /* For options.capacity_bytes. */
#define SPILLWAY_NONE INT64_C(-1)      /* For times and budgets: no limit. */

/* The fields of spillway::Options; docs/reference/settings.md explains each. */
typedef struct spillway_options {
  size_t size;
  const char* device; /* NULL: "cpu" */
  const char* card;   /* NULL: a private card. */
  uint64_t capacity_bytes;
  int32_t unlimited;
  uint64_t entries_max;
  uint64_t names_bytes_max;
  double reserve;
  uint64_t reserve_bytes_min;
  double threshold_normal;
  double threshold_pressure;
  double threshold_critical;
  double threshold_emergency;
  double exit_band;
  int64_t dwell_ms;
  int64_t sample_period_ms;
  const char* policy; /* NULL: "score" */
  int64_t ttl_ms;
  int64_t idle_normal_ms;
  int64_t idle_critical_ms;
  int64_t token_budget;
  int64_t reclaim_slice_ms;
  const char* pressure_source;      /* NULL: "auto" */
  uint64_t host_capacity_bytes;     /* 0: no host tier. */
  const char* host_pressure_source; /* NULL: "host" */
  const char* disk_dir;             /* NULL: no disk tier. */
  uint64_t disk_capacity_bytes;     /* 0: a quarter of the free space there. */
  const char* disk_pressure_source; /* NULL: "auto" */
  int64_t write_back_after_ms;      /* Or SPILLWAY_NONE. */
  uint64_t write_back_rate;         /* Bytes a second; 0: no bound. */
  int64_t room_wait_ms;
  int64_t emergency_time_ms;
  int64_t host_ttl_ms; /* Or SPILLWAY_NONE. */
  int64_t disk_ttl_ms; /* Or SPILLWAY_NONE. */
  int32_t ask;
  const char* ask_group;           /* NULL: only our own user and root may ask. */
  const char* zero_before_release; /* NULL: "auto" */
  int32_t disk_read_back;
  int64_t scrub_every_ms; /* Or SPILLWAY_NONE. */
  uint64_t prefetch_steps;
  const char* log; /* NULL: unchanged. */
  uint64_t history_entries;
  const char* trace; /* A file for `spillway replay`. NULL: none. */
} spillway_options;

/* Sets all fields to the preset "default" (or NULL) or "seed".
 *   spillway_options options;
 *   spillway_options_init(&options, sizeof options, NULL); */
SPILLWAY_API spillway_code spillway_options_init(spillway_options* options, size_t size,
                                                 const char* preset);

/* Opens a cache. `options` NULL: the defaults. On failure *cache is NULL and nothing stays open. */
SPILLWAY_API spillway_code spillway_cache_open(const spillway_options* options,
                                               spillway_cache** cache);
/* Opens a cache with the text of a configuration file. `file_name` (or NULL) is used in
 * messages. */
SPILLWAY_API spillway_code spillway_cache_open_toml(spillway_bytes text, const char* file_name,
                                                    spillway_cache** cache);
/* Opens a cache with a configuration file. */
SPILLWAY_API spillway_code spillway_cache_open_file(const char* path, spillway_cache** cache);
/* Closes a cache, after all submitted batches have ended. NULL is allowed. Open leases stay
 * valid; their memory is freed when the last of them is released. The cache is closed in any
 * case. SPILLWAY_UNAVAILABLE or SPILLWAY_DEADLINE: deletes could not be written to the disk
 * tier, so values that were replaced or erased may come back when it is opened again. */
SPILLWAY_API spillway_code spillway_cache_close(spillway_cache* cache);

/* Start begins pressure sampling and background work; stop ends both. Both may be repeated. */
SPILLWAY_API spillway_code spillway_cache_start(spillway_cache* cache);
SPILLWAY_API spillway_code spillway_cache_stop(spillway_cache* cache);

/* --- leases --- */

/* A right to read an entry's bytes in place. `handle` 0: no lease. A copy of the struct is the
 * same lease, not a second one. */
typedef struct spillway_lease {
  uint64_t handle;
  const void* data;
  uint64_t bytes;
} spillway_lease;

/* Ends the lease and clears the struct. Does nothing if the struct is empty. A lease that was
 * released before, or never existed, is SPILLWAY_INVALID_ARGUMENT and has no effect. Works under
 * any pressure, and after close. */
SPILLWAY_API spillway_code spillway_lease_release(spillway_lease* lease);

/* Facts fixed when the entry was set. `agent` and `meta` are valid as long as the lease. */
typedef struct spillway_lease_facts {
  size_t size;
  int64_t tokens;
  uint64_t generation;
  spillway_bytes agent;
  spillway_bytes meta;
  int32_t place; /* spillway_place: the address space of lease.data. */
} spillway_lease_facts;
SPILLWAY_API spillway_code spillway_lease_read_facts(const spillway_lease* lease,
                                                     spillway_lease_facts* facts);

/* --- one key, synchronous --- */

/* What is stored beside a value. NULL or zeros: nothing. */
typedef struct spillway_put_options {
  size_t size;
  int64_t tokens;
  spillway_bytes agent;
  spillway_bytes parent; /* Key of the entry whose prefix this one continues. */
  spillway_bytes meta;
  int64_t ttl_ms;      /* 0: none. */
  int32_t hint;        /* spillway_hint */
  int32_t no_idle_ttl; /* Not 0: the tiers' idle ttl settings do not apply. */
  int64_t eta_ms;      /* With SPILLWAY_HINT_AGAIN: time until the next use. 0: unknown. */
  /* The event after which the entry is used next: a name as in "tool", or RUN/STEP for a step of
   * an attached graph. */
  spillway_bytes step;
  int64_t recompute_us; /* Time to compute the value again. 0: estimated from `tokens`. */
} spillway_put_options;

/* Copies the value into the cache. Other threads see it only when it is complete. A failure
 * leaves the cache unchanged. */
SPILLWAY_API spillway_code spillway_cache_put(spillway_cache* cache, spillway_bytes key,
                                              const void* data, uint64_t bytes,
                                              const spillway_put_options* options);
/* Gets a lease on the newest generation. An empty lease: the key is missing. */
SPILLWAY_API spillway_code spillway_cache_get(spillway_cache* cache, spillway_bytes key,
                                              spillway_lease* lease);
/* How to read. NULL or zeros: a host address, and up to 10 s for a copy from a lower tier. */
typedef struct spillway_get_options {
  size_t size;
  int32_t where;       /* spillway_place of lease.data */
  int32_t hint;        /* spillway_hint: what the reader knows about the next use. */
  int64_t wait_ms;     /* 0: 10 s. SPILLWAY_NONE: lower tiers are not read. */
  int64_t eta_ms;      /* With SPILLWAY_HINT_AGAIN: time until the next use. 0: unknown. */
  spillway_bytes step; /* See spillway_put_options. */
} spillway_get_options;
/* SPILLWAY_NOT_RESIDENT: the key is present, but no copy in the right place was ready in time. */
SPILLWAY_API spillway_code spillway_cache_get_with(spillway_cache* cache, spillway_bytes key,
                                                   const spillway_get_options* options,
                                                   spillway_lease* lease);
/* Copies the value to `data`. *bytes is its size; *found says whether the key is present. A
 * value larger than `capacity` is SPILLWAY_INVALID_ARGUMENT, and *bytes is the size required. */
SPILLWAY_API spillway_code spillway_cache_read(spillway_cache* cache, spillway_bytes key,
                                               void* data, uint64_t capacity, uint64_t* bytes,
                                               int32_t* found);
/* `was_there` and `present` may be NULL. */
SPILLWAY_API spillway_code spillway_cache_erase(spillway_cache* cache, spillway_bytes key,
                                                int32_t* was_there);
SPILLWAY_API spillway_code spillway_cache_touch(spillway_cache* cache, spillway_bytes key,
                                                int32_t hint, int32_t* was_there);
/* Counts as a use of the key, with what the client knows. `agent`: the key belongs to that agent
 * from now on. With `run`: `step` of that live run has started. `agent` and `run` use the
 * attached step graph, and attach a new one if there is none. Without `run`, `step` is as in
 * spillway_put_options. */
typedef struct spillway_touch_options {
  size_t size;
  int32_t hint;   /* spillway_hint */
  int64_t eta_ms; /* With SPILLWAY_HINT_AGAIN: when; 0: not known. */
  spillway_bytes agent;
  spillway_bytes run;
  spillway_bytes step;
} spillway_touch_options;
SPILLWAY_API spillway_code spillway_cache_touch_with(spillway_cache* cache, spillway_bytes key,
                                                     const spillway_touch_options* options,
                                                     int32_t* was_there);
SPILLWAY_API spillway_code spillway_cache_contains(spillway_cache* cache, spillway_bytes key,
                                                   int32_t* present);
SPILLWAY_API spillway_code spillway_cache_clear(spillway_cache* cache);
/* Waits until deletes are durable: values that were replaced, erased or cleared before this call
 * cannot come back from the disk tier after a crash. SPILLWAY_UNAVAILABLE: deletes are still
 * pending. */
SPILLWAY_API spillway_code spillway_cache_flush_deletes(spillway_cache* cache, int64_t within_ms);

/* --- many keys --- */

/* Gets many keys at once. leases[i] is empty where keys[i] missed. `hits` may be NULL. */
SPILLWAY_API spillway_code spillway_cache_get_many(spillway_cache* cache,
                                                   const spillway_bytes* keys, size_t count,
                                                   spillway_lease* leases, size_t* hits);
/* present[i] is 1 where keys[i] is present; `present` may be NULL. *run (or NULL) is the number
 * of keys present from the first up to the first gap. Reads only the index. */
SPILLWAY_API spillway_code spillway_cache_contains_many(spillway_cache* cache,
                                                        const spillway_bytes* keys, size_t count,
                                                        uint8_t* present, size_t* run);
/* *run is the number of keys present, from the first up to the first gap. After the first key,
 * an entry that was set with a parent counts only if the key before it is that parent, in the
 * generation it was set with. */
SPILLWAY_API spillway_code spillway_cache_match(spillway_cache* cache, const spillway_bytes* keys,
                                                size_t count, size_t* run);
/* Leases the keys that match counts: leases[0 .. *run); the other leases are empty. */
SPILLWAY_API spillway_code spillway_cache_get_chain(spillway_cache* cache,
                                                    const spillway_bytes* keys, size_t count,
                                                    spillway_lease* leases, size_t* run);

/* The same, with what `options` say about the next use (hint, eta_ms, step). It applies to the
 * last leased key; the others are used without a hint. */
SPILLWAY_API spillway_code spillway_cache_get_chain_with(spillway_cache* cache,
                                                         const spillway_bytes* keys, size_t count,
                                                         const spillway_get_options* options,
                                                         spillway_lease* leases, size_t* run);

/* Starts to copy these keys into free memory of the device tier. *coming (or NULL): how many are
 * there already or in flight. */
SPILLWAY_API spillway_code spillway_cache_prefetch(spillway_cache* cache,
                                                   const spillway_bytes* keys, size_t count,
                                                   size_t* coming);

/* --- batches ---
 * Submit returns at once. Each batch ends exactly once and is then returned by
 * poll. The eventfd of spillway_cache_fd is readable while ended batches wait to be polled: add
 * it to epoll, asyncio or another event loop, and never read from it. */

typedef enum spillway_kind {
  SPILLWAY_PUT = 1,
  SPILLWAY_GET = 2,
  SPILLWAY_ERASE = 3,
  SPILLWAY_TOUCH = 4
} spillway_kind;

#define SPILLWAY_MESSAGE_BYTES 160

/* One operation of a batch. The struct and all memory it points to must stay valid until its
 * batch has been polled or its cache closed. All elements of an array have the same size. */
typedef struct spillway_operation {
  size_t size;
  int32_t kind; /* spillway_kind */
  int32_t hint; /* SPILLWAY_PUT, SPILLWAY_TOUCH */
  spillway_bytes key;
  const spillway_fragment* source; /* SPILLWAY_PUT: the value's pieces, in order. */
  size_t source_count;
  int64_t tokens; /* SPILLWAY_PUT, like all fields down to ttl_ms. */
  spillway_bytes agent;
  spillway_bytes parent;
  spillway_bytes meta;
  int64_t ttl_ms;
  const spillway_sink* into; /* SPILLWAY_GET: the value is copied there; none: it is leased. */
  size_t into_count;

  /* The outcome, written before poll returns the batch. */
  int32_t code;   /* spillway_code */
  int32_t found;  /* SPILLWAY_GET: hit. SPILLWAY_ERASE, SPILLWAY_TOUCH: the key was present. */
  uint64_t bytes; /* SPILLWAY_GET: size of the value. */
  spillway_lease lease; /* SPILLWAY_GET without `into`; the caller releases it. */
  char message[SPILLWAY_MESSAGE_BYTES];

  /* More arguments. */
  spillway_order order; /* Of the pieces in device memory. */
  int32_t where;        /* SPILLWAY_GET without `into`: spillway_place of lease.data. */
  int32_t no_idle_ttl;  /* SPILLWAY_PUT */
  int64_t wait_ms;      /* SPILLWAY_GET. 0: 10 s. SPILLWAY_NONE: lower tiers are not read. */
  int64_t eta_ms;       /* With SPILLWAY_HINT_AGAIN: time until the next use. 0: unknown. */
  spillway_bytes step;  /* See spillway_put_options; not for SPILLWAY_ERASE. */
  int64_t recompute_us; /* SPILLWAY_PUT. 0: estimated from `tokens`. */
} spillway_operation;

typedef struct spillway_completion {
  uint64_t tag;
  spillway_operation* operations;
  size_t count;
  size_t failed; /* Operations whose code is not SPILLWAY_OK. */
} spillway_completion;

/* Submits a batch. An operation that is not admitted within `within_ms` (negative: no limit)
 * ends with SPILLWAY_DEADLINE. If submit fails, nothing was submitted; an operation that is
 * wrong by itself fails alone, in its own `code`. */
SPILLWAY_API spillway_code spillway_cache_submit(spillway_cache* cache,
                                                 spillway_operation* operations, size_t count,
                                                 int64_t within_ms, uint64_t tag);
/* The same, but copies and other work that submit does on the calling thread are done on a
 * thread of the cache. For callers that must not block. */
SPILLWAY_API spillway_code spillway_cache_submit_away(spillway_cache* cache,
                                                      spillway_operation* operations, size_t count,
                                                      int64_t within_ms, uint64_t tag);
/* Runs a batch and waits for all of it; poll does not return it. *failed (or NULL) counts the
 * operations whose code is not SPILLWAY_OK. */
SPILLWAY_API spillway_code spillway_cache_run(spillway_cache* cache, spillway_operation* operations,
                                              size_t count, int64_t within_ms, size_t* failed);
/* The eventfd of poll; -1: no cache. It belongs to the cache: do not close it. */
SPILLWAY_API int spillway_cache_fd(spillway_cache* cache);
/* Returns up to `max` ended batches, in the order they ended. Waits up to `timeout_ms` for the
 * first (0: not at all, negative: without limit). *count may be 0. */
SPILLWAY_API spillway_code spillway_cache_poll(spillway_cache* cache,
                                               spillway_completion* completions, size_t max,
                                               int64_t timeout_ms, size_t* count);

/* --- pressure --- */

/* One entry that was evicted, or marked. */
typedef struct spillway_eviction {
  spillway_bytes key;
  int32_t action; /* spillway_action_name */
  int32_t reason; /* spillway_reason_name */
  uint64_t bytes;
  int64_t tokens;
} spillway_eviction;
/* Called for each eviction, in order. `key` is valid only during the call. */
typedef void (*spillway_eviction_visitor)(const spillway_eviction* eviction, void* context);

/* Runs one pass of the policy now, with *pressure (0 to 1) or, if NULL, with the source's own
 * reading. `level` and `visit` may be NULL. */
SPILLWAY_API spillway_code spillway_cache_apply(spillway_cache* cache, const double* pressure,
                                                int32_t* level, spillway_eviction_visitor visit,
                                                void* context);
/* Frees device memory for another user in this process. Never destroys a last copy.
 * *why_not_more (or NULL) is "" if all of it was freed; the caller frees it. */
SPILLWAY_API spillway_code spillway_cache_reclaim(spillway_cache* cache, uint64_t bytes,
                                                  int64_t within_ms, uint64_t* freed,
                                                  char** why_not_more);

/* --- state and statistics --- */

typedef struct spillway_state {
  size_t size;
  int32_t mode;           /* spillway_level */
  int32_t level;          /* spillway_level */
  int32_t pressure_known; /* 0: pressure is UNKNOWN; ignore `pressure`. */
  int32_t blocked;        /* Whether a put would be refused for pressure now. */
  double pressure;
  uint64_t entries;
  int64_t tokens;
} spillway_state;
SPILLWAY_API spillway_code spillway_cache_read_state(spillway_cache* cache, spillway_state* state);

#define SPILLWAY_REASONS_MAX 32
#define SPILLWAY_ACTIONS_MAX 16

/* The fields of spillway::Stats. Counters never decrease while the cache is open. */
typedef struct spillway_stats {
  size_t size;
  uint64_t entries;
  int64_t tokens;
  uint64_t leases;
  uint64_t hits;
  uint64_t misses;
  uint64_t sets;
  uint64_t refused_blocked;
  uint64_t refused_budget;
  uint64_t refused_other;
  uint64_t level_changes;
  uint64_t samples;
  uint64_t samples_failed;
  uint64_t reservations;
  uint64_t index_bytes;
  uint64_t removed_by_reason[SPILLWAY_REASONS_MAX];
  uint64_t removed_bytes_by_reason[SPILLWAY_REASONS_MAX];
  uint64_t removed_by_action[SPILLWAY_ACTIONS_MAX];
  /* The device tier. */
  uint64_t device_capacity_bytes; /* 0: no capacity. */
  uint64_t device_bytes;
  uint64_t device_held_bytes;
  uint64_t device_total_bytes;
  uint64_t device_free_bytes;
  uint64_t device_reserve_bytes;
  int32_t device_level;          /* spillway_level */
  int32_t device_pressure_known; /* 0: UNKNOWN. */
  double device_pressure;
  /* Clean: a lower tier has a copy, so it can be given back at once. */
  uint64_t device_clean_bytes;
  /* The lower tiers; all 0 if there is none. */
  uint64_t host_capacity_bytes;
  uint64_t host_bytes;
  uint64_t host_held_bytes;
  uint64_t host_clean_bytes;
  uint64_t disk_capacity_bytes;
  uint64_t disk_bytes;
  uint64_t disk_held_bytes;
  uint64_t disk_written_bytes;
  uint64_t transferred_down_bytes;
  uint64_t transferred_up_bytes;
  uint64_t transfers_in_flight;
  uint64_t fetches; /* Gets that waited for a copy from a lower tier. */
  uint64_t corrupt; /* Copies whose checksum did not match; never returned to a reader. */
  /* Now: deletes that are not on disk yet; a crash could bring the values back. */
  uint64_t disk_deletes_pending;
  uint64_t disk_delete_flush_failures; /* Times a wait for pending deletes failed. */
  /* Entries lost: their last copy was destroyed, though they had not expired and nothing erased,
   * replaced or cleared them. */
  uint64_t destroyed_by_reason[SPILLWAY_REASONS_MAX];
  uint64_t destroyed_bytes_by_reason[SPILLWAY_REASONS_MAX];
} spillway_stats;
SPILLWAY_API spillway_code spillway_cache_read_stats(spillway_cache* cache, spillway_stats* stats);
/* The same as one JSON object, with reasons and actions by name. The caller frees it. */
SPILLWAY_API spillway_code spillway_cache_stats_json(spillway_cache* cache, char** json);

/* Explains in words where the entry is, why it was evicted, and what would bring it back. The
 * caller frees the text. */
SPILLWAY_API spillway_code spillway_cache_explain(spillway_cache* cache, spillway_bytes key,
                                                  char** text);

typedef struct spillway_entry {
  size_t size;
  spillway_bytes key;
  spillway_bytes agent;
  int64_t tokens;
  uint64_t bytes;
  uint64_t access_count;
  int64_t idle_ms;
  uint64_t leases;
  int32_t offloaded;
} spillway_entry;
/* Called for each entry. `entry` is valid only during the call. Return non-zero to stop. */
typedef int32_t (*spillway_entry_visitor)(const spillway_entry* entry, void* context);
/* Visits every live entry, in no particular order. */
SPILLWAY_API spillway_code spillway_cache_for_each(spillway_cache* cache,
                                                   spillway_entry_visitor visit, void* context);
/* `key` is valid only during the call. Return non-zero to stop. */
typedef int32_t (*spillway_key_visitor)(spillway_bytes key, void* context);
/* Visits the keys of all entries that may be evicted, evict-first in front, by the order in
 * force. Idle limits are ignored. */
SPILLWAY_API spillway_code spillway_cache_eviction_order(spillway_cache* cache,
                                                         spillway_key_visitor visit, void* context);

/* --- step graphs ---
 * A step graph knows which context will be used next, and how soon:
 * docs/reference/step-graph.md. Returned text is JSON, and the caller frees it. */

typedef struct spillway_graph spillway_graph;

/* Opens a graph that belongs to no cache until it is attached. Every opened graph must be
 * closed; a cache it is attached to keeps using its content. */
SPILLWAY_API spillway_code spillway_graph_open(spillway_graph** graph);
SPILLWAY_API spillway_code spillway_graph_close(spillway_graph* graph);
/* Attaches a graph to a cache and replaces the one attached before; NULL: none. */
SPILLWAY_API spillway_code spillway_cache_attach(spillway_cache* cache, spillway_graph* graph);
/* Returns the attached graph; attaches a new one if there is none. The caller closes it. */
SPILLWAY_API spillway_code spillway_cache_graph(spillway_cache* cache, spillway_graph** graph);
/* Attaches an order from an external graph: names of agents, evict-first in front and soonest to
 * run at the end. It holds until the next call; count 0: no run is live. Replaces a graph
 * attached before. */
SPILLWAY_API spillway_code spillway_cache_attach_agents(spillway_cache* cache,
                                                        const spillway_bytes* agents, size_t count);

/* Adds a whole run from a JSON document, all or nothing. *run (or NULL) is the run's name,
 * without quotes; the caller frees it. */
SPILLWAY_API spillway_code spillway_graph_load(spillway_graph* graph, spillway_bytes json,
                                               char** run);
SPILLWAY_API spillway_code spillway_graph_begin(spillway_graph* graph, spillway_bytes run,
                                                spillway_bytes client, spillway_bytes workflow);
/* `agent` may be empty: the same as `step`. */
SPILLWAY_API spillway_code spillway_graph_add_step(spillway_graph* graph, spillway_bytes run,
                                                   spillway_bytes step, spillway_bytes agent);
/* `back` not 0: the edge closes a loop. Edges of one step with the same non-empty `choice`
 * exclude each other. */
SPILLWAY_API spillway_code spillway_graph_add_edge(spillway_graph* graph, spillway_bytes run,
                                                   spillway_bytes from, spillway_bytes to,
                                                   int32_t back, spillway_bytes choice);
typedef enum spillway_key_kind {
  SPILLWAY_KEY_FIXED = 0,
  SPILLWAY_KEY_HISTORY = 1,
  SPILLWAY_KEY_VOLATILE = 2
} spillway_key_kind;
SPILLWAY_API spillway_code spillway_graph_bind(spillway_graph* graph, spillway_bytes run,
                                               spillway_bytes agent, spillway_bytes key,
                                               int32_t kind);
SPILLWAY_API spillway_code spillway_graph_start(spillway_graph* graph, spillway_bytes run,
                                                spillway_bytes step);
/* `taken` NULL: all edges are followed. Otherwise, of exclusive edges, those to these steps. */
SPILLWAY_API spillway_code spillway_graph_finish(spillway_graph* graph, spillway_bytes run,
                                                 spillway_bytes step, const spillway_bytes* taken,
                                                 size_t count);
SPILLWAY_API spillway_code spillway_graph_skip(spillway_graph* graph, spillway_bytes run,
                                               spillway_bytes step);
typedef enum spillway_on_fail {
  SPILLWAY_FAIL_SKIP = 0,
  SPILLWAY_FAIL_POISON = 1,
  SPILLWAY_FAIL_RETRY = 2
} spillway_on_fail;
SPILLWAY_API spillway_code spillway_graph_fail(spillway_graph* graph, spillway_bytes run,
                                               spillway_bytes step, int32_t on_fail);
SPILLWAY_API spillway_code spillway_graph_loop(spillway_graph* graph, spillway_bytes run,
                                               spillway_bytes from, spillway_bytes to);
typedef enum spillway_run_end {
  SPILLWAY_RUN_FINISHED = 1,
  SPILLWAY_RUN_FAILED = 2,
  SPILLWAY_RUN_CANCELLED = 3
} spillway_run_end;
SPILLWAY_API spillway_code spillway_graph_end(spillway_graph* graph, spillway_bytes run,
                                              int32_t how);

/* Returns [{"id","agent","state","visits","steps","eta_ms","p","conf"}]; steps and eta_ms are
 * null if the step will never run. */
SPILLWAY_API spillway_code spillway_graph_steps(spillway_graph* graph, spillway_bytes run,
                                                char** json);
/* The least number of steps that must complete before this one can start; -1: it will never run. */
SPILLWAY_API spillway_code spillway_graph_steps_to(spillway_graph* graph, spillway_bytes run,
                                                   spillway_bytes step, int64_t* steps);
/* Agents of a client's live runs: those that have finished first, those that are running last. */
SPILLWAY_API spillway_code spillway_graph_agents(spillway_graph* graph, spillway_bytes client,
                                                 char** json);
/* Visits up to `most` keys, evict-first in front, by the graph's knowledge. */
SPILLWAY_API spillway_code spillway_graph_order(spillway_graph* graph, size_t most,
                                                spillway_key_visitor visit, void* context);
/* Likely mistakes in a run: [{"message","steps"}]. */
SPILLWAY_API spillway_code spillway_graph_validate(spillway_graph* graph, spillway_bytes run,
                                                   char** json);
/* Explains when and why a key is needed. NULL: the key is unknown to the graph. */
SPILLWAY_API spillway_code spillway_graph_explain(spillway_graph* graph, spillway_bytes key,
                                                  char** text);

/* --- leases for array libraries --- */

/* The type and shape of an array in a lease's bytes, in DLPack's terms. */
typedef struct spillway_shape {
  size_t size;
  int32_t device_type; /* kDLCPU 1, kDLCUDA 2, kDLROCM 10 ... */
  int32_t device_id;
  uint8_t code; /* Kind of element: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool ... */
  uint8_t bits;
  uint16_t lanes;
  int32_t ndim;
  const int64_t* shape;   /* ndim numbers. */
  const int64_t* strides; /* In elements. NULL: dense, row-major. */
  uint64_t offset;        /* Bytes from lease.data. */
} spillway_shape;
/* *managed is a DLManagedTensor or, if `versioned`, a DLManagedTensorVersioned (1.1, read-only).
 * It takes over the lease and clears the struct; its deleter releases the lease, from any
 * thread. An array that is not inside the lease's bytes is refused, and the lease stays with the
 * caller. */
SPILLWAY_API spillway_code spillway_lease_to_dlpack(spillway_lease* lease,
                                                    const spillway_shape* shape, int32_t versioned,
                                                    void** managed);

#ifdef __cplusplus
}
#endif
