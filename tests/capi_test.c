// SPDX-License-Identifier: Apache-2.0
/* The C ABI from C99, every call of it, used rightly and wrongly. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capi_checks.h"
#include "spillway/spillway.h"

static spillway_cache* OpenSmall(void) {
  spillway_options options;
  spillway_cache* cache = NULL;
  OK(spillway_options_init(&options, sizeof options, NULL));
  options.capacity_bytes = 1 << 20;
  options.token_budget = 1000;
  OK(spillway_cache_open(&options, &cache));
  if (cache == NULL) {
    printf("no cache, no test: %s\n0 passed, 1 failed\n", spillway_error_message());
    exit(1);
  }
  return cache;
}

static int Put(spillway_cache* cache, const char* key, const char* value) {
  return spillway_cache_put(cache, T(key), value, strlen(value), NULL) == SPILLWAY_OK;
}

static void Names(void) {
  CHECK(strcmp(spillway_code_name(SPILLWAY_OK), "OK") == 0);
  CHECK(strcmp(spillway_code_name(SPILLWAY_OVER_BUDGET), "OverBudget") == 0);
  CHECK(strcmp(spillway_code_name(SPILLWAY_INTERNAL), "Internal") == 0);
  CHECK(strcmp(spillway_code_name(99), "") == 0);
  CHECK(strcmp(spillway_mode_name(SPILLWAY_EMERGENCY), "emergency") == 0);
  CHECK(strcmp(spillway_mode_name(SPILLWAY_WORKFLOW_AWARE), "workflow_aware") == 0);
  CHECK(strcmp(spillway_mode_name(-1), "") == 0);
  CHECK(strcmp(spillway_action_name(3), "destroy") == 0);
  CHECK(strcmp(spillway_reason_name(0), "expired") == 0);
  CHECK(strcmp(spillway_reason_name(1000), "") == 0);
  CHECK(strlen(spillway_version()) >= 5);
  CHECK(spillway_abi_version() == SPILLWAY_ABI_VERSION);
  CHECK(strcmp(spillway_error_message(), "") == 0);
}

static void Opening(void) {
  spillway_options options;
  spillway_cache* cache = (spillway_cache*)&options;
  char older[sizeof(spillway_options)];

  BAD(spillway_options_init(NULL, sizeof options, NULL));
  BAD(spillway_options_init(&options, 0, NULL));
  BAD(spillway_options_init(&options, sizeof options, "sede"));
  OK(spillway_options_init(&options, sizeof options, "seed"));
  CHECK(options.ttl_ms == SPILLWAY_NONE && options.token_budget == SPILLWAY_NONE);
  CHECK(options.unlimited == 1 && strcmp(options.policy, "seed") == 0);
  OK(spillway_options_init(&options, sizeof options, "default"));
  CHECK(options.size == sizeof options && options.capacity_bytes == SPILLWAY_WHOLE_CARD);
  CHECK(options.ttl_ms == 600000 && options.token_budget == 50000000);
  CHECK(options.threshold_emergency > 0.95 && options.threshold_emergency < 0.97);

  BAD(spillway_cache_open(&options, NULL));
  options.capacity_bytes = 0;
  BAD(spillway_cache_open(&options, &cache));
  CHECK(cache == NULL && HasText(spillway_error_message(), "capacity"));
  options.capacity_bytes = 1 << 20;
  options.policy = "best";
  BAD(spillway_cache_open(&options, &cache));
  CHECK(HasText(spillway_error_message(), "best"));
  options.policy = NULL;
  options.threshold_normal = 0.9;
  BAD(spillway_cache_open(&options, &cache));
  options.size = 0;
  BAD(spillway_cache_open(&options, &cache));

  /* A caller of an older version knows fewer fields; the rest are defaults. */
  OK(spillway_options_init(&options, sizeof options, NULL));
  memset(older, 0x5a, sizeof older);
  memcpy(older, &options, offsetof(spillway_options, capacity_bytes));
  ((spillway_options*)(void*)older)->size = offsetof(spillway_options, capacity_bytes);
  OK(spillway_cache_open((spillway_options*)(void*)older, &cache));
  spillway_cache_close(cache);

  BAD(spillway_cache_open_toml(T("capacty = \"1MiB\"\n"), "cache.toml", &cache));
  CHECK(cache == NULL && HasText(spillway_error_message(), "cache.toml:1"));
  BAD(spillway_cache_open_toml(T("write_behind_after = \"1s\"\n"), "cache.toml", &cache));
  CHECK(HasText(spillway_error_message(), "'write_behind_after': it is now write_back_after"));
  BAD(spillway_cache_open_toml(T(""), NULL, NULL));
  OK(spillway_cache_open_toml(T("capacity = \"1MiB\"\npolicy = \"lru\"\n"), NULL, &cache));
  OK(spillway_cache_start(cache));
  OK(spillway_cache_start(cache));
  OK(spillway_cache_stop(cache));
  OK(spillway_cache_stop(cache));
  OK(spillway_cache_close(cache));
  OK(spillway_cache_close(NULL));
  OK(spillway_set_log(SPILLWAY_LOG_WARNING, NULL, NULL));
  BAD(spillway_set_log(4, NULL, NULL));
  BAD(spillway_cache_start(NULL));
  BAD(spillway_cache_stop(NULL));
}

