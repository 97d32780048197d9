// SPDX-License-Identifier: Apache-2.0
#include "http/history.h"

#include <algorithm>
#include <cmath>

namespace spillway::http {

History::Tier History::TierOf(const TierStats& stats) {
  const Bytes ours = stats.held + stats.overhead;
  const Bytes backed = std::min(stats.clean_chunks, ours);
  Tier tier;
  tier.there = !stats.name.empty();
  tier.level = stats.level;
  tier.pressure = stats.pressure ? static_cast<float>(*stats.pressure) : -1;
  tier.others = static_cast<float>(stats.others);
  tier.dirty = static_cast<float>(ours - backed);
  tier.clean = static_cast<float>(backed);
  tier.free = static_cast<float>(stats.free);
  tier.reserve = static_cast<float>(std::min(stats.reserve + stats.granted, stats.free));
  return tier;
}

void History::Add(const Stats& stats, std::int64_t unix_ms) {
  if (stats.device.total + stats.host.total + stats.disk.total == 0) return;  // No reading yet.
  const Sample sample{unix_ms, {TierOf(stats.device), TierOf(stats.host), TierOf(stats.disk)}};
  const MutexLock lock(mutex_);
  samples_[added_++ % kKept] = sample;
}

std::vector<History::Sample> History::Pick(std::size_t points, std::int64_t after) const {
  std::vector<Sample> all;
  {
    const MutexLock lock(mutex_);
    for (std::uint64_t n = added_ - std::min<std::uint64_t>(added_, kKept); n < added_; ++n) {
      if (samples_[n % kKept].unix_ms > after) all.push_back(samples_[n % kKept]);
    }
  }
  if (all.size() <= points || points == 0) {
    all.resize(std::min(all.size(), points));
    return all;
  }
  std::vector<Sample> picked;
  for (std::size_t i = 0; i < points; ++i) {
    const auto at = [&](std::size_t n) {
      return all.begin() + static_cast<std::ptrdiff_t>(n * all.size() / points);
    };
    picked.push_back(*std::max_element(at(i), at(i + 1), [](const Sample& a, const Sample& b) {
      return a.tiers[0].pressure < b.tiers[0].pressure;
    }));
  }
  return picked;
}

Json History::Columns(std::size_t points, std::int64_t after) const {
  constexpr std::array<const char*, kTiers> kNames = {"device", "host", "disk"};
  const std::vector<Sample> picked = Pick(points, after);
  Json times = Json::array();
  for (const Sample& sample : picked) times.push_back(sample.unix_ms);
  Json tiers = Json::object();
  for (std::size_t i = 0; i < kTiers; ++i) {
    if (picked.empty() || !picked.back().tiers.at(i).there) continue;
    const auto column = [&](float Tier::* field) {
      Json values = Json::array();
      for (const Sample& sample : picked) {
        values.push_back(static_cast<std::int64_t>(sample.tiers.at(i).*field));
      }
      return values;
    };
    Json pressure = Json::array();
    Json level = Json::array();
    for (const Sample& sample : picked) {
      const Tier& tier = sample.tiers.at(i);
      pressure.push_back(tier.pressure < 0 ? Json() : Json(std::round(tier.pressure * 1e4F) / 1e4));
      level.push_back(static_cast<int>(tier.level));
    }
    tiers[kNames.at(i)] = {{"pressure", std::move(pressure)},  {"level", std::move(level)},
                           {"others", column(&Tier::others)},  {"unbacked", column(&Tier::dirty)},
                           {"backed", column(&Tier::clean)},   {"free", column(&Tier::free)},
                           {"reserve", column(&Tier::reserve)}};
  }
  return {{"unix_ms", std::move(times)}, {"tiers", std::move(tiers)}};
}

}  // namespace spillway::http
