// SPDX-License-Identifier: Apache-2.0
// The other side of bench/gpu/sense: takes 8 GiB at random times, and records when. One JSON line
// for each on stdout; times are CLOCK_MONOTONIC nanoseconds, which all processes of a machine
// share.
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/gpu/cuda_neighbour.h"

namespace spillway::bench {
namespace {

constexpr Bytes kJump = 8 * kGiB;

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

struct Plan {
  int count = 10;
  double quiet_least = 10;
  double quiet_most = 10.05;
  double until = 0;  // Seconds from now; 0: no limit.
  double busy = 0;
  unsigned seed = 1;
};

void Jump(CudaNeighbour& neighbour, double threshold, double under, double quiet) {
  const auto total = static_cast<double>(neighbour.total());
  // First well below the threshold, until the watcher has left the level.
  neighbour.Settle(static_cast<Bytes>((threshold - 0.08) * total));
  Sleep(0.3);
  neighbour.Settle(static_cast<Bytes>((threshold - under) * total));
  Sleep(quiet);
  const double before = 1 - static_cast<double>(neighbour.Free()) / total;
  const std::int64_t called = Now();
  const bool taken = neighbour.Take(kJump);
  const std::int64_t returned = Now();
  fmt::print(
      "{{\"jump\":{{\"called\":{},\"returned\":{},\"taken\":{},\"threshold\":{},\"before\":{:.5f},"
      "\"quiet\":{:.2f}}}}}\n",
      called, returned, taken, threshold, before, quiet);
  std::fflush(stdout);
  Sleep(0.1);
  if (taken) neighbour.GiveLast();
}

// Changes all the time, which keeps a watcher at its fastest sampling.
void Busy(CudaNeighbour& neighbour, double seconds) {
  neighbour.Settle(static_cast<Bytes>(0.60 * static_cast<double>(neighbour.total())));
  const std::int64_t begin = Now();
  while (static_cast<double>(Now() - begin) < seconds * 1e9) {
    neighbour.Take(kGiB);
    Sleep(0.02);
    neighbour.GiveLast();
    Sleep(0.02);
  }
  fmt::print("{{\"busy\":{{\"from\":{},\"to\":{}}}}}\n", begin, Now());
  std::fflush(stdout);
}

int Run(const Plan& plan) {
  Result<CudaNeighbour> neighbour = CudaNeighbour::Open();
  if (!neighbour) {
    fmt::print(stderr, "no neighbour: {}\n", neighbour.error().message);
    return 1;
  }
  std::mt19937 random(plan.seed);
  std::uniform_real_distribution<double> quiet(plan.quiet_least, plan.quiet_most);
  std::uniform_real_distribution<double> under(0.005, 0.05);
  const std::int64_t begin = Now();
  for (int i = 0; i < plan.count; ++i) {
    if (plan.until > 0 && static_cast<double>(Now() - begin) > plan.until * 1e9) break;
    Jump(*neighbour, i % 2 == 0 ? 0.70 : 0.85, under(random), quiet(random));
  }
  if (plan.busy > 0) Busy(*neighbour, plan.busy);
  return 0;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) {
  CLI::App app("Takes 8 GiB of a GPU at random times.");
  spillway::bench::Plan plan;
  app.add_option("--count", plan.count);
  app.add_option("--quiet-least", plan.quiet_least);
  app.add_option("--quiet-most", plan.quiet_most);
  app.add_option("--until", plan.until);
  app.add_option("--busy", plan.busy);
  app.add_option("--seed", plan.seed);
  CLI11_PARSE(app, argc, argv);
  return spillway::bench::Run(plan);
}