static void OneKey(void) {
  spillway_cache* cache = OpenSmall();
  spillway_lease lease;
  spillway_lease_facts facts;
  spillway_put_options with;
  char copy[16];
  uint64_t bytes = 0;
  int32_t found = 0;

  memset(&with, 0, sizeof with);
  with.size = sizeof with;
  with.tokens = 7;
  with.agent = T("planner");
  with.meta = T("meta");
  with.hint = SPILLWAY_HINT_AGAIN;
  OK(spillway_cache_put(cache, T("key"), "value", 5, &with));

  OK(spillway_cache_get(cache, T("key"), &lease));
  CHECK(lease.handle != 0 && lease.bytes == 5 && memcmp(lease.data, "value", 5) == 0);
  facts.size = sizeof facts;
  OK(spillway_lease_read_facts(&lease, &facts));
  CHECK(facts.tokens == 7 && facts.generation > 0);
  CHECK(facts.agent.bytes == 7 && memcmp(facts.agent.data, "planner", 7) == 0);
  CHECK(facts.meta.bytes == 4 && memcmp(facts.meta.data, "meta", 4) == 0);
  facts.size = 0;
  BAD(spillway_lease_read_facts(&lease, &facts));

  /* A new generation; the lease keeps the old one. */
  CHECK(Put(cache, "key", "other"));
  CHECK(memcmp(lease.data, "value", 5) == 0);
  OK(spillway_lease_release(&lease));
  CHECK(lease.handle == 0 && lease.data == NULL);
  OK(spillway_lease_release(&lease));

  OK(spillway_cache_get(cache, T("nowhere"), &lease));
  CHECK(lease.handle == 0);
  BAD(spillway_lease_read_facts(&lease, &facts));

  OK(spillway_cache_read(cache, T("key"), copy, sizeof copy, &bytes, &found));
  CHECK(found == 1 && bytes == 5 && memcmp(copy, "other", 5) == 0);
  BAD(spillway_cache_read(cache, T("key"), copy, 4, &bytes, &found));
  CHECK(found == 1 && bytes == 5);
  OK(spillway_cache_read(cache, T("nowhere"), NULL, 0, &bytes, &found));
  CHECK(found == 0 && bytes == 0);

  OK(spillway_cache_contains(cache, T("key"), &found));
  CHECK(found == 1);
  OK(spillway_cache_touch(cache, T("key"), SPILLWAY_HINT_DONE, &found));
  CHECK(found == 1);
  OK(spillway_cache_erase(cache, T("key"), &found));
  CHECK(found == 1);
  OK(spillway_cache_erase(cache, T("key"), &found));
  CHECK(found == 0);
  OK(spillway_cache_contains(cache, T("key"), &found));
  CHECK(found == 0);

  /* Nothing at all is a value, too. */
  OK(spillway_cache_put(cache, T("empty"), NULL, 0, NULL));
  OK(spillway_cache_get(cache, T("empty"), &lease));
  CHECK(lease.handle != 0 && lease.bytes == 0);
  OK(spillway_lease_release(&lease));
  OK(spillway_cache_clear(cache));
  OK(spillway_cache_flush_deletes(cache, 1000));
  OK(spillway_cache_contains(cache, T("empty"), &found));
  CHECK(found == 0);
  spillway_cache_close(cache);
}

