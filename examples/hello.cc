// SPDX-License-Identifier: Apache-2.0
// The smallest program that stores a context.
#include <iostream>
#include <string>

#include <spillway/cache.h>

int main() {
  spillway::Options options;
  options.capacity = 64 * spillway::kMiB;
  auto cache = spillway::Cache::Open(options);
  if (!cache) {
    std::cerr << cache.error().message << "\n";
    return 1;
  }
  const std::string context = "what the planner knows so far";
  spillway::SetOptions set;
  set.tokens = 6;
  if (auto stored = (*cache)->Set("context:planner", spillway::Source(context), set); !stored) {
    std::cerr << stored.error().message << "\n";
    return 1;
  }
  auto got = (*cache)->Get("context:planner");
  if (!got || !*got || (*got)->text() != context) return 1;
  std::cout << (*got)->agent() << ": " << (*got)->text() << "\n"
            << (*cache)->Explain("context:planner") << "\n";
}
