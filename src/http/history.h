// The History keeps what a cache's tiers were like over the last hour, a sample a
// second, so that whoever comes later sees what happened. Of fixed size. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "http/api_json.h"
#include "spillway/stats.h"

namespace spillway::http {

class History {
 public:
  static constexpr std::size_t kKept = 3600;

  History() : samples_(kKept) {}

  void Add(const Stats& stats, std::int64_t unix_ms);
  // At most `points` of those after `after` (Unix milliseconds), by columns, oldest
  // first; of several that share a point the one with the most pressure stands.
  Json Columns(std::size_t points, std::int64_t after) const;

 private:
  static constexpr std::size_t kTiers = 3;
  // Memory of a tier, in bytes; the five make up its size.
  struct Tier {
    bool there = false;
    Level level = Level::kRelaxed;
    float pressure = -1;  // -1: unknown.
    float others = 0;
    float unbacked = 0;
    float backed = 0;
    float free = 0;
    float reserve = 0;  // Of the free.
  };
  struct Sample {
    std::int64_t unix_ms = 0;
    std::array<Tier, kTiers> tiers;
  };
  static Tier TierOf(const TierStats& stats);
  // Those after `after`, thinned out.
  std::vector<Sample> Pick(std::size_t points, std::int64_t after) const;

  mutable std::mutex mutex_;
  std::vector<Sample> samples_;  // Sample n at n % kKept. Guarded by mutex_.
  std::uint64_t added_ = 0;      // Guarded by mutex_.
};

}  // namespace spillway::http