static void BadLeases(void) {
  spillway_cache* cache = OpenSmall();
  spillway_lease lease;
  spillway_lease copy;
  spillway_lease garbage = {0x1234567890abcdefu, NULL, 0};
  spillway_lease again;
  CHECK(Put(cache, "key", "value"));
  OK(spillway_cache_get(cache, T("key"), &lease));
  copy = lease;
  OK(spillway_lease_release(&lease));
  again = copy;
  BAD(spillway_lease_release(&copy));
  CHECK(copy.handle == 0);
  BAD(spillway_lease_release(&garbage));
  BAD(spillway_lease_release(NULL));

  /* The place is used again; the old handle still means the old lease. */
  OK(spillway_cache_get(cache, T("key"), &lease));
  CHECK(lease.handle != again.handle);
  BAD(spillway_lease_release(&again));
  CHECK(memcmp(lease.data, "value", 5) == 0);

  /* Leases outlive their cache. */
  spillway_cache_close(cache);
  CHECK(memcmp(lease.data, "value", 5) == 0);
  OK(spillway_lease_release(&lease));
}

static void Refusals(void) {
  spillway_cache* cache = OpenSmall();
  spillway_put_options with;
  spillway_lease lease;
  spillway_bytes nothing = {NULL, 3};
  uint64_t bytes = 0;
  int32_t found = 0;
  static char large[2 << 20];

  memset(&with, 0, sizeof with);
  with.size = sizeof with;
  BAD(spillway_cache_put(cache, T(""), "v", 1, NULL));
  BAD(spillway_cache_put(cache, nothing, "v", 1, NULL));
  BAD(spillway_cache_put(cache, T("k"), NULL, 1, NULL));
  BAD(spillway_cache_put(NULL, T("k"), "v", 1, NULL));
  BAD(spillway_cache_put(cache, (spillway_bytes){large, 65537}, "v", 1, NULL));
  with.tokens = -1;
  BAD(spillway_cache_put(cache, T("k"), "v", 1, &with));
  with.tokens = 2000;
  REFUSED(spillway_cache_put(cache, T("k"), "v", 1, &with), SPILLWAY_OVER_BUDGET);
  with.tokens = 0;
  with.ttl_ms = -5;
  BAD(spillway_cache_put(cache, T("k"), "v", 1, &with));
  with.ttl_ms = 0;
  with.hint = 9;
  BAD(spillway_cache_put(cache, T("k"), "v", 1, &with));
  with.hint = 0;
  with.meta = nothing;
  BAD(spillway_cache_put(cache, T("k"), "v", 1, &with));
  with.size = 0;
  BAD(spillway_cache_put(cache, T("k"), "v", 1, &with));
  REFUSED(spillway_cache_put(cache, T("k"), large, sizeof large, NULL), SPILLWAY_TOO_LARGE);

  BAD(spillway_cache_get(NULL, T("k"), &lease));
  BAD(spillway_cache_get(cache, T("k"), NULL));
  BAD(spillway_cache_get(cache, nothing, &lease));
  BAD(spillway_cache_read(cache, T("k"), NULL, 5, &bytes, &found));
  BAD(spillway_cache_read(cache, T("k"), NULL, 0, NULL, &found));
  BAD(spillway_cache_erase(NULL, T("k"), NULL));
  BAD(spillway_cache_touch(cache, T("k"), 77, NULL));
  BAD(spillway_cache_contains(NULL, T("k"), NULL));
  BAD(spillway_cache_clear(NULL));
  BAD(spillway_cache_flush_deletes(NULL, 0));
  BAD(spillway_cache_get_many(cache, NULL, 1, &lease, NULL));
  BAD(spillway_cache_get_many(cache, &nothing, 1, NULL, NULL));
  BAD(spillway_cache_match(cache, NULL, 1, NULL));
  BAD(spillway_cache_get_chain(NULL, &nothing, 1, &lease, NULL));
  spillway_cache_close(cache);
}

