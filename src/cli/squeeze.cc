// SPDX-License-Identifier: Apache-2.0
#include "cli/squeeze.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ask/protocol.h"
#include "base/parse.h"
#include "cli/ask_device.h"
#include "cli/cards.h"
#include "cli/complain.h"
#include "cli/holdings.h"
#include "cli/named_device.h"
#include "cli/stop_signals.h"
#include "device/cpu/cpu_device.h"
#include "device/gpu/gpu_device.h"

namespace spillway {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct SqueezeOptions {
  Bytes bytes = 0;
  std::string device;
  std::optional<Bytes> total;
  std::optional<Duration> hold;
  Bytes step = 64 * kMiB;
  Duration after{};  // Between opening the device and the first step.
  Duration every{};  // A pause after each step.
  Duration patience = std::chrono::seconds(5);
  bool ask = false;
  bool when = false;
};

template <typename... Args>
void Tell(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("squeeze: {}\n", fmt::format(format, std::forward<Args>(args)...));
  std::fflush(stdout);
}

// The device whose memory is taken: a virtual card, or a GPU.
struct Target {
  NamedDevice device;
  std::unique_ptr<CpuDevice> card = {};
  std::unique_ptr<GpuDevice> gpu = {};

  Device* get() const { return gpu ? static_cast<Device*>(gpu.get()) : card.get(); }
  std::string words() const {
    return gpu ? fmt::format("{} ({})", gpu->name(), gpu->model())
               : fmt::format("card \"{}\"", device.id);
  }
  // Writes the memory, so that it is really allocated.
  Status Write(std::byte* at, Bytes bytes) const {
    if (gpu) return gpu->Zero(at, bytes);
    std::memset(at, 0x5e, bytes);
    return {};
  }
};

// The device derives its chunk size from its capacity. With this factor a chunk is at most a
// sixteenth of the size wanted; memory is returned chunk by chunk.
constexpr Bytes kChunkShare = 64;

Result<Target> OpenTarget(const SqueezeOptions& options) {
  Result<NamedDevice> named = FindDevice(options.device);
  if (!named) return named.error();
  Target place{.device = std::move(*named)};
  if (!place.device.is_gpu && !options.total) {  // A card that is misspelt must not be made.
    if (Status used = CheckCardInUse(place.device.id); !used) return used.error();
  }
  if (place.device.is_gpu) {
    GpuDeviceOptions gpu_options;
    gpu_options.capacity = std::max(options.bytes, options.bytes * kChunkShare);
    auto gpu = OpenGpu(place.device, gpu_options);
    if (!gpu) return gpu.error();
    place.gpu = std::move(*gpu);
    return place;
  }
  auto card = CpuDevice::Open({.name = place.device.id, .total = options.total, .chunk_bytes = {}});
  if (!card) return card.error();
  place.card = std::move(*card);
  return place;
}

std::int64_t UnixMicroseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// Takes the memory step by step, and retries while the card is full. Returns why it stopped early,
// or nothing. `first_us`: the time just before the first part was taken.
std::string TakeAll(const Target& place, Holdings& holdings, const SqueezeOptions& options,
                    const StopSignals& signals, std::int64_t* first_us, int* waited) {
  constexpr Duration kBetweenTries = std::chrono::milliseconds(1);
  auto last_success = SteadyClock::now();
  bool refused = false;
  while (holdings.held() < options.bytes) {
    if (signals.Wait(Duration::zero())) return "a signal came";
    const Bytes before = holdings.held();
    if (before == 0) *first_us = UnixMicroseconds();
    Status taken = holdings.Take(std::min(options.step, options.bytes - before));
    if (taken) taken = place.Write(holdings.base() + before, holdings.held() - before);
    if (taken) {
      refused = false;
      if (options.every > Duration::zero()) (void)signals.Wait(options.every);
      last_success = SteadyClock::now();
    } else if (taken.error().code != Code::kNoMemory ||
               SteadyClock::now() - last_success >= options.patience) {
      return taken.error().message;
    } else {
      if (!std::exchange(refused, true)) ++*waited;
      (void)signals.Wait(kBetweenTries);
    }
  }
  return {};
}

std::string InMilliseconds(SteadyClock::duration time) {
  return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(time).count());
}

// The reservation lasts as long as the returned object.
std::optional<DeviceRoom> AskFirst(const Target& place, const SqueezeOptions& options) {
  if (!options.ask) return std::nullopt;
  const auto read = [&place]() -> std::optional<Reading> {
    const Result<Reading> reading = place.get()->ReadMemory();
    return reading ? std::optional(*reading) : std::nullopt;
  };
  DeviceRoom room = AskForRoom({.device = place.device,
                                .read = read,
                                .bytes = options.bytes,
                                .within = options.patience,
                                .hold = options.hold.value_or(kAskTimeMax)});
  for (const std::string& line : Describe(room.room)) Tell("{}", line);
  if (room.room.answers().empty()) Tell("no cache listens on the {}", place.gpu ? "GPU" : "card");
  if (room.free)
    Tell("asked: {} free after {}", FormatBytes(*room.free), InMilliseconds(room.took));
  return room;
}

