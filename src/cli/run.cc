// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ask/protocol.h"
#include "base/environment.h"
#include "base/parse.h"
#include "base/run_dir.h"
#include "cli/ask_device.h"
#include "cli/complain.h"
#include "cli/preloadable.h"
#include "cli/run_child.h"

namespace spillway {
namespace {

constexpr const char* kRunName = "spillway run";
constexpr const char* kAskLibrary = "libspillway_ask.so";
constexpr Duration kWaitMax = std::chrono::seconds(10);
constexpr Duration kAheadWithin = std::chrono::seconds(5);
// How long the caches keep out of what is free when a program starts that was shown what they hold:
// loading a large model takes minutes.
constexpr Duration kWhileItStarts = std::chrono::minutes(10);

template <typename... Args>
void Report(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "run: {}\n", fmt::format(format, std::forward<Args>(args)...));
}

struct RunOptions {
  Duration wait = std::chrono::seconds(2);
  bool show = false;
  bool log = false;
  std::optional<Bytes> room;
  std::string device;
};

// Beside this program, or where an installation has it.
std::string FindLibrary() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = self.parent_path();
  for (const char* place : {".", "../lib/spillway", "../lib64/spillway", "../lib"}) {
    const std::filesystem::path path = folder / place / kAskLibrary;
    if (std::filesystem::is_regular_file(path, error)) {
      return std::filesystem::canonical(path, error).string();
    }
  }
  return {};
}

// Ours comes first, so that what stands in front of the driver as well is asked through us; but a
// sanitizer's runtime insists on being first.
std::string Preload(const std::string& library) {
  const std::string before = Environment("LD_PRELOAD");
  if (before.empty()) return library;
  const bool sanitized = before.find("san.so") != std::string::npos;
  return sanitized ? before + ":" + library : library + ":" + before;
}

void SetEnvironment(const RunOptions& options, const std::string& library) {
  ::setenv("LD_PRELOAD", Preload(library).c_str(), 1);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(options.wait).count();
  ::setenv("SPILLWAY_ASK_WAIT", fmt::to_string(ms).c_str(), 1);
  if (options.show) ::setenv("SPILLWAY_ASK_SHOW", "1", 1);
  if (options.log) ::setenv("SPILLWAY_ASK_LOG", "stderr", 1);
}

// What is asked for ahead, as `spillway room` does. Less than wanted is no reason not to run: the
// program asks again when it needs the rest.
Result<DeviceRoom> AskAhead(const RunOptions& options) {
  std::string device = options.device;
  if (device.empty()) {
    Result<std::string> only = OnlyDevice("default");
    if (!only) return Error{only.error().code, only.error().message + " with --device"};
    device = std::move(*only);
  }
  Result<NamedDevice> named = FindDevice(device);
  if (!named) return Error{named.error().code, "--device: " + named.error().message};
  DeviceAsk ask;
  ask.device = std::move(*named);
  ask.bytes = *options.room;
  ask.within = kAheadWithin;
  ask.hold = kAskTimeMax;
  DeviceRoom room = AskForRoom(ask);
  for (const std::string& line : Describe(room.room)) Report("{}", line);
  if (!room.enough) Report("{}", room.why_not);
  return room;
}

// No cache grows into what is free now while the program starts, on any device.
std::vector<AskedRoom> HoldWhatIsFree() {
  std::vector<AskedRoom> held;
  for (const std::string& device : AskableDevices(RunDirsToSearch())) {
    const Result<NamedDevice> named = FindDevice(device);
    if (!named) continue;
    DeviceReader reader(*named);
    const std::optional<Reading> reading = reader.Read();
    if (!reading) continue;
    AskOptions options;
    options.run_dirs = RunDirsToSearch();
    options.device = named->id;
    options.keep = reading->free;
    options.within = std::chrono::seconds(1);
    options.hold = kWhileItStarts;
    held.push_back(Ask(options));
  }
  return held;
}

int RunPreloaded(const RunOptions& options, char** command) {
  const std::string library = FindLibrary();
  if (library.empty()) {
    return Complain(
        "run", fmt::format("{} is neither beside this program nor in ../lib/spillway", kAskLibrary),
        kCanNotRun);
  }
  if (const std::string why_not = WhyNotPreloadable(command[0]); !why_not.empty()) {
    return Complain("run",
                    fmt::format("{} {}. `spillway room SIZE -- CMD` asks for memory ahead instead",
                                command[0], why_not),
                    kCanNotRun);
  }
  std::optional<DeviceRoom> room;
  if (options.room) {
    Result<DeviceRoom> asked = AskAhead(options);
    if (!asked) return Complain("run", asked.error());
    room.emplace(std::move(*asked));
  }
  const std::vector<AskedRoom> held =
      options.show && !room ? HoldWhatIsFree() : std::vector<AskedRoom>();
  SetEnvironment(options, library);
  return RunChild(kRunName, command);
}

}  // namespace

int RunRun(int argc, char** argv) {
  RunOptions options;
  std::string wait;
  std::string room;
  CLI::App app(
      "Runs CMD. When an allocation of GPU memory fails in it, the caches on that GPU are asked "
      "for what is missing, and the allocation is tried again: CMD needs no change.\n\n"
      "  spillway run -- python train.py",
      kRunName);
  app.add_option("--wait", wait,
                 "How long a failed allocation may take, at most 10s (default: 2s)");
  app.add_flag("--show-available", options.show,
               "Free memory that CMD reads includes what the caches could give at once");
  app.add_option("--room", room, "Ask for this much ahead and hold it for CMD: 30GiB");
  app.add_option("--device", options.device,
                 "Of which device --room is (default: the only one that can be asked)");
  app.add_flag("--log", options.log,
               "A line on standard error for each allocation that was asked for, and a summary");
  app.footer(
      "After the options: -- CMD [ARGUMENTS]\n"
      "Programs that CMD starts are run likewise. Exit status: CMD's own; 126 or 127 if CMD can't "
      "be run, 126 also if it is static, setuid or not of glibc.");
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
    return Complain("run", "no CMD given: spillway run -- CMD [ARGUMENTS]");
  }
  if (!wait.empty()) {
    const Result<Duration> duration = ParseDuration(wait);
    if (!duration) return Complain("run", "--wait: " + duration.error().message);
    if (*duration > kWaitMax) return Complain("run", "--wait: at most 10s");
    options.wait = *duration;
  }
  if (!room.empty()) {
    const Result<Bytes> bytes = ParseBytes(room);
    if (!bytes) return Complain("run", "--room: " + bytes.error().message);
    if (*bytes == 0 || *bytes > kAskBytesMax) {
      return Complain("run", fmt::format("--room: {} can't be asked for", FormatBytes(*bytes)));
    }
    options.room = *bytes;
  }
  // argv ends with a null pointer.
  return RunPreloaded(options, argv + own + 1);
}

}  // namespace spillway