static void ManyKeys(void) {
  spillway_cache* cache = OpenSmall();
  spillway_put_options child;
  spillway_bytes keys[3] = {{"root", 4}, {"leaf", 4}, {"more", 4}};
  spillway_lease leases[3];
  size_t run = 9;

  memset(&child, 0, sizeof child);
  child.size = sizeof child;
  child.parent = keys[0];
  CHECK(Put(cache, "root", "r"));
  OK(spillway_cache_put(cache, keys[1], "l", 1, &child));

  OK(spillway_cache_match(cache, keys, 3, &run));
  CHECK(run == 2);
  OK(spillway_cache_get_chain(cache, keys, 3, leases, &run));
  CHECK(run == 2 && leases[0].handle != 0 && leases[1].handle != 0 && leases[2].handle == 0);
  CHECK(memcmp(leases[1].data, "l", 1) == 0);
  OK(spillway_lease_release(&leases[0]));
  OK(spillway_lease_release(&leases[1]));

  OK(spillway_cache_get_many(cache, keys, 3, leases, &run));
  CHECK(run == 2 && leases[0].handle != 0 && leases[2].handle == 0);
  OK(spillway_lease_release(&leases[0]));
  OK(spillway_lease_release(&leases[1]));

  /* A new root is another chain. */
  CHECK(Put(cache, "root", "R"));
  OK(spillway_cache_match(cache, keys, 3, &run));
  CHECK(run == 1);
  OK(spillway_cache_match(cache, keys, 0, &run));
  CHECK(run == 0);
  spillway_cache_close(cache);
}

static spillway_operation Operation(int32_t kind, const char* key) {
  spillway_operation operation;
  memset(&operation, 0, sizeof operation);
  operation.size = sizeof operation;
  operation.kind = kind;
  operation.key = T(key);
  return operation;
}

static int Readable(spillway_cache* cache, int timeout_ms) {
  struct pollfd ready = {spillway_cache_fd(cache), POLLIN, 0};
  return poll(&ready, 1, timeout_ms);
}

/* The next batch that ends, which must be `tag`. */
static spillway_completion Next(spillway_cache* cache, uint64_t tag) {
  spillway_completion completion = {0, NULL, 0, 0};
  size_t count = 0;
  OK(spillway_cache_poll(cache, &completion, 1, 20000, &count));
  CHECK(count == 1 && completion.tag == tag);
  return completion;
}

