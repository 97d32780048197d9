// SPDX-License-Identifier: Apache-2.0
// Random commands for both servers, the same for the same seed.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::resp {

// How a reply may differ, and still be the same.
enum class Sameness : std::uint8_t {
  kBytes,     // Not at all.
  kAnyOrder,  // Elements in any order.
  kSeconds,   // A number off by what the way took, in seconds.
  kMillis,    // The same in milliseconds.
  kKind,      // Only the kind of reply counts (RANDOMKEY, CLIENT ID).
  kHello      // But for the connection's number.
};

struct RandomCommand {
  std::vector<std::string> words;
  Sameness sameness = Sameness::kBytes;
  bool sets_deadline = false;  // One that counts from when the command is carried out.
};

class RandomCommands {
 public:
  struct Options {
    // One value of so many is from 1 kB to `large_max`; 0: none.
    std::uint64_t one_large_in = 0;
    std::size_t large_max = 300'000;
    // Databases are `database` and the one behind it, and nothing touches those of
    // others. Empty: all of them.
    std::optional<int> database = {};
  };
  explicit RandomCommands(std::uint64_t seed) : RandomCommands(seed, Options()) {}
  RandomCommands(std::uint64_t seed, const Options& options) : random_(seed), options_(options) {}
  RandomCommand Next();

 private:
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  std::string Key();
  std::string Text();
  std::string Number();
  std::string Pattern();
  std::string Seconds();
  std::string Millis();
  std::string UnixSeconds();
  std::string UnixMillis();
  std::string AnyCase(std::string word);
  // K: key, A: key whose deadlines are all given as a time, V: value, N: number, D: database, P:
  // pattern, s S m M: times; others are words.
  std::vector<std::string> Fill(std::string_view form);

  // Whether it would reach the keys of others.
  bool IsForAll(std::string_view form) const;
  std::string Database();

  std::mt19937_64 random_;
  const Options options_;
  bool in_multi_ = false;
};

}  // namespace spillway::resp
