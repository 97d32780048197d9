// SPDX-License-Identifier: Apache-2.0
// What a user's first program does: open, set, get.
#include <cstdio>
#include <string_view>

#include "spillway/cache.h"
#include "spillway/version.h"

int main() {
  auto cache = spillway::Cache::Open({});
  if (!cache) return 1;
  const std::string_view value = "what an agent needs back";
  if (!(*cache)->Set("context:a", spillway::Source(value.data(), value.size()))) return 2;
  const auto got = (*cache)->Get("context:a");
  if (!got || !*got || (*got)->text() != value) return 3;
  std::printf("spillway %s\n", SPILLWAY_VERSION);
  return 0;
}