static void Batches(void) {
  spillway_cache* cache = OpenSmall();
  spillway_operation operations[6];
  spillway_completion completions[4];
  spillway_fragment pieces[2] = {{"Hel", 3, SPILLWAY_HOST}, {"lo", 2, SPILLWAY_HOST}};
  spillway_fragment on_device = {"xyz", 3, SPILLWAY_DEVICE};
  char first[2];
  char rest[8];
  spillway_sink into[2] = {{first, 2, SPILLWAY_HOST}, {rest, 8, SPILLWAY_HOST}};
  size_t count = 9;

  CHECK(Readable(cache, 0) == 0);
  OK(spillway_cache_poll(cache, completions, 4, 0, &count));
  CHECK(count == 0);
  OK(spillway_cache_poll(cache, completions, 4, 5, &count));
  CHECK(count == 0);

  operations[0] = Operation(SPILLWAY_PUT, "whole");
  operations[0].source = pieces;
  operations[0].source_count = 2;
  operations[0].tokens = 3;
  operations[0].agent = T("greeter");
  operations[1] = Operation(SPILLWAY_PUT, "");
  operations[1].source = pieces;
  operations[1].source_count = 1;
  operations[2] = Operation(SPILLWAY_PUT, "device");
  operations[2].source = &on_device;
  operations[2].source_count = 1;
  operations[3] = Operation(77, "kind");
  operations[4] = Operation(SPILLWAY_PUT, "no source");
  operations[4].source_count = 1;
  operations[5] = Operation(SPILLWAY_PUT, "empty");
  OK(spillway_cache_submit(cache, operations, 6, 10000, 41));
  CHECK(Readable(cache, 20000) == 1);
  completions[0] = Next(cache, 41);
  CHECK(completions[0].operations == operations && completions[0].count == 6);
  CHECK(completions[0].failed == 4);
  CHECK(Readable(cache, 0) == 0);
  CHECK(operations[0].code == SPILLWAY_OK && operations[0].message[0] == '\0');
  CHECK(operations[1].code == SPILLWAY_INVALID_ARGUMENT && HasText(operations[1].message, "empty"));
  CHECK(operations[2].code == SPILLWAY_INVALID_ARGUMENT &&
        HasText(operations[2].message, "device"));
  CHECK(operations[3].code == SPILLWAY_INVALID_ARGUMENT && HasText(operations[3].message, "77"));
  CHECK(operations[4].code == SPILLWAY_INVALID_ARGUMENT && HasText(operations[4].message, "NULL"));
  CHECK(operations[5].code == SPILLWAY_OK);

  operations[0] = Operation(SPILLWAY_GET, "whole");
  operations[1] = Operation(SPILLWAY_GET, "whole");
  operations[1].into = into;
  operations[1].into_count = 2;
  operations[2] = Operation(SPILLWAY_GET, "whole");
  operations[2].into = into;
  operations[2].into_count = 1;
  operations[3] = Operation(SPILLWAY_GET, "nowhere");
  operations[4] = Operation(SPILLWAY_TOUCH, "whole");
  operations[5] = Operation(SPILLWAY_ERASE, "empty");
  OK(spillway_cache_submit(cache, operations, 6, -1, 42));
  completions[0] = Next(cache, 42);
  CHECK(completions[0].failed == 1);
  CHECK(operations[0].found == 1 && operations[0].lease.handle != 0 && operations[0].bytes == 5);
  CHECK(memcmp(operations[0].lease.data, "Hello", 5) == 0);
  CHECK(operations[1].found == 1 && operations[1].bytes == 5 && operations[1].lease.handle == 0);
  CHECK(memcmp(first, "He", 2) == 0 && memcmp(rest, "llo", 3) == 0);
  CHECK(operations[2].code == SPILLWAY_INVALID_ARGUMENT && operations[2].bytes == 5);
  CHECK(operations[3].code == SPILLWAY_OK && operations[3].found == 0);
  CHECK(operations[4].found == 1 && operations[5].found == 1);

  /* No time at all, and nothing at all. */
  operations[1] = Operation(SPILLWAY_PUT, "late");
  OK(spillway_cache_submit(cache, &operations[1], 1, 0, 43));
  completions[0] = Next(cache, 43);
  CHECK(operations[1].code == SPILLWAY_DEADLINE || operations[1].code == SPILLWAY_OK);
  OK(spillway_cache_submit(cache, NULL, 0, 0, 44));
  completions[0] = Next(cache, 44);
  CHECK(completions[0].count == 0 && completions[0].failed == 0);

  /* Several wait, and come in the order in which they ended. */
  operations[1] = Operation(SPILLWAY_TOUCH, "whole");
  operations[2] = Operation(SPILLWAY_TOUCH, "whole");
  OK(spillway_cache_submit(cache, &operations[1], 1, -1, 45));
  OK(spillway_cache_submit(cache, &operations[2], 1, -1, 46));
  OK(spillway_cache_poll(cache, completions, 1, 20000, &count));
  CHECK(count == 1 && completions[0].tag == 45 && Readable(cache, 0) == 1);
  OK(spillway_cache_poll(cache, completions, 4, -1, &count));
  CHECK(count == 1 && completions[0].tag == 46 && Readable(cache, 0) == 0);

  operations[1].size = 3;
  BAD(spillway_cache_submit(cache, &operations[1], 1, 0, 1));
  BAD(spillway_cache_submit(cache, NULL, 1, 0, 1));
  BAD(spillway_cache_submit(NULL, operations, 1, 0, 1));
  BAD(spillway_cache_poll(NULL, completions, 1, 0, &count));
  BAD(spillway_cache_poll(cache, NULL, 1, 0, &count));
  BAD(spillway_cache_poll(cache, completions, 1, 0, NULL));
  CHECK(spillway_cache_fd(NULL) == -1);

  /* Closed before it is polled: what was submitted has ended all the same. */
  operations[1] = Operation(SPILLWAY_GET, "whole");
  OK(spillway_cache_submit(cache, &operations[1], 1, -1, 47));
  spillway_cache_close(cache);
  CHECK(operations[1].lease.handle != 0 && memcmp(operations[1].lease.data, "Hello", 5) == 0);
  OK(spillway_lease_release(&operations[1].lease));
  OK(spillway_lease_release(&operations[0].lease));
}

