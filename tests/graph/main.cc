// SPDX-License-Identifier: Apache-2.0
// graph_check: any number of random step graphs against a naive fixpoint.
//
//   graph_check [--graphs N] [--seed S]
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "graph/testing/random_check.h"

namespace spillway {
namespace {

bool ReadNumber(std::string_view text, std::uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

int Main(int argc, char** argv) {
  std::uint64_t graphs = 100'000;
  std::uint64_t seed = 1;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if ((name == "--graphs" && ReadNumber(value, &graphs)) ||
        (name == "--seed" && ReadNumber(value, &seed))) {
      continue;
    }
    fmt::print(stderr, "graph_check: {} '{}' is not understood; [--graphs N] [--seed S]\n", name,
               value);
    return 2;
  }
  std::uint64_t comparisons = 0;
  for (std::uint64_t i = 0; i < graphs; ++i) {
    const testing::RandomCheck check = testing::CheckRandomGraph(seed + i);
    comparisons += check.comparisons;
    if (!check.wrong.empty()) {
      fmt::print(stderr, "seed {}: {}\n", seed + i, check.wrong);
      return 1;
    }
    if ((i + 1) % 10'000 == 0) fmt::print(stderr, "{} graphs\n", i + 1);
  }
  fmt::print("{} random graphs from seed {}: {} answers, all as the naive fixpoint's\n", graphs,
             seed, comparisons);
  return 0;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) { return spillway::Main(argc, argv); }
