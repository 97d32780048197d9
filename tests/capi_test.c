/* The C ABI, used by C: every call, right and wrong. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "spillway/spillway.h"

static int passed = 0;
static int failed = 0;

static void Check(int ok, const char* what, int line) {
  if (ok) {
    ++passed;
  } else {
    ++failed;
    printf("capi_test.c:%d: failed: %s\n", line, what);
  }
}
#define CHECK(condition) Check((condition) ? 1 : 0, #condition, __LINE__)

static spillway_cache* OpenSmall(void) {
  spillway_options options;
  spillway_error error;
  spillway_cache* cache = NULL;
  spillway_options_init(&options);
  options.capacity = 1 << 20;
  CHECK(spillway_cache_open(&options, &cache, &error) == SPILLWAY_OK);
  CHECK(error.code == SPILLWAY_OK);
  return cache;
}

static spillway_put Put(const char* key, spillway_fragment* fragment, const char* value) {
  spillway_put item;
  memset(&item, 0, sizeof item);
  item.key = key;
  item.key_bytes = strlen(key);
  fragment->data = (void*)(uintptr_t)value;
  fragment->bytes = strlen(value);
  fragment->place = SPILLWAY_HOST;
  item.fragments = fragment;
  item.fragment_count = 1;
  item.tokens = 3;
  return item;
}

static spillway_get Get(const char* key) {
  spillway_get item;
  memset(&item, 0, sizeof item);
  item.key = key;
  item.key_bytes = strlen(key);
  return item;
}

static void OneAtATime(void) {
  spillway_cache* cache = OpenSmall();
  spillway_error error;
  spillway_fragment fragment;
  spillway_put put = Put("a", &fragment, "hello");
  put.agent = "planner";
  put.meta = "m";
  put.meta_bytes = 1;
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_OK);
  CHECK(put.code == SPILLWAY_OK);

  spillway_get get = Get("a");
  CHECK(spillway_cache_get_one(cache, &get, &error) == SPILLWAY_OK);
  CHECK(get.bytes == 5 && get.tokens == 3 && get.lease != 0);
  CHECK(memcmp(get.data, "hello", 5) == 0);

  /* The lease stays good whatever happens to the key. */
  CHECK(spillway_cache_erase(cache, "a", 1) == SPILLWAY_OK);
  CHECK(spillway_cache_erase(cache, "a", 1) == SPILLWAY_NOT_FOUND);
  CHECK(memcmp(get.data, "hello", 5) == 0);
  CHECK(spillway_lease_release(get.lease) == SPILLWAY_OK);
  CHECK(spillway_lease_release(get.lease) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_lease_release(0) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_lease_release(UINT64_MAX) == SPILLWAY_INVALID_ARGUMENT);

  get = Get("a");
  CHECK(spillway_cache_get_one(cache, &get, &error) == SPILLWAY_NOT_FOUND);
  CHECK(get.lease == 0 && error.code == SPILLWAY_OK);

  /* Into the caller's memory, in two pieces. */
  put = Put("b", &fragment, "0123456789");
  CHECK(spillway_cache_put_one(cache, &put, NULL) == SPILLWAY_OK);
  char left[4];
  char right[16];
  memset(right, '.', sizeof right);
  spillway_fragment into[2] = {{left, sizeof left, SPILLWAY_HOST},
                               {right, sizeof right, SPILLWAY_HOST}};
  get = Get("b");
  get.fragments = into;
  get.fragment_count = 2;
  CHECK(spillway_cache_get_one(cache, &get, &error) == SPILLWAY_OK);
  CHECK(get.bytes == 10 && get.lease == 0);
  CHECK(memcmp(left, "0123", 4) == 0 && memcmp(right, "456789.", 7) == 0);
  get.fragment_count = 1;
  CHECK(spillway_cache_get_one(cache, &get, &error) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "sink has 4 bytes") != NULL);

  CHECK(spillway_cache_contains(cache, "b", 1) == SPILLWAY_OK);
  CHECK(spillway_cache_touch(cache, "b", 1) == SPILLWAY_OK);
  CHECK(spillway_cache_touch(cache, "x", 1) == SPILLWAY_NOT_FOUND);
  CHECK(spillway_cache_clear(cache) == SPILLWAY_OK);
  CHECK(spillway_cache_contains(cache, "b", 1) == SPILLWAY_NOT_FOUND);
  spillway_cache_close(cache);
}

