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
 *   - A fork takes no cache along: in the child every call on one that the
 *     parent opened is SPILLWAY_CLOSED, closing included. Open one there.
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
  bytes.bytes = text ? strlen(text) : 0;
  return bytes;
}

/* A piece of a value: where it comes from, where it is to go. Memory of a GPU
 * needs a cache on that GPU (options.device); elsewhere it is refused. */
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

/* From when on pieces on a device may be read or written: after what has been
 * put on a stream so far, or after an event (CUstream, CUevent or their HIP
 * kin). The default stream is a stream, too: NONE says that all is done. */
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
  uint64_t disk_capacity_bytes;     /* 0: a quarter of what is free there. */
  const char* disk_pressure_source; /* NULL: "auto" */
  int64_t write_behind_after_ms;    /* Or SPILLWAY_NONE. */
  uint64_t write_behind_rate;       /* Bytes a second; 0: no bound. */
  int64_t room_wait_ms;
  int64_t emergency_time_ms;
  int64_t host_ttl_ms; /* Or SPILLWAY_NONE. */
  int64_t disk_ttl_ms; /* Or SPILLWAY_NONE. */
  int32_t ask;
  const char* ask_group;           /* NULL: nobody besides our user and root. */
  const char* zero_before_release; /* NULL: "auto" */
  int32_t disk_read_back;
  int64_t scrub_every_ms; /* Or SPILLWAY_NONE. */
  uint64_t prefetch_steps;
  const char* log; /* NULL: as it is. */
  uint64_t history_entries;
  const char* trace; /* A file for spillway replay; NULL: none. */
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
/* The same, read from that file. */
SPILLWAY_API spillway_code spillway_cache_open_file(const char* path, spillway_cache** cache);
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
  int32_t place; /* spillway_place: whose address lease.data is. */
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
  int64_t ttl_ms;      /* 0: none. */
  int32_t hint;        /* spillway_hint */
  int32_t no_idle_ttl; /* Not 0: the tiers' ttl for what is idle passes it by. */
  int64_t eta_ms;      /* With SPILLWAY_HINT_AGAIN: when; 0: not known. */
  /* What it waits for: a name as in "tool", or RUN/STEP of an attached graph. */
  spillway_bytes step;
  int64_t recompute_us; /* What computing it anew would take; 0: as its tokens say. */
} spillway_put_options;

/* Copies the value in; visible to others only when whole. On failure nothing
 * has changed. */
SPILLWAY_API spillway_code spillway_cache_put(spillway_cache* cache, spillway_bytes key,
                                              const void* data, uint64_t bytes,
                                              const spillway_put_options* options);
/* An empty lease: not there. */
SPILLWAY_API spillway_code spillway_cache_get(spillway_cache* cache, spillway_bytes key,
                                              spillway_lease* lease);
/* How to read; NULL or zeros: on the host, waiting up to 10 s for a copy below
 * to come up. */
