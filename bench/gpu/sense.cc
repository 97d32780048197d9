// SPDX-License-Identifier: Apache-2.0
// Watches a GPU's memory as a cache does, and records every change of level and the cost of the
// monitor's threads: JSON lines on stdout, times in CLOCK_MONOTONIC nanoseconds. Ends with its
// standard input.
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "spillway/cache.h"

namespace spillway::bench {
namespace {

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

std::int64_t ProcessorTime(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// CPU time of all threads except this one: the monitor's, including those that have ended.
std::int64_t MonitorTime() {
  return ProcessorTime(CLOCK_PROCESS_CPUTIME_ID) - ProcessorTime(CLOCK_THREAD_CPUTIME_ID);
}

int Run(const char* source, bool far) {
  Options options;
  // Thresholds the neighbour never comes near, so that sampling stays slow.
  if (far) options.thresholds = {0.985, 0.99, 0.995, 0.999};
  if (far) options.exit_band = 0.002;
  options.capacity = 64 * kMiB;
  options.pressure_source = source;
  options.dwell = std::chrono::milliseconds(200);
  options.on_level = [](const LevelChange& change) {
    fmt::print("{{\"level\":{{\"at\":{},\"from\":\"{}\",\"to\":\"{}\",\"pressure\":{:.5f}}}}}\n",
               Now(), Name(change.from), Name(change.to), change.pressure);
    std::fflush(stdout);
  };
  auto cache = Cache::Open(options);
  if (!cache) {
    fmt::print(stderr, "{}\n", cache.error().message);
    return 1;
  }
  if (Status started = (*cache)->Start(); !started) {
    fmt::print(stderr, "{}\n", started.error().message);
    return 1;
  }
  // Prints a line each second; the main thread does nothing else.
  for (bool last = false; !last;) {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    last = poll(&in, 1, 1000) > 0;
    const Stats stats = (*cache)->stats();
    fmt::print(
        "{{\"tick\":{{\"at\":{},\"monitor_ns\":{},\"reads\":{},\"failures\":{},\"hangs\":{},"
        "\"cost_ns\":{},\"wait_ns\":{},\"pressure\":{:.5f}}}}}\n",
        Now(), MonitorTime(), stats.source.reads, stats.source.failures, stats.source.hangs,
        stats.source.cost.count(), stats.source.wait.count(), stats.device.pressure.value_or(-1));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  const bool far = argc == 3 && std::string_view(argv[2]) == "far";
  if (argc != 2 && !far) {
    fmt::print(stderr, "usage: {} PRESSURE_SOURCE [far], as in nvml:0000:1b:00.0 or nvml\n",
               argv[0]);
    return 2;
  }
  return spillway::bench::Run(argv[1], far);
}
