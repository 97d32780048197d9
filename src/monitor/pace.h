// SPDX-License-Identifier: Apache-2.0
// The Pace decides how soon to read a source again: slowly while pressure is
// steady and far from any threshold, fast when it is near one or moving, and
// ever more slowly if the source fails. Pure apart from its memory of earlier
// readings; the time is an argument of each call.
//
// A neighbour's allocation is one jump, so being near a threshold must be enough for
// fast readings: waiting for movement would show the jump only after it happened.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway {

class Pace {
 public:
  struct Settings {
    Duration fastest = std::chrono::milliseconds(1);   // While pressure moves.
    Duration near = std::chrono::milliseconds(8);      // One jump away from a threshold.
    Duration slowest = std::chrono::milliseconds(50);  // Far from all thresholds, and steady.
    Thresholds thresholds;
  };

  // The largest part of the memory that one jump may take: 8 GiB of an H200.
  static constexpr double kJump = 0.06;
  // A change between two readings that is more than noise; or a rate of change
  // (per second) that soon will be; and for how long after it more is expected.
  static constexpr double kMove = 0.002;
  static constexpr double kMoveRate = 0.25;
  static constexpr Duration kRestless = std::chrono::milliseconds(100);
  // The longest time between two reads of a failing source; after it recovers
  // the next read comes within twice that.
  static constexpr Duration kLongestBackOff = std::chrono::milliseconds(800);
  // A call may take at most this part of the time between two readings. The cost
  // of a call is that of the fastest among the last few: a slow call has waited
  // for another thread in the driver, and that is no reason to read less often.
  static constexpr int kCostShare = 20;
  static constexpr std::size_t kCostsKept = 8;

  explicit Pace(const Settings& settings) : settings_(settings) {}

  // Returns how long to wait until the next reading. `pressure` was read at
  // `now` by a call that took `cost`; empty: the call failed.
  Duration After(std::optional<double> pressure, Duration cost, TimePoint now);
  // The wait after our own evictions have freed memory.
  Duration AfterActing() const { return settings_.fastest; }

  // The share of the memory that was allocated per second lately; 0 while
  // pressure is steady or falling.
  double rise_per_second() const { return rise_; }

 private:
  // The wait for this pressure, not counting the cost of a call.
  Duration Wanted(double pressure, TimePoint now);
  // The wait while pressure moves, by its distance to the next threshold.
  Duration Restless(std::optional<double> distance) const;
  // The least cost of the last kCostsKept calls.
  Duration CostOf(Duration latest);
  // The distance to the next threshold above; empty: there is none.
  std::optional<double> DistanceUp(double pressure) const;

  const Settings settings_;
  std::optional<double> last_;
  TimePoint last_at_;
  TimePoint restless_until_;
  double rise_ = 0;
  int failures_ = 0;
  std::array<Duration, kCostsKept> costs_{};  // Of the latest readings, as a ring.
  std::size_t looks_ = 0;
};

}  // namespace spillway