typedef struct spillway_get_options {
  size_t size;
  int32_t where;       /* spillway_place of lease.data */
  int32_t hint;        /* spillway_hint: what the reader knows of its next use. */
  int64_t wait_ms;     /* 0: 10 s; SPILLWAY_NONE: never touches a lower tier. */
  int64_t eta_ms;      /* With SPILLWAY_HINT_AGAIN: when; 0: not known. */
  spillway_bytes step; /* As in spillway_put_options. */
} spillway_get_options;
/* SPILLWAY_NOT_RESIDENT: it exists, and not there within that time. */
SPILLWAY_API spillway_code spillway_cache_get_with(spillway_cache* cache, spillway_bytes key,
                                                   const spillway_get_options* options,
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
/* A use, with what a client knows. `agent`: the key is that agent's from now on.
 * With `run`, `step` of that live run has started: these need a step graph, and
 * make one if there is none. Without, `step` is what it waits for, as in
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
/* Waits until nothing that was put anew, erased or cleared can come back from
 * the disk tier after a kill. SPILLWAY_UNAVAILABLE: it still can. */
SPILLWAY_API spillway_code spillway_cache_settle(spillway_cache* cache, int64_t within_ms);

/* --- many keys --- */

/* leases[i] is empty where keys[i] missed; `hits` may be NULL. */
SPILLWAY_API spillway_code spillway_cache_get_many(spillway_cache* cache,
                                                   const spillway_bytes* keys, size_t count,
                                                   spillway_lease* leases, size_t* hits);
/* present[i] (NULL: not asked for) is 1 where keys[i] is there, *run (or NULL) how
 * many are, from the first on, without a gap. Asks the index and reads nothing. */
SPILLWAY_API spillway_code spillway_cache_contains_many(spillway_cache* cache,
                                                        const spillway_bytes* keys, size_t count,
                                                        uint8_t* present, size_t* run);
/* How many of the keys, from the first on, are present without a gap; an entry
 * set with a parent counts only behind that very generation of it. */
SPILLWAY_API spillway_code spillway_cache_match(spillway_cache* cache, const spillway_bytes* keys,
                                                size_t count, size_t* run);
/* The same run, leased: leases[0 .. *run) are, the others are empty. */
SPILLWAY_API spillway_code spillway_cache_get_chain(spillway_cache* cache,
                                                    const spillway_bytes* keys, size_t count,
                                                    spillway_lease* leases, size_t* run);

/* The same; what `options` say of the next use (hint, eta_ms, step) holds for the
 * last of the run, and the rest of them counts for nothing. */
SPILLWAY_API spillway_code spillway_cache_get_chain_with(spillway_cache* cache,
                                                         const spillway_bytes* keys, size_t count,
                                                         const spillway_get_options* options,
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

  /* More of what is asked for. */
  spillway_order order; /* Of the pieces on a device. */
  int32_t where;        /* SPILLWAY_GET without `into`: spillway_place of lease.data */
  int32_t no_idle_ttl;  /* SPILLWAY_PUT */
  int64_t wait_ms;      /* SPILLWAY_GET; 0: 10 s; SPILLWAY_NONE: not at all. */
  int64_t eta_ms;       /* With SPILLWAY_HINT_AGAIN: when; 0: not known. */
  spillway_bytes step;  /* What it waits for; not SPILLWAY_ERASE. */
  int64_t recompute_us; /* SPILLWAY_PUT; 0: as its tokens say. */
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
/* The same from a thread of the cache's own, for callers that must not be held
 * up: copies and whatever else a submitter lends a hand with are done there. */
SPILLWAY_API spillway_code spillway_cache_submit_away(spillway_cache* cache,
                                                      spillway_operation* operations, size_t count,
                                                      int64_t within_ms, uint64_t tag);
/* Does all of them and waits for the last; nothing is handed out by poll. *failed
 * (or NULL) counts those whose code is not SPILLWAY_OK. */
SPILLWAY_API spillway_code spillway_cache_run(spillway_cache* cache, spillway_operation* operations,
                                              size_t count, int64_t within_ms, size_t* failed);
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
/* Not 0: stop. `key` lives for the call. */
typedef int32_t (*spillway_key_visitor)(spillway_bytes key, void* context);
/* All keys that could leave, by the order in force, idle limits ignored. */
SPILLWAY_API spillway_code spillway_cache_leaving_order(spillway_cache* cache,
                                                        spillway_key_visitor visit, void* context);

/* --- step graphs ---
 * Who will need which context, how soon: docs/reference/step-graph.md. Text that
 * is returned is JSON, and to be freed. */

typedef struct spillway_graph spillway_graph;

/* One that stands alone until it is attached; close it in any case. A cache it
 * is attached to keeps what was told to it. */
SPILLWAY_API spillway_code spillway_graph_open(spillway_graph** graph);
SPILLWAY_API spillway_code spillway_graph_close(spillway_graph* graph);
/* Replaces the one attached before; NULL: none. */
SPILLWAY_API spillway_code spillway_cache_attach(spillway_cache* cache, spillway_graph* graph);
/* The one attached; without one, a new one is. To be closed. */
SPILLWAY_API spillway_code spillway_cache_graph(spillway_cache* cache, spillway_graph** graph);
/* By a graph from elsewhere: names agents, who may leave first in front and who
 * runs soonest at the end. Holds until it is said anew; none: no run is live.
 * Replaces a graph attached before. */
SPILLWAY_API spillway_code spillway_cache_attach_agents(spillway_cache* cache,
                                                        const spillway_bytes* agents, size_t count);

/* A whole run from a JSON document, all of it or nothing. *run (or NULL) is its
 * name, as JSON has it no quotes around it; free it. */
SPILLWAY_API spillway_code spillway_graph_load(spillway_graph* graph, spillway_bytes json,
                                               char** run);
SPILLWAY_API spillway_code spillway_graph_begin(spillway_graph* graph, spillway_bytes run,
                                                spillway_bytes client, spillway_bytes workflow);
/* `agent` may be empty: named as the step is. */
SPILLWAY_API spillway_code spillway_graph_add_step(spillway_graph* graph, spillway_bytes run,
                                                   spillway_bytes step, spillway_bytes agent);
/* `back` not 0: it closes a loop. Edges of one step with the same `choice` (not
 * empty) exclude one another. */
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
/* `taken` NULL: all edges are; else, of exclusive ones, those to these steps. */
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

/* [{"id","agent","state","visits","steps","eta_ms","p","conf"}]; steps and eta_ms
 * are null for never. */
SPILLWAY_API spillway_code spillway_graph_steps(spillway_graph* graph, spillway_bytes run,
                                                char** json);
/* Step completions before it can start; -1: never. */
SPILLWAY_API spillway_code spillway_graph_steps_to(spillway_graph* graph, spillway_bytes run,
                                                   spillway_bytes step, int64_t* steps);
/* Agents of a client's live runs: who has finished first, who runs last. */
SPILLWAY_API spillway_code spillway_graph_agents(spillway_graph* graph, spillway_bytes client,
                                                 char** json);
/* Up to `most` keys by how gladly the graph would let them go. */
SPILLWAY_API spillway_code spillway_graph_order(spillway_graph* graph, size_t most,
                                                spillway_key_visitor visit, void* context);
/* What looks like a mistake: [{"message","steps"}]. */
SPILLWAY_API spillway_code spillway_graph_validate(spillway_graph* graph, spillway_bytes run,
                                                   char** json);
/* Why a key is wanted; NULL: the graph never heard of it. */
SPILLWAY_API spillway_code spillway_graph_explain(spillway_graph* graph, spillway_bytes key,
                                                  char** text);

/* --- leases for array libraries --- */

/* A shape over a lease's bytes, as DLPack has it. */
typedef struct spillway_shape {
  size_t size;
  int32_t device_type; /* kDLCPU 1, kDLCUDA 2, kDLROCM 10 ... */
  int32_t device_id;
  uint8_t code; /* Of the type: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool ... */
  uint8_t bits;
  uint16_t lanes;
  int32_t ndim;
  const int64_t* shape;   /* ndim of them. */
  const int64_t* strides; /* In elements; NULL: dense, rows first. */
  uint64_t offset;        /* Bytes from lease.data. */
} spillway_shape;
/* *managed is a DLManagedTensor or, if `versioned`, a DLManagedTensorVersioned
 * (1.1, read-only). It has the lease now, and the struct is empty; its deleter
 * lets go of it, from any thread. What does not lie within the lease's bytes is
 * refused, and the lease stays yours. */
SPILLWAY_API spillway_code spillway_lease_to_dlpack(spillway_lease* lease,
                                                    const spillway_shape* shape, int32_t versioned,
                                                    void** managed);

#ifdef __cplusplus
}
#endif
