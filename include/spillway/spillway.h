/* The C ABI of Spillway: the cache of spillway/cache.h for C, and for every
 * language that can call C.
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
 * Rules that hold for every function:
 *   - It may be called from any thread; only open and close of one cache must
 *     not overlap with other calls on it.
 *   - What can fail returns a spillway_code. The words to it are this thread's
 *     spillway_error_message(). Not found is an answer, not a failure.
 *   - NULL where something is needed is SPILLWAY_INVALID_ARGUMENT. No exception
 *     comes out.
 *   - Structs that may grow begin with their size: set it to sizeof, or let
 *     the init function do it. Fields a caller does not know of have their
 *     defaults; zero is a default everywhere else.
 *   - A key is any 1 to 65,536 bytes. Text that we return is UTF-8 where the
 *     keys in it are.
 *
 * The version of this interface is SPILLWAY_ABI_VERSION; it rises when an
 * existing function or field changes its meaning, not when some are added. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "spillway/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPILLWAY_ABI_VERSION 1

/* --- words --- */

typedef enum spillway_code {
  SPILLWAY_OK = 0,
  SPILLWAY_INVALID_ARGUMENT = 1, /* The request itself is wrong. */
  SPILLWAY_BLOCKED = 2,          /* No tier may take it now. */
  SPILLWAY_OVER_BUDGET = 3,      /* The token budget is spent and nothing may leave. */
  SPILLWAY_TOO_LARGE = 4,        /* Larger than any tier could ever hold. */
  SPILLWAY_NO_MEMORY = 5,        /* A device or the system refused memory. */
  SPILLWAY_NOT_RESIDENT = 6,     /* It exists, but not where it was asked for. */
  SPILLWAY_DEADLINE = 7,         /* The time allowed ran out. */
  SPILLWAY_CANCELLED = 8,
  SPILLWAY_BUSY = 9,         /* A bound was reached. */
  SPILLWAY_CLOSED = 10,      /* The cache is closed or closing. */
  SPILLWAY_UNAVAILABLE = 11, /* A device, file or source that is not there. */
  SPILLWAY_INTERNAL = 12,
  SPILLWAY_CORRUPT = 13 /* The bytes are not those that were stored. */
} spillway_code;

typedef enum spillway_level {
  SPILLWAY_RELAXED = 0,
  SPILLWAY_NORMAL = 1,
  SPILLWAY_PRESSURE = 2,
  SPILLWAY_CRITICAL = 3,
  SPILLWAY_EMERGENCY = 4,
  SPILLWAY_WORKFLOW_AWARE = 5 /* Only as a mode. */
} spillway_level;

typedef enum spillway_place { SPILLWAY_HOST = 0, SPILLWAY_DEVICE = 1 } spillway_place;

/* What a client knows about an entry's future. */
typedef enum spillway_hint {
  SPILLWAY_HINT_NONE = 0,
  SPILLWAY_HINT_AGAIN = 1,
  SPILLWAY_HINT_DONE = 2
} spillway_hint;

/* Lower-case names, as they stand in logs and metrics; "" for what is none. */
SPILLWAY_API const char* spillway_code_name(int32_t code); /* "InvalidArgument" */
SPILLWAY_API const char* spillway_mode_name(int32_t mode);
SPILLWAY_API const char* spillway_action_name(int32_t action);
SPILLWAY_API const char* spillway_reason_name(int32_t reason);

/* "0.1.0", and the SPILLWAY_ABI_VERSION the library was built with. */
SPILLWAY_API const char* spillway_version(void);
SPILLWAY_API int32_t spillway_abi_version(void);

/* Why the last call on this thread failed that did; "" before the first. Good
 * until the next one fails. */
SPILLWAY_API const char* spillway_error_message(void);

/* --- what the library says --- */

typedef enum spillway_log_level {
  SPILLWAY_LOG_INFO = 0,
  SPILLWAY_LOG_WARNING = 1,
  SPILLWAY_LOG_ERROR = 2,
  SPILLWAY_LOG_OFF = 3
} spillway_log_level;
/* From any thread, one line at a time; must not call the library. */
typedef void (*spillway_log_call)(int32_t level, const char* text, void* context);
/* For the whole process: what is less serious than `least` is not said, the rest
 * goes to `call` or, if that is NULL, to standard error. */
SPILLWAY_API spillway_code spillway_set_log(int32_t least, spillway_log_call call, void* context);

/* Gives back what a function of ours has returned as a `char**`. */
SPILLWAY_API void spillway_free(void* text);

/* --- bytes --- */

typedef struct spillway_bytes {
  const void* data;
  size_t bytes;
} spillway_bytes;

static inline spillway_bytes spillway_text(const char* text) {
  spillway_bytes bytes;
  bytes.data = text;
  bytes.bytes = text == NULL ? 0 : strlen(text);
  return bytes;
}

