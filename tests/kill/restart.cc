// SPDX-License-Identifier: Apache-2.0
#include "kill/restart.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
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

// On a busy machine an opening is sometimes late, but not each time.
constexpr int kOpenings = 3;

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
  // While samples are late nothing grows, and one refused set would end the filling.
  options.sample_period = std::chrono::seconds(1);
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

std::optional<RestartTimes> OpenAndLook(const std::string& dir, std::uint64_t entries) {
  RestartTimes times;
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
  (void)cache->release();  // Its process is killed with it open.
  return times;
}

// One opening, in a process that is killed as the one before was: nothing is closed,
// and the next one finds what this one found.
std::optional<RestartTimes> MeasureOpening(const std::string& dir, std::uint64_t entries) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) {
    const std::optional<RestartTimes> times = OpenAndLook(dir, entries);
    if (!times || ::write(pipe[1], &*times, sizeof *times) != sizeof *times) std::_Exit(1);
    ::kill(::getpid(), SIGKILL);
    std::_Exit(1);
  }
  ::close(pipe[1]);
  RestartTimes times;
  const bool told = child > 0 && ::read(pipe[0], &times, sizeof times) == sizeof times;
  ::close(pipe[0]);
  int status = 0;
  const bool killed = child > 0 && ::waitpid(child, &status, 0) == child && WIFSIGNALED(status);
  return told && killed ? std::optional(times) : std::nullopt;
}

}  // namespace

std::optional<RestartTimes> MeasureRestart(const std::string& dir, std::uint64_t entries) {
  const Steady::time_point filling = Steady::now();
  const pid_t child = ::fork();
  if (child == 0) Fill(dir, entries);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
    return std::nullopt;
  }
  const double fill_s = MillisSince(filling) / 1000;

  std::optional<RestartTimes> fastest;
  for (int i = 0; i < kOpenings; ++i) {
    const std::optional<RestartTimes> times = MeasureOpening(dir, entries);
    if (!times) return std::nullopt;
    if (!fastest || times->first_get_ms < fastest->first_get_ms) fastest = times;
  }
  fastest->fill_s = fill_s;
  return fastest;
}

}  // namespace spillway::kill
