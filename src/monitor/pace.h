// The Pace says how soon to look at a source again: slowly while pressure is
// far from any threshold and quiet, fast when it is near one or moving, and
// ever more slowly at a source that fails. Pure but for its memory of the
// readings before; time comes in with each call.
//
// A neighbour's allocation is one jump, so being near has to be enough: whoever
// waits for movement sees a jump over a threshold only after it happened.
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
    Duration near = std::chrono::milliseconds(8);      // A jump away from a threshold.
    Duration slowest = std::chrono::milliseconds(50);  // Far from all, and quiet.
    Thresholds thresholds;
  };

  // The part of the memory one jump may take: 8 GiB of an H200.
  static constexpr double kJump = 0.06;
  // A change from one look to the next that is not noise, or a rate of change
  // (per second) that soon is, and how long after it more is expected.
  static constexpr double kMove = 0.002;
  static constexpr double kMoveRate = 0.25;
  static constexpr Duration kRestless = std::chrono::milliseconds(100);
  // Between two tries at a source that fails; it is back within twice that.
  static constexpr Duration kLongestBackOff = std::chrono::milliseconds(800);
  // A call may take this part of the time between two looks, at most. What it
  // takes is what the quickest of the last few took: a slow one has waited for
  // somebody else in the driver, and that is no time to look away.
  static constexpr int kCostShare = 20;
  static constexpr std::size_t kCostsKept = 8;

  explicit Pace(const Settings& settings) : settings_(settings) {}

  // `pressure` as read at `now` by a call that took `cost`; empty: it failed.
  // How long to wait before the next.
  Duration After(std::optional<double> pressure, Duration cost, TimePoint now);
  // The same when something of ours has just left: at once.
  Duration AfterActing() const { return settings_.fastest; }

  // Share of the memory that was taken per second lately; 0 while it is quiet
  // or being given back.
  double rise_per_second() const { return rise_; }

 private:
  Duration Wanted(double pressure, TimePoint now);
  Duration Restless(std::optional<double> distance) const;
  Duration CostOf(Duration latest);
  std::optional<double> DistanceUp(double pressure) const;

  const Settings settings_;
  std::optional<double> last_;
  TimePoint last_at_;
  TimePoint restless_until_;
  double rise_ = 0;
  int failures_ = 0;
  std::array<Duration, kCostsKept> costs_{};  // Of the latest looks, in a ring.
  std::size_t looks_ = 0;
};

}  // namespace spillway