/* A piece of a value: where it comes from, where it is to go. Only host memory
 * exists yet; a piece on the device is refused. */
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

/* --- a cache --- */

typedef struct spillway_cache spillway_cache;

#define SPILLWAY_WHOLE_CARD UINT64_MAX /* options.capacity_bytes */
#define SPILLWAY_NONE INT64_C(-1)      /* For times and budgets: there is none. */

/* As spillway::Options; docs/reference/settings.md says what each means. */
typedef struct spillway_options {
  size_t size;
  const char* device; /* NULL: "cpu" */
  const char* card;   /* NULL: a private one */
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
  const char* policy; /* NULL: "documented" */
  int64_t ttl_ms;
  int64_t idle_normal_ms;
  int64_t idle_critical_ms;
  int64_t token_budget;
  int64_t reclaim_slice_ms;
  const char* pressure_source;      /* NULL: "auto" */
  uint64_t host_capacity_bytes;     /* 0: no host tier. */
  const char* host_pressure_source; /* NULL: "host" */
  const char* disk_dir;             /* NULL: no disk tier. */
  uint64_t disk_capacity_bytes;     /* 0: a quarter of what is free there. */
  const char* disk_pressure_source; /* NULL: "auto" */
  int64_t write_behind_after_ms;    /* Or SPILLWAY_NONE. */
  uint64_t write_behind_rate;       /* Bytes a second; 0: no bound. */
  int64_t room_wait_ms;
  int64_t emergency_time_ms;
  int64_t host_ttl_ms; /* Or SPILLWAY_NONE. */
  int64_t disk_ttl_ms; /* Or SPILLWAY_NONE. */
} spillway_options;

/* All fields, by the preset "default" (or NULL) or "seed".
 *   spillway_options options;
 *   spillway_options_init(&options, sizeof options, NULL); */
SPILLWAY_API spillway_code spillway_options_init(spillway_options* options, size_t size,
                                                 const char* preset);

/* `options` NULL: the defaults. On failure *cache is NULL and nothing is open. */
SPILLWAY_API spillway_code spillway_cache_open(const spillway_options* options,
                                               spillway_cache** cache);
/* From the text of a configuration file; `file_name` (or NULL) is for messages. */
SPILLWAY_API spillway_code spillway_cache_open_toml(spillway_bytes text, const char* file_name,
                                                    spillway_cache** cache);
/* Waits for what was submitted to end. Leases stay good, also afterwards; their
 * memory goes with the last of them. NULL is nothing to close. It is closed in
 * any case; SPILLWAY_UNAVAILABLE and SPILLWAY_DEADLINE: the disk tier could not
 * be told what was put anew or erased, and older values may be found in it when
 * it is opened again. */
SPILLWAY_API spillway_code spillway_cache_close(spillway_cache* cache);

/* Sensing and background work; both may be repeated. */
SPILLWAY_API spillway_code spillway_cache_start(spillway_cache* cache);
SPILLWAY_API spillway_code spillway_cache_stop(spillway_cache* cache);

/* --- leases --- */

/* A right to read an entry's bytes in place. `handle` 0: none. A copy of the
 * struct is the same lease, not a second one. */
typedef struct spillway_lease {
  uint64_t handle;
  const void* data;
  uint64_t bytes;
} spillway_lease;

/* Lets go and empties the struct. An empty one is fine. A lease that has been
 * released already, or never was, is SPILLWAY_INVALID_ARGUMENT and harms
 * nobody. Never refused for pressure, also after close. */
SPILLWAY_API spillway_code spillway_lease_release(spillway_lease* lease);

/* Facts fixed when the entry was set. The bytes live as long as the lease. */
typedef struct spillway_lease_facts {
  size_t size;
  int64_t tokens;
  uint64_t generation;
  spillway_bytes agent;
  spillway_bytes meta;
} spillway_lease_facts;
SPILLWAY_API spillway_code spillway_lease_read_facts(const spillway_lease* lease,
                                                     spillway_lease_facts* facts);

/* --- one key, waiting for it --- */

/* What goes with a value; NULL or zeros: nothing. */
typedef struct spillway_put_options {
  size_t size;
  int64_t tokens;
  spillway_bytes agent;
  spillway_bytes parent; /* Key of the prefix this entry continues. */
  spillway_bytes meta;
  int64_t ttl_ms; /* 0: none. */
  int32_t hint;   /* spillway_hint */
} spillway_put_options;

/* Copies the value in; visible to others only when whole. On failure nothing
 * has changed. */
SPILLWAY_API spillway_code spillway_cache_put(spillway_cache* cache, spillway_bytes key,
                                              const void* data, uint64_t bytes,
                                              const spillway_put_options* options);