struct newer_operation {
  spillway_operation known;
  char unknown[64];
};

static void LargerStructs(void) {
  spillway_cache* cache = OpenSmall();
  struct newer_operation operations[2];
  memset(operations, 0, sizeof operations);
  operations[0].known = Operation(SPILLWAY_PUT, "a");
  operations[1].known = Operation(SPILLWAY_TOUCH, "a");
  operations[0].known.size = sizeof operations[0];
  operations[1].known.size = sizeof operations[1];
  OK(spillway_cache_submit(cache, &operations[0].known, 2, -1, 1));
  CHECK(Next(cache, 1).failed == 0);
  CHECK(operations[1].known.code == SPILLWAY_OK);
  spillway_cache_close(cache);
}

struct Seen {
  int count;
  char key[8];
  int32_t action;
  int32_t reason;
};

static void SeeEviction(const spillway_eviction* eviction, void* context) {
  struct Seen* seen = (struct Seen*)context;
  ++seen->count;
  snprintf(seen->key, sizeof seen->key, "%.*s", (int)eviction->key.bytes,
           (const char*)eviction->key.data);
  seen->action = eviction->action;
  seen->reason = eviction->reason;
}

static int32_t SeeEntry(const spillway_entry* entry, void* context) {
  struct Seen* seen = (struct Seen*)context;
  ++seen->count;
  return entry->bytes == 1 && entry->access_count >= 1 && seen->count < 2 ? 0 : 1;
}

static void Pressure(void) {
  spillway_options options;
  spillway_cache* cache = NULL;
  spillway_state state;
  struct Seen seen = {0, "", 0, 0};
  double pressure = 0.9;
  int32_t level = -1;
  uint64_t freed = 1;
  char* why = NULL;

  OK(spillway_options_init(&options, sizeof options, "seed"));
  OK(spillway_cache_open(&options, &cache));
  CHECK(Put(cache, "a", "1") && Put(cache, "b", "2") && Put(cache, "c", "3"));
  OK(spillway_cache_apply(cache, &pressure, &level, SeeEviction, &seen));
  CHECK(level == SPILLWAY_PRESSURE && seen.count == 1 && strcmp(seen.key, "a") == 0);
  CHECK(strcmp(spillway_action_name(seen.action), "destroy") == 0);
  CHECK(strcmp(spillway_reason_name(seen.reason), "heavy") == 0);

  pressure = 0.97;
  OK(spillway_cache_apply(cache, &pressure, NULL, NULL, NULL));
  state.size = sizeof state;
  OK(spillway_cache_read_state(cache, &state));
  CHECK(state.level == SPILLWAY_EMERGENCY && state.mode == SPILLWAY_EMERGENCY);
  CHECK(state.blocked == 1 && state.pressure_known == 1 && state.pressure > 0.96);
  CHECK(state.entries == 2 && state.size == sizeof state);
  REFUSED(spillway_cache_put(cache, T("d"), "4", 1, NULL), SPILLWAY_BLOCKED);
  CHECK(HasText(spillway_error_message(), "emergency"));

  pressure = 1.5;
  BAD(spillway_cache_apply(cache, &pressure, NULL, NULL, NULL));
  pressure = NAN;
  BAD(spillway_cache_apply(cache, &pressure, NULL, NULL, NULL));
  BAD(spillway_cache_apply(NULL, NULL, NULL, NULL, NULL));
  OK(spillway_cache_apply(cache, NULL, &level, NULL, NULL));

  OK(spillway_cache_reclaim(cache, 100, 1, &freed, &why));
  CHECK(freed == 0 && HasText(why, "never destroys"));
  spillway_free(why);
  BAD(spillway_cache_reclaim(cache, 100, 1, NULL, NULL));
  spillway_cache_close(cache);
}