static void Batches(void) {
  spillway_cache* cache = OpenSmall();
  spillway_fragment fragments[3];
  spillway_put puts[3];
  puts[0] = Put("root", &fragments[0], "R");
  puts[1] = Put("leaf", &fragments[1], "L");
  puts[1].parent = "root";
  puts[1].parent_bytes = 4;
  puts[2] = Put("", &fragments[2], "no key");
  CHECK(spillway_cache_put(cache, puts, 3, 1000, 7) == SPILLWAY_OK);

  struct pollfd ready = {spillway_cache_fd(cache), POLLIN, 0};
  CHECK(poll(&ready, 1, 20000) == 1);
  spillway_completion completions[4];
  CHECK(spillway_cache_poll(cache, completions, 4, 20000) == 1);
  CHECK(completions[0].tag == 7 && completions[0].failures == 1);
  CHECK(puts[0].code == SPILLWAY_OK && puts[1].code == SPILLWAY_OK);
  CHECK(puts[2].code == SPILLWAY_INVALID_ARGUMENT);
  CHECK(poll(&ready, 1, 0) == 0);
  CHECK(spillway_cache_poll(cache, completions, 4, 0) == 0);

  const void* keys[3] = {"root", "leaf", "more"};
  const size_t key_bytes[3] = {4, 4, 4};
  CHECK(spillway_cache_match(cache, keys, key_bytes, 3) == 2);

  spillway_get gets[2];
  gets[0] = Get("leaf");
  gets[1] = Get("more");
  CHECK(spillway_cache_get(cache, gets, 2, 1000, 8) == SPILLWAY_OK);
  CHECK(spillway_cache_poll(cache, completions, 4, 20000) == 1);
  CHECK(completions[0].tag == 8 && completions[0].failures == 0);
  CHECK(gets[0].code == SPILLWAY_OK && gets[1].code == SPILLWAY_NOT_FOUND);

  /* Leases outlive their cache. */
  spillway_cache_close(cache);
  CHECK(memcmp(gets[0].data, "L", 1) == 0);
  CHECK(spillway_lease_release(gets[0].lease) == SPILLWAY_OK);
}

static void Pressure(void) {
  spillway_cache* cache = OpenSmall();
  spillway_error error;
  spillway_fragment fragment;
  spillway_put put = Put("a", &fragment, "1");
  CHECK(spillway_cache_start(cache, &error) == SPILLWAY_OK);
  CHECK(spillway_cache_stop(cache) == SPILLWAY_OK);
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_OK);
  CHECK(spillway_cache_apply(cache, 0.97) == 0);
  CHECK(spillway_cache_level(cache) == SPILLWAY_EMERGENCY);
  CHECK(spillway_cache_is_blocked(cache) == 1);
  put = Put("b", &fragment, "2");
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_BLOCKED);
  CHECK(error.code == SPILLWAY_BLOCKED && strstr(error.message, "emergency") != NULL);

  spillway_stats stats;
  stats.size = sizeof stats;
  CHECK(spillway_cache_stats(cache, &stats) == SPILLWAY_OK);
  CHECK(stats.entries == 1 && stats.tokens == 3 && stats.refused == 1);
  CHECK(stats.capacity == 1 << 20 && stats.level == SPILLWAY_EMERGENCY && stats.blocked == 1);
  stats.size = 1;
  CHECK(spillway_cache_stats(cache, &stats) == SPILLWAY_INVALID_ARGUMENT);

  char text[400];
  const size_t json = spillway_cache_stats_json(cache, text, sizeof text);
  CHECK(json == strlen(text) && strstr(text, "\"level\":\"emergency\"") != NULL);
  CHECK(spillway_cache_stats_json(cache, text, 10) == json && strlen(text) == 9);
  CHECK(spillway_cache_explain(cache, "a", 1, text, sizeof text) > 0);
  CHECK(strstr(text, "is in the device tier") != NULL);
  spillway_cache_close(cache);
}