/* An empty lease: not there. */
SPILLWAY_API spillway_code spillway_cache_get(spillway_cache* cache, spillway_bytes key,
                                              spillway_lease* lease);
/* Copies the value to `data`. *bytes is its size, *found whether it is there; a
 * value larger than `capacity` is SPILLWAY_INVALID_ARGUMENT, and *bytes says
 * how much it takes. */
SPILLWAY_API spillway_code spillway_cache_read(spillway_cache* cache, spillway_bytes key,
                                               void* data, uint64_t capacity, uint64_t* bytes,
                                               int32_t* found);
/* `was_there` and `present` may be NULL. */
SPILLWAY_API spillway_code spillway_cache_erase(spillway_cache* cache, spillway_bytes key,
                                                int32_t* was_there);
SPILLWAY_API spillway_code spillway_cache_touch(spillway_cache* cache, spillway_bytes key,
                                                int32_t hint, int32_t* was_there);
SPILLWAY_API spillway_code spillway_cache_contains(spillway_cache* cache, spillway_bytes key,
                                                   int32_t* present);
SPILLWAY_API spillway_code spillway_cache_clear(spillway_cache* cache);
/* Waits until nothing that was put anew, erased or cleared can come back from
 * the disk tier after a kill. SPILLWAY_UNAVAILABLE: it still can. */
SPILLWAY_API spillway_code spillway_cache_settle(spillway_cache* cache, int64_t within_ms);

/* --- many keys --- */

/* leases[i] is empty where keys[i] missed; `hits` may be NULL. */
SPILLWAY_API spillway_code spillway_cache_get_many(spillway_cache* cache,
                                                   const spillway_bytes* keys, size_t count,
                                                   spillway_lease* leases, size_t* hits);
/* How many of the keys, from the first on, are present without a gap; an entry
 * set with a parent counts only behind that very generation of it. */
SPILLWAY_API spillway_code spillway_cache_match(spillway_cache* cache, const spillway_bytes* keys,
                                                size_t count, size_t* run);
/* The same run, leased: leases[0 .. *run) are, the others are empty. */
SPILLWAY_API spillway_code spillway_cache_get_chain(spillway_cache* cache,
                                                    const spillway_bytes* keys, size_t count,
                                                    spillway_lease* leases, size_t* run);

/* Begins to bring these into memory that is free; *coming (or NULL): how many
 * are there or on their way. */
SPILLWAY_API spillway_code spillway_cache_prefetch(spillway_cache* cache,
                                                   const spillway_bytes* keys, size_t count,
                                                   size_t* coming);

/* --- batches ---
 * Submit returns at once; each batch ends exactly once and is then handed out
 * by poll. The eventfd of spillway_cache_fd is readable while batches wait to
 * be polled: put it into epoll, asyncio or a loop, and never read from it. */

typedef enum spillway_kind {
  SPILLWAY_PUT = 1,
  SPILLWAY_GET = 2,
  SPILLWAY_ERASE = 3,
  SPILLWAY_TOUCH = 4
} spillway_kind;

#define SPILLWAY_MESSAGE_BYTES 160

/* The struct and all it points to must live until its batch has been polled,
 * or its cache closed. In an array all have the same size. */
typedef struct spillway_operation {
  size_t size;
  int32_t kind; /* spillway_kind */
  int32_t hint; /* SPILLWAY_PUT, SPILLWAY_TOUCH */
  spillway_bytes key;
  const spillway_fragment* source; /* SPILLWAY_PUT: the value's pieces, in order. */
  size_t source_count;
  int64_t tokens; /* SPILLWAY_PUT, as all down to ttl_ms. */
  spillway_bytes agent;
  spillway_bytes parent;
  spillway_bytes meta;
  int64_t ttl_ms;
  const spillway_sink* into; /* SPILLWAY_GET: copied there; none: leased. */
  size_t into_count;

  /* The outcome, written before the batch is handed out. */
  int32_t code;         /* spillway_code */
  int32_t found;        /* SPILLWAY_GET: hit; SPILLWAY_ERASE, SPILLWAY_TOUCH: was there. */
  uint64_t bytes;       /* SPILLWAY_GET: size of the value. */
  spillway_lease lease; /* SPILLWAY_GET without `into`; release it. */
  char message[SPILLWAY_MESSAGE_BYTES];
} spillway_operation;

typedef struct spillway_completion {
  uint64_t tag;
  spillway_operation* operations;
  size_t count;
  size_t failed; /* Operations whose code is not SPILLWAY_OK. */
} spillway_completion;

/* What has not been admitted within that time ends with SPILLWAY_DEADLINE;
 * negative: no limit. On failure nothing was submitted; an operation that is
 * wrong by itself fails alone, in its own `code`. */
