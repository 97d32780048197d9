#include "kill/restart.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "kill/child.h"
#include "spillway/cache.h"

namespace spillway::kill {

namespace {

using Steady = std::chrono::steady_clock;

double MillisSince(Steady::time_point start) {
  return std::chrono::duration<double, std::milli>(Steady::now() - start).count();
}

std::string SmallName(std::uint64_t i) { return fmt::format("small:{}", i); }
std::string SmallValue(std::uint64_t i) { return fmt::format("{:0100}", i); }

Options OptionsForSmall(const std::string& dir, std::uint64_t entries) {
  // Each takes a page for its header and one for its bytes.
  Options options = OptionsFor(dir, (entries + 1000) * 10 * kKiB);
  options.capacity = 64 * kMiB;
  options.host_capacity = 1024 * kMiB;
  return options;
}

[[noreturn]] void Fill(const std::string& dir, std::uint64_t entries) {
  Options options = OptionsForSmall(dir, entries);
  options.disk_read_back = false;  // They are verified when they are read.
  auto cache = Cache::Open(options);
  if (!cache) {
    fmt::print(stderr, "kill_loop: {}\n", cache.error().message);
    std::_Exit(1);
  }
  (void)(*cache)->Start();
  for (std::uint64_t i = 0; i < entries; ++i) {
    if (Status set = (*cache)->Set(SmallName(i), Source(SmallValue(i))); !set) {
      fmt::print(stderr, "kill_loop: {}\n", set.error().message);
      std::_Exit(1);
    }
  }
  while ((*cache)->stats().disk.entries < entries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(::getpid(), SIGKILL);
  std::_Exit(1);
}

}  // namespace

std::optional<RestartTimes> MeasureRestart(const std::string& dir, std::uint64_t entries) {
  RestartTimes times;
  const Steady::time_point filling = Steady::now();
  const pid_t child = ::fork();
  if (child == 0) Fill(dir, entries);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
    return std::nullopt;
  }
  times.fill_s = MillisSince(filling) / 1000;

  const Steady::time_point start = Steady::now();
  auto cache = Cache::Open(OptionsForSmall(dir, entries));
  times.open_ms = MillisSince(start);
  if (!cache) {
    fmt::print(stderr, "kill_loop: {}\n", cache.error().message);
    return std::nullopt;
  }
  const auto is_there = [&](std::uint64_t i) {
    auto got = (*cache)->Get(SmallName(i));
    const bool right = got && *got && (*got)->text() == SmallValue(i);
    if (!right) fmt::print(stderr, "kill_loop: entry {} is not there after the restart\n", i);
    return right;
  };
  if (!is_there(0)) return std::nullopt;
  times.first_get_ms = MillisSince(start);
  if (!is_there(entries - 1)) return std::nullopt;
  times.last_get_ms = MillisSince(start);
  times.found = (*cache)->stats().disk.files.recovered;
  return times;
}

}  // namespace spillway::kill
