// SPDX-License-Identifier: Apache-2.0
// How soon and how probably something is needed: by one step, by an agent, or by all agents that
// share a key.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/value.h"
#include "spillway/units.h"

namespace spillway {

// The default value: not needed.
struct Want {
  std::int32_t steps = kNeverSteps;  // To execution. Never, if only advice needs it.
  std::int32_t rank = kNeverSteps;   // For ranking: steps, or what advice is worth in steps.
  std::int64_t start = kNeverNs;
  double p = 0;
  double conf = 1;
  bool running = false;
  TimePoint running_since;
  double weight = 0;

  bool wanted() const { return rank != kNeverSteps; }
  friend bool operator==(const Want&, const Want&) = default;

  // Combines two: fewest steps, earliest start, highest probability, latest running_since. The
  // result does not depend on the order of merging.
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