static void Answers(void) {
  spillway_cache* cache = OpenSmall();
  char* big = calloc(1, (600 << 10) + 1); /* Two of them have no room beside each other. */
  spillway_stats stats;
  spillway_state state;
  spillway_lease lease;
  struct Seen seen = {0, "", 0, 0};
  char* text = NULL;

  CHECK(big != NULL);
  memset(big, 'x', 600 << 10);
  CHECK(Put(cache, "a", "1") && Put(cache, "b", "2") && Put(cache, "a", "3"));
  OK(spillway_cache_get(cache, T("a"), &lease));
  memset(&stats, 0, sizeof stats);
  stats.size = sizeof stats;
  OK(spillway_cache_read_stats(cache, &stats));
  CHECK(stats.entries == 2 && stats.sets == 3 && stats.leases == 1 && stats.hits == 1);
  CHECK(stats.device_bytes == 2 && stats.device_capacity_bytes == 1 << 20);
  CHECK(stats.removed_by_reason[9] == 1 && strcmp(spillway_reason_name(9), "replaced") == 0);
  CHECK(stats.removed_by_action[3] == 1 && stats.device_level == SPILLWAY_RELAXED);
  OK(spillway_lease_release(&lease));

  /* As much as an older caller has room for, and not a byte more. */
  memset(&stats, 0x5a, sizeof stats);
  stats.size = offsetof(spillway_stats, leases);
  OK(spillway_cache_read_stats(cache, &stats));
  CHECK(stats.entries == 2 && stats.leases == 0x5a5a5a5a5a5a5a5au);
  stats.size = 0;
  BAD(spillway_cache_read_stats(cache, &stats));
  BAD(spillway_cache_read_stats(NULL, &stats));
  state.size = 1;
  BAD(spillway_cache_read_state(cache, &state));
  BAD(spillway_cache_read_state(cache, NULL));

  OK(spillway_cache_stats_json(cache, &text));
  CHECK(HasText(text, "\"entries\":2") && HasText(text, "\"replaced\":1"));
  CHECK(HasText(text, "\"level\":\"relaxed\""));
  spillway_free(text);
  BAD(spillway_cache_stats_json(cache, NULL));

  OK(spillway_cache_explain(cache, T("a"), &text));
  CHECK(HasText(text, "'a' is in the device tier"));
  spillway_free(text);
  OK(spillway_cache_explain(cache, T("nowhere"), &text));
  CHECK(HasText(text, "not here"));
  spillway_free(text);
  BAD(spillway_cache_explain(cache, T("a"), NULL));
  BAD(spillway_cache_explain(NULL, T("a"), &text));
  spillway_free(NULL);

  OK(spillway_cache_for_each(cache, SeeEntry, &seen));
  CHECK(seen.count == 2);
  CHECK(Put(cache, "c", "4"));
  seen.count = 0;
  OK(spillway_cache_for_each(cache, SeeEntry, &seen));
  CHECK(seen.count == 2); /* It said stop at two. */
  BAD(spillway_cache_for_each(cache, NULL, NULL));

  /* Only what goes unasked is destroyed: "a" was replaced above. */
  CHECK(Put(cache, "d", big) && Put(cache, "e", big));
  stats.size = sizeof stats;
  OK(spillway_cache_read_stats(cache, &stats));
  CHECK(stats.destroyed_by_reason[4] > 0 && strcmp(spillway_reason_name(4), "room") == 0);
  CHECK(stats.destroyed_bytes_by_reason[4] >= strlen(big) && stats.destroyed_by_reason[9] == 0);
  OK(spillway_cache_stats_json(cache, &text));
  CHECK(HasText(text, "\"destroyed_by_reason\":{") && !HasText(text, "\"room\":0"));
  spillway_free(text);
  spillway_cache_close(cache);
  free(big);
}

