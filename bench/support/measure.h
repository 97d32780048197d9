// SPDX-License-Identifier: Apache-2.0
// Measures times and summarizes them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace spillway::bench {

using Seconds = std::chrono::duration<double>;

inline double Now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Median(std::vector<double> samples);
double Least(const std::vector<double>& samples);
// Median of a[i] / b[i]. Both sides of a pair were measured moments apart, so changes of the
// machine's speed cancel out.
double MedianRatio(const std::vector<double>& a, const std::vector<double>& b);

std::string MachineName();  // The processor's name as given by the kernel.
std::string Today();        // 2026-11-30

double ThreadCpuSeconds();  // CPU time of the calling thread so far.

struct Elapsed {
  double wall = 0;  // From the start of the first thread to the end of the last.
  double cpu = 0;   // Of the thread that used most.
};

// Runs body(thread) on `threads` threads, each after its own warm(thread).
template <typename Warm, typename Body>
Elapsed Timed(int threads, Warm&& warm, Body&& body) {
  std::atomic<int> ready{0};
  std::vector<double> start(static_cast<std::size_t>(threads));
  std::vector<double> end(start.size());
  std::vector<double> cpu(start.size());
  const auto run = [&](int thread) {
    const auto at = static_cast<std::size_t>(thread);
    warm(thread);
    ready.fetch_add(1);
    while (ready.load() < threads) std::this_thread::yield();
    const double cpu_before = ThreadCpuSeconds();
    start[at] = Now();
    body(thread);
    end[at] = Now();
    cpu[at] = ThreadCpuSeconds() - cpu_before;
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
  return {*std::max_element(end.begin(), end.end()) - *std::min_element(start.begin(), start.end()),
          *std::max_element(cpu.begin(), cpu.end())};
}

// The processor's own counter: two readings cost a few nanoseconds.
std::uint64_t Ticks();
double NanosecondsPerTick();

// Latencies in buckets with a width of 1/16 of their value.
class Histogram {
 public:
  void Add(std::uint64_t ticks) { ++counts_[BucketOf(ticks)]; }
  std::uint64_t count() const;
  // The time that this share of all latencies does not exceed, in nanoseconds; the upper edge of a
  // bucket.
  double Quantile(double share) const;
  double Max() const { return Quantile(1); }

 private:
  static constexpr int kSubBits = 4;
  static std::size_t BucketOf(std::uint64_t ticks);
  static std::uint64_t UpperEdge(std::size_t bucket);

  std::array<std::uint64_t, (64 << kSubBits)> counts_{};
};

}  // namespace spillway::bench
