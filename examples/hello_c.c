/* The same in C. */
#include <stdio.h>
#include <string.h>

#include <spillway/spillway.h>

int main(void) {
  spillway_options options;
  spillway_error error;
  spillway_cache* cache;
  spillway_options_init(&options);
  options.capacity = 64u << 20;
  if (spillway_cache_open(&options, &cache, &error) != SPILLWAY_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  char context[] = "what the planner knows so far";
  spillway_fragment fragment = {context, strlen(context), SPILLWAY_HOST};
  spillway_put put = {0};
  put.key = "context:planner";
  put.key_bytes = strlen("context:planner");
  put.fragments = &fragment;
  put.fragment_count = 1;
  put.tokens = 6;
  if (spillway_cache_put_one(cache, &put, &error) != SPILLWAY_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  spillway_get get = {0};
  get.key = put.key;
  get.key_bytes = put.key_bytes;
  if (spillway_cache_get_one(cache, &get, &error) != SPILLWAY_OK) return 1;
  printf("%.*s\n", (int)get.bytes, (const char*)get.data);
  spillway_lease_release(get.lease);
  spillway_cache_close(cache);
  return 0;
}
