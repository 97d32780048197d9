// How much something is wanted: by a step, an agent, or all who share a key.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/value.h"
#include "spillway/units.h"

namespace spillway {

struct Want {
  std::int32_t steps = kNeverSteps;  // To execution; never, where only advice wants it.
  std::int32_t rank = kNeverSteps;   // Steps, or what advice is worth in steps.
  std::int64_t start = kNeverNs;
  double p = 0;
  double conf = 1;
  bool running = false;
  TimePoint running_since;
  double weight = 0;

  bool wanted() const { return rank != kNeverSteps; }
  friend bool operator==(const Want&, const Want&) = default;

  // The soonest, the likeliest, the latest start. What comes of it never depends
  // on the order of merging.
  void Merge(const Want& other) {
    if (!other.wanted()) return;
    steps = std::min(steps, other.steps);
    rank = std::min(rank, other.rank);
    if (other.start < start) {
      start = other.start;
      conf = other.conf;
    } else if (other.start == start) {
      conf = std::max(conf, other.conf);
    }
    p = std::max(p, other.p);
    if (other.running) running_since = std::max(running_since, other.running_since);
    running = running || other.running;
    weight = std::max(weight, other.weight);
  }
};

}  // namespace spillway
