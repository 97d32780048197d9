// SPDX-License-Identifier: Apache-2.0
// The History keeps one sample per second of a cache's tiers for the last hour, so that a dashboard
// opened later can show it. Of fixed size. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "http/api_json.h"
#include "spillway/stats.h"

namespace spillway::http {

class History {
 public:
  static constexpr std::size_t kKept = 3600;

  History() : samples_(kKept) {}

  void Add(const Stats& stats, std::int64_t unix_ms);
  // At most `points` samples later than `after` (Unix milliseconds), as columns, oldest first. If
  // several samples fall on one point, the one with the highest pressure is used.
  Json Columns(std::size_t points, std::int64_t after) const;

 private:
  static constexpr std::size_t kTiers = 3;
  // Memory of a tier in bytes. `others`, `unbacked`, `backed` and `free` add up to its size.
  struct Tier {
    bool there = false;
    Level level = Level::kRelaxed;
    float pressure = -1;  // -1: unknown.
    float others = 0;
    float dirty = 0;
    float clean = 0;
    float free = 0;
    float reserve = 0;  // Part of `free`.
  };
  struct Sample {
    std::int64_t unix_ms = 0;
    std::array<Tier, kTiers> tiers;
  };
  static Tier TierOf(const TierStats& stats);
  // The samples after `after`, thinned out to `points`.
  std::vector<Sample> Pick(std::size_t points, std::int64_t after) const;

  mutable Mutex mutex_;
  std::vector<Sample> samples_ SPILLWAY_GUARDED_BY(mutex_);  // Sample n is at n % kKept.
  std::uint64_t added_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway::http
