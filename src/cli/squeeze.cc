#include "cli/squeeze.h"

#include <signal.h>

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
#include "cli/complain.h"
#include "cli/holdings.h"
#include "cli/named_device.h"
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
  Duration after{};  // Between coming to the device and the first step.
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

// SIGINT and SIGTERM, held back while this lives and asked for by hand: the
// memory is then returned in one place, whatever ends the program.
class StopSignals {
 public:
  StopSignals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::sigaddset(&set_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~StopSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // True when one came within `time`. Empty: waits for one.
  bool CameWithin(std::optional<Duration> time) {
    const auto until = SteadyClock::now() + time.value_or(Duration::zero());
    for (;;) {
      int got = 0;
      if (time) {
        const auto left = std::max<Duration>(until - SteadyClock::now(), Duration::zero());
        const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
        const timespec wait{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
        got = ::sigtimedwait(&set_, nullptr, &wait);
      } else {
        got = ::sigwaitinfo(&set_, nullptr);
      }
      if (got > 0) came_ = true;
      if (got > 0 || errno != EINTR) return came_;
    }
  }
  bool came() const { return came_; }

 private:
  sigset_t set_{};
  sigset_t before_{};
  bool came_ = false;
};

// Where the memory is taken: a virtual card, or a GPU.
struct Target {
  NamedDevice device;
  std::unique_ptr<CpuDevice> card = {};
  std::unique_ptr<GpuDevice> gpu = {};

  Device* get() const { return gpu ? static_cast<Device*>(gpu.get()) : card.get(); }
  std::string words() const {
    return gpu ? fmt::format("{} ({})", gpu->name(), gpu->model())
               : fmt::format("card \"{}\"", device.id);
  }
  // Real memory, not a promise of it.
  Status Write(std::byte* at, Bytes bytes) const {
    if (gpu) return gpu->Zero(at, bytes);
    std::memset(at, 0x5e, bytes);
    return {};
  }
};

// Chunks are returned one by one: a sixteenth of what is wanted is small enough.
constexpr Bytes kChunkShare = 64;

Result<Target> OpenTarget(const SqueezeOptions& options) {
  Result<NamedDevice> named = FindDevice(options.device);
  if (!named) return named.error();
  Target place{.device = std::move(*named)};
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

// Takes step by step, again and again while the card is full. Returns why it
// stopped short, or nothing. `first_us`: just before it had the first of it.
std::string TakeAll(const Target& place, Holdings& holdings, const SqueezeOptions& options,
                    StopSignals& signals, std::int64_t* first_us, int* waited) {
  constexpr Duration kBetweenTries = std::chrono::milliseconds(1);
  auto last_success = SteadyClock::now();
  bool refused = false;
  while (holdings.held() < options.bytes) {
    if (signals.CameWithin(Duration::zero())) return "a signal came";
    const Bytes before = holdings.held();
    if (before == 0) *first_us = UnixMicroseconds();
    Status taken = holdings.Take(std::min(options.step, options.bytes - before));
    if (taken) taken = place.Write(holdings.base() + before, holdings.held() - before);
    if (taken) {
      refused = false;
      if (options.every > Duration::zero()) (void)signals.CameWithin(options.every);
      last_success = SteadyClock::now();
    } else if (taken.error().code != Code::kNoMemory ||
               SteadyClock::now() - last_success >= options.patience) {
      return taken.error().message;
    } else {
      if (!std::exchange(refused, true)) ++*waited;
      (void)signals.CameWithin(kBetweenTries);
    }
  }
  return {};
}

std::string InMilliseconds(SteadyClock::duration time) {
  return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(time).count());
}

// The grant lives as long as what this returns.
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
  if (room.room.answers().empty())
    Tell("no cache listens on the {}: nobody to ask", place.gpu ? "GPU" : "card");
  if (room.free)
    Tell("asked: {} free after {}", FormatBytes(*room.free), InMilliseconds(room.took));
  return room;
}

int Squeeze(const SqueezeOptions& options) {
  StopSignals signals;
  const Result<Target> place = OpenTarget(options);
  if (!place) return Complain("squeeze", place.error().message, 1);
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

  if (options.after > Duration::zero()) (void)signals.CameWithin(options.after);
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
  if (!signals.came()) (void)signals.CameWithin(options.hold);
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
                 "The virtual card's size, if nobody uses it yet (default: an eighth of the "
                 "memory available)");
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
    return Complain("squeeze", "0 bytes are nothing to take");
  return Squeeze(options);
}

}  // namespace spillway
