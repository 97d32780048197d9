// SPDX-License-Identifier: Apache-2.0
/* The same in C. */
#include <stdio.h>
#include <string.h>

#include <spillway/spillway.h>

int main(void) {
  const char* context = "what the planner knows so far";
  spillway_options options;
  spillway_cache* cache;
  spillway_lease lease;
  spillway_options_init(&options, sizeof options, NULL);
  options.capacity_bytes = 64u << 20;
  if (spillway_cache_open(&options, &cache) != SPILLWAY_OK ||
      spillway_cache_put(cache, spillway_text("context:planner"), context, strlen(context), NULL) !=
          SPILLWAY_OK ||
      spillway_cache_get(cache, spillway_text("context:planner"), &lease) != SPILLWAY_OK) {
    fprintf(stderr, "%s\n", spillway_error_message());
    return 1;
  }
  printf("%.*s\n", (int)lease.bytes, (const char*)lease.data);
  spillway_lease_release(&lease);
  spillway_cache_close(cache);
  return 0;
}
