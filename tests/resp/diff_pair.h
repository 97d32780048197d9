// SPDX-License-Identifier: Apache-2.0
// One client, connected to Redis and to spillwayd: both are sent the same commands, and
// their replies are compared.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "resp/daemon.h"
#include "resp/random_commands.h"

namespace spillway::resp {

// How far apart two deadlines may be, or what is left until them. Both servers carry a
// command out somewhere between its sending and the last reply to its batch, so a
// deadline that counts from then differs by at most the time the batch took; what is
// left until it differs by that and the time of the batch that asks. Of each key the
// longest batch is known that named it together with such a deadline.
class DeadlineSpans {
 public:
  using Duration = std::chrono::steady_clock::duration;

  void Note(const std::vector<std::string>& words, Duration took);
  // In milliseconds; `words` ask for it in a batch that took so long.
  long Tolerance(const std::vector<std::string>& words, Duration took);
  // The largest that was given, and the largest difference that was met.
  long most_tolerated = 0;
  long most_met = 0;

 private:
  std::unordered_map<std::string, Duration> longest_;
};

// Printable, and no longer than a line.
std::string Shown(std::string_view bytes);

class Pair {
 public:
  // `spans` is shared by all who share keys.
  Pair(const std::string& theirs, const std::string& ours, std::uint64_t seed,
       const RandomCommands::Options& options, DeadlineSpans* spans);

  // False: a connection has ended.
  bool Send(std::size_t count);
  // How many replies differ; `shown` more are printed. Empty: a connection has ended.
  std::optional<int> Compare(int* shown);

 private:
  bool Same(const RandomCommand& command, std::string_view a, std::string_view b,
            DeadlineSpans::Duration took);
  bool SameElements(std::string_view a, std::string_view b, DeadlineSpans::Duration took);
  // Those that MULTI has queued run with its EXEC.
  void Follow(const RandomCommand& command, std::string_view redis, DeadlineSpans::Duration took);

  RandomCommands random_;
  Client redis_;
  Client spillway_;
  DeadlineSpans* const spans_;
  std::vector<RandomCommand> batch_;
  std::vector<RandomCommand> queued_;
  std::chrono::steady_clock::time_point sent_;
};

}  // namespace spillway::resp
