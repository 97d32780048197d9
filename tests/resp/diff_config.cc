// SPDX-License-Identifier: Apache-2.0
#include "resp/diff_config.h"

#include <initializer_list>
#include <random>

namespace spillway::resp {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  template <typename T>
  T OneOf(std::initializer_list<T> all) {
    return all.begin()[random_() % all.size()];
  }

 private:
  std::mt19937_64 random_;
};

void DrawRoom(Mode mode, Dice* dice, DiffConfig* config) {
  switch (mode) {
    case Mode::kPlain:
      config->capacity = dice->OneOf({256 * kMiB, 512 * kMiB, 1024 * kMiB});
      config->has_disk = dice->OneOf({true, false});
      // Where idle entries leave there must be somewhere to go.
      config->pressure = config->has_disk ? dice->OneOf({"0.1", "0.65", "0.75"}) : "0.1";
      return;
    case Mode::kTight:
      config->capacity = dice->OneOf({1, 1, 2, 4, 8, 16}) * kMiB;
      config->host_capacity = dice->OneOf({0, 0, 1, 4}) * kMiB;
      config->has_disk = true;
      config->pressure = dice->OneOf({"0.1", "0.1", "0.65", "0.75", "0.88", "0.93"});
      config->host_pressure = dice->OneOf({"0.1", "0.88", "0.97"});
      return;
    case Mode::kEmergency:
      config->capacity = dice->OneOf({1, 4, 16, 64}) * kMiB;
      config->host_capacity = dice->OneOf({0, 0, 4}) * kMiB;
      config->has_disk = true;
      config->pressure = "0.97";
      config->host_pressure = dice->OneOf({"0.1", "0.97"});
      return;
  }
}

}  // namespace

std::string_view Name(Mode mode) {
  switch (mode) {
    case Mode::kPlain:
      return "plain";
    case Mode::kTight:
      return "tight";
    case Mode::kEmergency:
      return "emergency";
  }
  return {};
}

DiffConfig DiffConfig::Draw(Mode mode, std::uint64_t seed) {
  Dice dice(seed);
  DiffConfig config;
  DrawRoom(mode, &dice, &config);
  config.write_back = dice.OneOf({"none", "0ms", "10ms", "500ms"});
  config.on_blocked = dice.OneOf({"auto", "error", "drop"});
  config.policy = dice.OneOf({"score", "lru", "documented"});
  config.read_back = dice.OneOf({true, false});
  config.io_threads = dice.OneOf({1, 2, 4});
  config.clients = dice.OneOf({1, 2, 3, 5, 8});
  config.own_databases = config.clients > 1 && dice.OneOf({true, false, false});
  config.batch_max = dice.OneOf<std::size_t>({1, 10, 50, 200});
  RandomCommands::Options& commands = config.commands;
  commands.one_large_in = dice.OneOf<std::uint64_t>({2, 4, 10});
  commands.large_max = dice.OneOf<std::size_t>({1000, 20'000, 300'000, 300'000});
  if (mode == Mode::kPlain && dice.OneOf({true, false})) commands.one_large_in = 0;
  // Some are larger than memory.
  if (mode == Mode::kTight && config.capacity <= 2 * kMiB && dice.OneOf({true, false, false})) {
    commands.large_max = config.capacity * 5 / 4;
    commands.one_large_in = 20;
  }
  return config;
}

std::string DiffConfig::Settings(const std::string& dir) const {
  // Pressure that is unknown for a while, as on a busy machine, would evict.
  std::string text = "capacity = " + std::to_string(capacity) +
                     "\npressure_source = \"fixed:" + pressure +
                     "\"\nsample_period = \"60s\"\npolicy = \"" + policy +
                     "\"\nwrite_back_after = \"" + write_back + "\"\n";
  if (host_capacity > 0) {
    text += "host_capacity = " + std::to_string(host_capacity) +
            "\nhost_pressure_source = \"fixed:" + host_pressure + "\"\n";
  }
  if (has_disk) {
    text += "disk_dir = \"" + dir +
            "/disk\"\ndisk_capacity = \"8GiB\"\ndisk_pressure_source = \"fixed:0.1\"\n"
            "disk_read_back = " +
            (read_back ? "true\n" : "false\n");
  }
  return text + "[server]\nport = 0\nhttp_port = 0\nio_threads = " + std::to_string(io_threads) +
         "\non_blocked = \"" + on_blocked + "\"\n";
}

std::string DiffConfig::Told() const {
  std::string text = std::to_string(capacity / kMiB) + " MiB at " + pressure;
  if (host_capacity > 0) {
    text += ", host " + std::to_string(host_capacity / kMiB) + " MiB at " + host_pressure;
  }
  if (has_disk) text += std::string(", disk, read back ") + (read_back ? "yes" : "no");
  text += std::string(", write back ") + write_back + ", " + policy + ", on_blocked " + on_blocked +
          ", " + std::to_string(io_threads) + " io threads; " + std::to_string(clients) +
          " clients " + (own_databases ? "with databases of their own" : "one after another") +
          ", up to " + std::to_string(batch_max) + " ahead; ";
  if (commands.one_large_in == 0) return text + "small values";
  return text + "one value in " + std::to_string(commands.one_large_in) + " to " +
         std::to_string(commands.large_max) + " bytes";
}

}  // namespace spillway::resp