SPILLWAY_API spillway_code spillway_cache_submit(spillway_cache* cache,
                                                 spillway_operation* operations, size_t count,
                                                 int64_t within_ms, uint64_t tag);
/* -1: no cache. Belongs to the cache. */
SPILLWAY_API int spillway_cache_fd(spillway_cache* cache);
/* Up to `max` batches that have ended, in that order; waits for the first up to
 * `timeout_ms` (0: not at all, negative: for ever). *count may be 0. */
SPILLWAY_API spillway_code spillway_cache_poll(spillway_cache* cache,
                                               spillway_completion* completions, size_t max,
                                               int64_t timeout_ms, size_t* count);

/* --- pressure --- */

/* One entry that left, or was marked. */
typedef struct spillway_departure {
  spillway_bytes key;
  int32_t action; /* spillway_action_name */
  int32_t reason; /* spillway_reason_name */
  uint64_t bytes;
  int64_t tokens;
} spillway_departure;
/* Called for each, in order; `key` lives for the call. */
typedef void (*spillway_departure_visitor)(const spillway_departure* departure, void* context);

/* One pass of the policy now, with *pressure (0 to 1) or, if that is NULL, the
 * source's own. `level` and `visit` may be NULL. */
SPILLWAY_API spillway_code spillway_cache_apply(spillway_cache* cache, const double* pressure,
                                                int32_t* level, spillway_departure_visitor visit,
                                                void* context);
/* Frees memory for someone in this process; never destroys a last copy.
 * *why_not_more (or NULL) is to be freed, "" when all of it was freed. */
SPILLWAY_API spillway_code spillway_cache_reclaim(spillway_cache* cache, uint64_t bytes,
                                                  int64_t within_ms, uint64_t* freed,
                                                  char** why_not_more);

/* --- answers --- */

typedef struct spillway_state {
  size_t size;
  int32_t mode;           /* spillway_level */
  int32_t level;          /* spillway_level */
  int32_t pressure_known; /* 0: UNKNOWN, and `pressure` means nothing. */
  int32_t blocked;        /* Would a put be refused now? */
  double pressure;
  uint64_t entries;
  int64_t tokens;
} spillway_state;
SPILLWAY_API spillway_code spillway_cache_read_state(spillway_cache* cache, spillway_state* state);

#define SPILLWAY_REASONS_MAX 32
#define SPILLWAY_ACTIONS_MAX 16

/* As spillway::Stats. Counters only ever rise while the cache is open. */
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
  uint64_t left_by_reason[SPILLWAY_REASONS_MAX];
  uint64_t left_bytes_by_reason[SPILLWAY_REASONS_MAX];
  uint64_t left_by_action[SPILLWAY_ACTIONS_MAX];
  /* The device tier. */
  uint64_t device_capacity_bytes; /* 0: none set. */
  uint64_t device_bytes;
  uint64_t device_held_bytes;
  uint64_t device_total_bytes;
  uint64_t device_free_bytes;
  uint64_t device_reserve_bytes;
  int32_t device_level;          /* spillway_level */
  int32_t device_pressure_known; /* 0: UNKNOWN. */
  double device_pressure;
  uint64_t device_backed_bytes; /* Also further down: can be given back at once. */
  /* The tiers below; all 0 where there is none. */
  uint64_t host_capacity_bytes;
  uint64_t host_bytes;
  uint64_t host_held_bytes;
  uint64_t host_backed_bytes;
  uint64_t disk_capacity_bytes;
  uint64_t disk_bytes;
  uint64_t disk_held_bytes;
  uint64_t disk_written_bytes;
  uint64_t moved_down_bytes;
  uint64_t moved_up_bytes;
  uint64_t moves_under_way;
  uint64_t fetches;              /* Gets that waited for a copy to come up. */
  uint64_t corrupt;              /* Copies that did not match; never served. */
  uint64_t disk_unsettled;       /* Gone, and could be found again after a restart: now. */
  uint64_t disk_settle_failures; /* Times somebody waited in vain for that to be 0. */
} spillway_stats;
SPILLWAY_API spillway_code spillway_cache_read_stats(spillway_cache* cache, spillway_stats* stats);
/* The same as one JSON object, reasons and actions by name. Free it. */
SPILLWAY_API spillway_code spillway_cache_stats_json(spillway_cache* cache, char** json);

/* Where it is, why it left, what would bring it back. Free it. */
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
/* Not 0: stop showing entries. `entry` lives for the call. */
typedef int32_t (*spillway_entry_visitor)(const spillway_entry* entry, void* context);
/* Every live entry, in no particular order. */
SPILLWAY_API spillway_code spillway_cache_for_each(spillway_cache* cache,
                                                   spillway_entry_visitor visit, void* context);

#ifdef __cplusplus
}
#endif
