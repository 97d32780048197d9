// SPDX-License-Identifier: Apache-2.0
// stress: mixed operations on several threads, every byte verified. Made for the thread
// sanitizer; `make san` runs it with 10,000,000 operations.
//
//   stress [--ops N] [--threads T] [--seed S] [--policy P] [--hash-bits B]
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "stress/board.h"
#include "stress/phases.h"

namespace spillway::stress {
namespace {

bool ReadNumber(std::string_view text, std::uint64_t most, auto* number) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return false;
  *number = static_cast<std::remove_pointer_t<decltype(number)>>(value);
  return true;
}

std::optional<Settings> ReadArguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    bool known = true;
    if (name == "--ops") {
      known = ReadNumber(value, 1'000'000'000'000, &settings.ops);
    } else if (name == "--threads") {
      known = ReadNumber(value, 256, &settings.threads) && settings.threads > 0;
    } else if (name == "--seed") {
      known = ReadNumber(value, UINT64_MAX, &settings.seed);
    } else if (name == "--hash-bits") {
      known = ReadNumber(value, 64, &settings.hash_bits) && settings.hash_bits > 0;
    } else if (name == "--policy" && !value.empty()) {
      settings.policy = value;
    } else {
      known = false;
    }
    if (!known) {
      fmt::print(stderr, "stress: {} '{}' is not understood\n", name, value);
      return std::nullopt;
    }
  }
  return settings;
}

int Main(int argc, char** argv) {
  const std::optional<Settings> settings = ReadArguments(argc, argv);
  if (!settings) return 2;
  const auto start = std::chrono::steady_clock::now();
  fmt::print("stress: {} operations on {} threads, seed {}, policy {}, {} bits of hash\n",
             settings->ops, settings->threads, settings->seed, settings->policy,
             settings->hash_bits);
  std::fflush(stdout);
  Board board(*settings);
  RunMixed(&board);
  RunReplacing(&board, settings->ops / 50);
  RunClosing(&board, settings->ops / 5000);
  RunSmall(&board, settings->ops / 4);
  RunTiers(&board, settings->ops / 20);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("stress: {} failures in {:.1f} s\n", board.failures(), took.count());
  return board.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace spillway::stress

int main(int argc, char** argv) { return spillway::stress::Main(argc, argv); }
