// SPDX-License-Identifier: Apache-2.0
#include "bench/support/measure.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <fstream>

namespace spillway::bench {

double Median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

double Least(const std::vector<double>& samples) {
  return samples.empty() ? 0 : *std::min_element(samples.begin(), samples.end());
}

double MedianRatio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(a[i] / b[i]);
  return Median(std::move(ratios));
}

std::string MachineName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  localtime_r(&now, &day);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &day);
  return text.data();
}

double ThreadCpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

std::uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

double NanosecondsPerTick() {
  static const double measured = [] {
    const double from = Now();
    const std::uint64_t first = Ticks();
    while (Now() - from < 0.02) {
    }
    return (Now() - from) * 1e9 / static_cast<double>(Ticks() - first);
  }();
  return measured;
}

std::size_t Histogram::BucketOf(std::uint64_t ticks) {
  constexpr std::uint64_t kSub = 1 << kSubBits;
  if (ticks < kSub) return ticks;
  const auto above = static_cast<std::size_t>(std::bit_width(ticks)) - 1 - kSubBits;
  return ((above + 1) << kSubBits) | ((ticks >> above) & (kSub - 1));
}

std::uint64_t Histogram::UpperEdge(std::size_t bucket) {
  constexpr std::uint64_t kSub = 1 << kSubBits;
  if (bucket < kSub) return bucket;
  const auto above = (bucket >> kSubBits) - 1;
  return (((bucket & (kSub - 1)) | kSub) + 1) << above;
}

std::uint64_t Histogram::count() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts_) sum += count;
  return sum;
}

double Histogram::Quantile(double share) const {
  const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(count()));
  std::uint64_t seen = 0;
  std::size_t last = 0;
  for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    if (counts_[bucket] == 0) continue;
    last = bucket;
    seen += counts_[bucket];
    if (seen >= wanted && share < 1) break;
  }
  return static_cast<double>(UpperEdge(last)) * NanosecondsPerTick();
}

}  // namespace spillway::bench