static void WrongArguments(void) {
  spillway_cache* cache = NULL;
  spillway_error error;
  spillway_options options;
  spillway_options_init(&options);
  spillway_options_init(NULL);
  CHECK(spillway_cache_open(NULL, &cache, &error) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_open(&options, NULL, &error) == SPILLWAY_INVALID_ARGUMENT);
  options.size = 3;
  CHECK(spillway_cache_open(&options, &cache, &error) == SPILLWAY_INVALID_ARGUMENT);
  spillway_options_init(&options);
  options.policy = "best";
  CHECK(spillway_cache_open(&options, &cache, &error) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "'best'") != NULL && cache == NULL);
  CHECK(spillway_cache_open_toml("capacty = \"1MiB\"", &cache, &error) ==
        SPILLWAY_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "capacity") != NULL);
  CHECK(spillway_cache_open_toml(NULL, &cache, NULL) == SPILLWAY_INVALID_ARGUMENT);

  CHECK(spillway_cache_open_toml("capacity = \"1MiB\"\npolicy = \"lru\"", &cache, &error) ==
        SPILLWAY_OK);
  spillway_put put;
  memset(&put, 0, sizeof put);
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_put_one(cache, NULL, &error) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_put_one(NULL, &put, &error) == SPILLWAY_INVALID_ARGUMENT);
  put.key = "k";
  put.key_bytes = 1;
  put.fragment_count = 1;
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_INVALID_ARGUMENT);
  spillway_fragment fragment = {NULL, 8, SPILLWAY_HOST};
  put.fragments = &fragment;
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_INVALID_ARGUMENT);
  fragment.data = &fragment;
  fragment.place = SPILLWAY_DEVICE;
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "device fragment") != NULL);
  fragment.place = (spillway_place)9;
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_INVALID_ARGUMENT);
  fragment.place = SPILLWAY_HOST;
  put.tokens = -1;
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_INVALID_ARGUMENT);
  fragment.bytes = 2 << 20;
  put.tokens = 0;
  CHECK(spillway_cache_put_one(cache, &put, &error) == SPILLWAY_TOO_LARGE);

  CHECK(spillway_cache_put(cache, NULL, 1, 10, 1) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_get(NULL, NULL, 0, 10, 1) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_get(cache, NULL, 0, -1, 1) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_poll(cache, NULL, 1, 0) == -1);
  CHECK(spillway_cache_fd(NULL) == -1);
  CHECK(spillway_cache_erase(cache, NULL, 0) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_clear(NULL) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_start(NULL, NULL) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_stop(NULL) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_match(NULL, NULL, NULL, 3) == 0);
  CHECK(spillway_cache_apply(NULL, 0.5) == -1);
  CHECK(spillway_cache_apply(cache, 1.5) == -1);
  CHECK(spillway_cache_apply(cache, -1) == 0);
  CHECK(spillway_cache_stats(cache, NULL) == SPILLWAY_INVALID_ARGUMENT);
  CHECK(spillway_cache_stats_json(NULL, NULL, 0) == 0);
  CHECK(spillway_cache_explain(cache, NULL, 0, NULL, 0) == 0);
  CHECK(spillway_cache_level(NULL) == SPILLWAY_RELAXED);
  CHECK(spillway_cache_is_blocked(NULL) == 0);
  spillway_cache_close(cache);
  spillway_cache_close(NULL);
}

static void Names(void) {
  CHECK(strcmp(spillway_code_name(SPILLWAY_OK), "Ok") == 0);
  CHECK(strcmp(spillway_code_name(SPILLWAY_BLOCKED), "Blocked") == 0);
  CHECK(strcmp(spillway_code_name(SPILLWAY_INTERNAL), "Internal") == 0);
  CHECK(strcmp(spillway_code_name(SPILLWAY_NOT_FOUND), "NotFound") == 0);
  CHECK(strcmp(spillway_code_name((spillway_code)77), "?") == 0);
  CHECK(strlen(spillway_version()) > 0);
}

static void Seed(void) {
  spillway_options options;
  spillway_cache* cache = NULL;
  spillway_fragment fragment;
  spillway_options_init(&options);
  options.seed = 1;
  CHECK(spillway_cache_open(&options, &cache, NULL) == SPILLWAY_OK);
  spillway_put put = Put("a", &fragment, "1");
  CHECK(spillway_cache_put_one(cache, &put, NULL) == SPILLWAY_OK);
  CHECK(spillway_cache_apply(cache, 0.90) == 1); /* A quarter, and at least one. */
  CHECK(spillway_cache_contains(cache, "a", 1) == SPILLWAY_NOT_FOUND);
  spillway_cache_close(cache);
}

int main(void) {
  OneAtATime();
  Batches();
  Pressure();
  WrongArguments();
  Names();
  Seed();
  printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
