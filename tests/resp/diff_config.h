// SPDX-License-Identifier: Apache-2.0
// What resp_diff runs spillwayd with: a mode says how much room there is, and the seed
// draws the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "resp/random_commands.h"

namespace spillway::resp {

enum class Mode : std::uint8_t { kPlain, kTight, kEmergency };
inline constexpr Mode kModes[] = {Mode::kPlain, Mode::kTight, Mode::kEmergency};
std::string_view Name(Mode mode);

struct DiffConfig {
  // The same for the same mode and seed.
  static DiffConfig Draw(Mode mode, std::uint64_t seed);
  // For a configuration file; `dir` is where its disk tier goes.
  std::string Settings(const std::string& dir) const;
  // In a line.
  std::string Told() const;

  std::uint64_t capacity = 0;
  std::uint64_t host_capacity = 0;  // 0: no host tier.
  bool has_disk = false;
  const char* pressure = "0.1";
  const char* host_pressure = "0.1";
  const char* write_back = "none";
  const char* on_blocked = "auto";
  const char* policy = "score";
  bool read_back = true;
  int io_threads = 1;

  int clients = 1;
  // Each client has databases of its own and all send at once. Otherwise they have the
  // same ones, and one after another has its turn: only so is the order known.
  bool own_databases = false;
  std::size_t batch_max = 1;  // Commands that are sent before their replies are read.
  RandomCommands::Options commands;
};

}  // namespace spillway::resp
