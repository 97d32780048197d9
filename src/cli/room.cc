// SPDX-License-Identifier: Apache-2.0
#include "cli/room.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ask/protocol.h"
#include "base/parse.h"
#include "cli/ask_device.h"
#include "cli/complain.h"
#include "cli/run_child.h"

namespace spillway {
namespace {

constexpr const char* kWho = "spillway room";

template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "room: {}\n", fmt::format(format, std::forward<Args>(args)...));
}

struct RoomOptions {
  DeviceAsk ask;
  bool partial = false;
};

int Room(const RoomOptions& options, char** command) {
  const DeviceRoom got = AskForRoom(options.ask);
  for (const std::string& line : Describe(got.room)) Say("{}", line);
  if (got.room.answers().empty()) {
    Say("no cache listens on device '{}'", options.ask.device.name());
  }
  if (got.enough) {
    Say("{} of device '{}' free after {}", FormatBytes(got.free.value_or(got.room.freed())),
        options.ask.device.name(), FormatDuration(got.took));
  } else if (options.partial) {
    Say("{}; running anyway (--partial)", got.why_not);
  } else {
    return Complain("room", got.why_not + "; --partial would run CMD all the same", kNoRoom);
  }
  return RunChild(kWho, command);
}

}  // namespace

int RunRoom(int argc, char** argv) {
  RoomOptions options;
  options.ask.within = std::chrono::seconds(5);
  options.ask.hold = kAskTimeMax;
  std::string size;
  std::string device;
  std::string within;
  std::string hold;
  CLI::App app(
      "Asks the caches on a device for memory, runs CMD, and holds the room for its life.\n"
      "They evict clean entries at once, and dirty entries after a copy to a lower tier; nothing "
      "is destroyed.\n\n"
      "  spillway room 30GiB --within 5s -- python train.py",
      kWho);
  app.add_option("SIZE", size, "How much CMD needs: 512MiB, 30GiB")->required();
  app.add_option("--device", device,
                 "cuda:N or hip:N (N: number, UUID or PCI address), a GPU's UUID, cpu:CARD or a "
                 "card's name (default: the only one that can be asked)");
  app.add_option("--within", within, "How long giving back may take, at most 10s (default: 5s)");
  app.add_option("--for", hold,
                 "How long the memory stays reserved, if CMD runs longer (default: as long as it "
                 "runs, at most a week)");
  app.add_flag("--partial", options.partial, "Run CMD even if less memory is free");
  app.footer(
      "After the options: -- CMD [ARGUMENTS]\n"
      "Exit status: CMD's own; 125 if too little memory is free, 126 or 127 if CMD can't be run.");
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  const auto dashes = std::ranges::find_if(
      arguments, [](const char* word) { return std::strcmp(word, "--") == 0; });
  const auto own = static_cast<int>(dashes - arguments.begin());
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (dashes == arguments.end() || dashes + 1 == arguments.end()) {
    return Complain("room", "no CMD given: spillway room 30GiB -- CMD [ARGUMENTS]");
  }
  const Result<Bytes> bytes = ParseBytes(size);
  if (!bytes) return Complain("room", "SIZE: " + bytes.error().message);
  if (*bytes == 0 || *bytes > kAskBytesMax) {
    return Complain("room", fmt::format("SIZE: {} can't be asked for", FormatBytes(*bytes)));
  }
  options.ask.bytes = *bytes;
  for (const auto& [name, text, value] : {std::tuple{"--within", &within, &options.ask.within},
                                          std::tuple{"--for", &hold, &options.ask.hold}}) {
    if (text->empty()) continue;
    const Result<Duration> duration = ParseDuration(*text);
    if (!duration) return Complain("room", fmt::format("{}: {}", name, duration.error().message));
    *value = *duration;
  }
  if (device.empty()) {
    Result<std::string> only = OnlyDevice("default");
    if (!only) return Complain("room", only.error().message + " with --device");
    device = std::move(*only);
  }
  Result<NamedDevice> named = FindDevice(device);
  if (!named) return Complain("room", "--device: " + named.error().message);
  options.ask.device = std::move(*named);
  // argv ends with a null pointer.
  return Room(options, argv + own + 1);
}

}  // namespace spillway