int Squeeze(const SqueezeOptions& options) {
  const StopSignals signals;  // However the program ends, the memory is returned in one place.
  const Result<Target> place = OpenTarget(options);
  if (!place) {
    const bool bad_use = place.error().message.starts_with("no process uses");
    return Complain("squeeze", place.error().message, bad_use ? kBadUse : 1);
  }
  Device* const device = place->get();
  if (options.bytes > device->total()) {
    return Complain("squeeze",
                    fmt::format("{} is more than {} has: {}", FormatBytes(options.bytes),
                                place->words(), FormatBytes(device->total())),
                    2);
  }
  Holdings holdings(device);
  if (Status reserved = holdings.Reserve(options.bytes); !reserved) {
    return Complain("squeeze", reserved.error().message, 1);
  }
  const Result<Reading> reading = device->ReadMemory();
  Tell("taking {} of {} ({}, {} free)", FormatBytes(options.bytes), place->words(),
       FormatBytes(device->total()), reading ? FormatBytes(reading->free) : "?");

  if (options.after > Duration::zero()) (void)signals.Wait(options.after);
  const auto start = SteadyClock::now();
  const std::optional<DeviceRoom> asked = AskFirst(*place, options);
  std::int64_t first_us = 0;
  int waited = 0;
  const std::string why_short = TakeAll(*place, holdings, options, signals, &first_us, &waited);
  const auto taken = SteadyClock::now();
  if (options.when) Tell("began to take at {}.{:06}", first_us / 1'000'000, first_us % 1'000'000);
  if (why_short.empty()) {
    Tell("has {} after {}", FormatBytes(holdings.held()), InMilliseconds(taken - start));
  } else {
    Tell("has only {} of {} after {}: {}", FormatBytes(holdings.held()), FormatBytes(options.bytes),
         InMilliseconds(taken - start), why_short);
  }
  if (waited > 0) Tell("{} of its steps were refused at first", waited);
  if (!signals.came()) (void)signals.Wait(options.hold);
  const auto held_for = SteadyClock::now() - taken;
  const Bytes held = holdings.held();
  holdings.GiveBack();
  Tell("returned {} after {}", FormatBytes(held), FormatDuration(held_for));
  return why_short.empty() || signals.came() ? 0 : 1;
}

// Reads `text`, if it was given, into `value`.
template <typename Parse, typename Value>
Status Read(std::string_view option, const std::string& text, Parse parse, Value* value) {
  if (text.empty()) return {};
  const auto parsed = parse(text);
  if (!parsed) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {}", option, parsed.error().message)};
  }
  *value = *parsed;
  return {};
}

}  // namespace

int RunSqueeze(int argc, char** argv) {
  SqueezeOptions options;
  std::string size;
  std::string total;
  std::string hold;
  std::string step;
  std::string after;
  std::string every;
  std::string patience;
  std::string card;
  CLI::App app(
      "Takes memory of a GPU or a virtual card as a neighbour would, holds it, gives it "
      "back.",
      "spillway squeeze");
  app.add_option("SIZE", size, "How much to take: 512MiB, 4GiB")->required();
  app.add_option("--device", options.device,
                 "cuda:N or hip:N (N: number, UUID or PCI address), a GPU's UUID, cpu:CARD or a "
                 "card's name (default: cpu:default)");
  CLI::Option* const card_option =
      app.add_option("--card", card, "A virtual card by name: the same as --device cpu:CARD");
  app.add_option("--total", total,
                 "Makes the virtual card, of this size, if no process uses it yet");
  app.add_option("--for", hold, "How long to hold it: 500ms, 10s (default: until Ctrl-C)");
  app.add_option("--step", step, "How much to take at a time (default: 64MiB)");
  app.add_option("--after", after, "How long to be there before the first step (default: 0s)");
  app.add_option("--every", every, "A pause after each step: 20ms (default: none)");
  app.add_option("--patience", patience,
                 "How long to keep trying while the device is full (default: 5s)");
  app.add_flag("--when", options.when, "Say at which Unix time it began to take");
  app.add_flag("--ask", options.ask, "Ask the caches on the device first, and take it then");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (card_option->count() > 0) {
    if (card.empty())
      return Complain("squeeze", "--card needs a name: a card of our own is no use");
    if (!options.device.empty())
      return Complain("squeeze", "--card and --device: name one of them");
    options.device = "cpu:" + card;
  }
  if (options.device.empty()) options.device = "cpu:default";
  for (const Status& status : {Read("SIZE", size, ParseBytes, &options.bytes),
                               Read("--total", total, ParseBytes, &options.total),
                               Read("--for", hold, ParseDuration, &options.hold),
                               Read("--step", step, ParseBytes, &options.step),
                               Read("--after", after, ParseDuration, &options.after),
                               Read("--every", every, ParseDuration, &options.every),
                               Read("--patience", patience, ParseDuration, &options.patience)}) {
    if (!status) return Complain("squeeze", status.error().message);
  }
  if (options.bytes == 0 || options.step == 0)
    return Complain("squeeze", "0 bytes: there is nothing to take");
  return Squeeze(options);
}

}  // namespace spillway
