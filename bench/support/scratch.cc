// SPDX-License-Identifier: Apache-2.0
#include "bench/support/scratch.h"

#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

namespace spillway::bench {

Scratch::Scratch() {
  const char* const told = std::getenv("SPILLWAY_BENCH_DIR");
  const std::filesystem::path base =
      told != nullptr ? std::filesystem::path(told) : std::filesystem::temp_directory_path();
  std::string pattern = (base / "spillway-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    fmt::print(stderr, "no folder could be made in {} (SPILLWAY_BENCH_DIR names another)\n",
               base.string());
    std::exit(1);
  }
  path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace spillway::bench