/* Device, host and disk: what leaves one lives on in the next, and after close. */
static void Tiers(void) {
  char folder[] = "/tmp/spillway-capi-XXXXXX";
  char command[64];
  char* why = NULL;
  spillway_options options;
  spillway_cache* cache = NULL;
  spillway_lease lease;
  spillway_stats stats;
  spillway_bytes keys[2];
  uint64_t freed = 0;
  size_t coming = 0;
  static char value[300000];
  int i;
  memset(value, 'v', sizeof value);
  CHECK(mkdtemp(folder) != NULL);
  OK(spillway_options_init(&options, sizeof options, NULL));
  CHECK(options.host_capacity_bytes == 0 && options.disk_dir == NULL);
  options.capacity_bytes = 1 << 20;
  options.host_capacity_bytes = 0;
  options.disk_capacity_bytes = 64u << 20;
  REFUSED(spillway_cache_open(&options, &cache), SPILLWAY_INVALID_ARGUMENT); /* No folder. */
  options.host_capacity_bytes = 4u << 20;
  /* RELAXED, and so near to NORMAL that it is looked at every 8 ms: what moves moves soon.
     On a busy machine, too, pressure is known. */
  options.host_pressure_source = "fixed:0.65";
  options.disk_dir = folder;
  options.disk_pressure_source = "fixed:0.65";
  options.sample_period_ms = 1000;
  options.write_back_after_ms = 0;
  OK(spillway_cache_open(&options, &cache));
  if (cache == NULL) return;
  OK(spillway_cache_start(cache));
  for (i = 0; i < 40; ++i) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    value[0] = (char)i;
    OK(spillway_cache_put(cache, T(key), value, sizeof value, NULL));
  }
  OK(spillway_cache_reclaim(cache, 1 << 19, 10000, &freed, &why));
  CHECK(freed >= 1 << 19 && why != NULL && why[0] == '\0');
  if (freed < 1 << 19) printf("freed %llu: %s\n", (unsigned long long)freed, why);
  spillway_free(why);
  memset(&lease, 0, sizeof lease);
  for (i = 0; i < 40; ++i) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    OK(spillway_cache_get(cache, T(key), &lease));
    CHECK(lease.bytes == sizeof value && ((const char*)lease.data)[0] == (char)i);
    OK(spillway_lease_release(&lease));
  }
  keys[0] = T("k0");
  keys[1] = T("nobody");
  OK(spillway_cache_prefetch(cache, keys, 2, &coming));
  CHECK(coming <= 1);
  BAD(spillway_cache_prefetch(NULL, keys, 2, &coming));
  BAD(spillway_cache_prefetch(cache, NULL, 2, &coming));
  memset(&stats, 0, sizeof stats);
  stats.size = sizeof stats;
  OK(spillway_cache_read_stats(cache, &stats));
  CHECK(stats.entries == 40 && stats.host_capacity_bytes == 4u << 20 && stats.disk_bytes > 0);
  CHECK(stats.transferred_down_bytes > 0 && stats.corrupt == 0);
  spillway_cache_close(cache);

  OK(spillway_cache_open(&options, &cache)); /* The next morning. */
  stats.size = sizeof stats;
  OK(spillway_cache_get(cache, T("k1"), &lease));
  CHECK(lease.bytes == sizeof value && ((const char*)lease.data)[0] == 1);
  OK(spillway_lease_release(&lease));
  OK(spillway_cache_clear(cache));
  spillway_cache_close(cache);
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
}

int main(void) {
  Names();
  Opening();
  OneKey();
  BadLeases();
  Refusals();
  ManyKeys();
  Batches();
  LargerStructs();
  Pressure();
  Answers();
  Tiers();
  return Finish();
}
