// SPDX-License-Identifier: Apache-2.0
#include "monitor/pace.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/times.h"

namespace spillway {

namespace {

Duration Times(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

Duration Pace::After(std::optional<double> pressure, Duration cost, TimePoint now) {
  const Duration cheap = std::min(CostOf(cost) * kCostShare, kLongestBackOff);
  if (!pressure) {
    // Readings before a failure say nothing about those after it.
    last_.reset();
    rise_ = 0;
    const int doublings = std::min(failures_++, 10);
    return std::max(cheap, std::min(settings_.slowest * (1 << doublings), kLongestBackOff));
  }
  failures_ = 0;
  return std::max(cheap, Wanted(*pressure, now));
}

Duration Pace::CostOf(Duration latest) {
  costs_.at(looks_++ % kCostsKept) = latest;
  const std::span<const Duration> kept(costs_.data(), std::min(looks_, kCostsKept));
  return *std::ranges::min_element(kept);
}

Duration Pace::Wanted(double pressure, TimePoint now) {
  double rise = 0;
  if (last_ && now > last_at_) {
    const double change = pressure - *last_;
    rise = change / InSeconds(now - last_at_);
    if (std::abs(change) >= kMove || std::abs(rise) >= kMoveRate) restless_until_ = now + kRestless;
  }
  // The latest reading counts half, so that a step is seen and soon forgotten.
  rise_ = std::max(0.0, (rise_ + rise) / 2);
  last_ = pressure;
  last_at_ = now;

  const std::optional<double> distance = DistanceUp(pressure);
  // Over the last threshold: other processes already lack memory.
  Duration wanted = settings_.near;
  if (distance) {
    const double far = std::clamp((*distance - kJump) / kJump, 0.0, 1.0);
    wanted = settings_.near + Times(settings_.slowest - settings_.near, far);
    // A few readings before the threshold is reached at this rate.
    if (rise_ > 0) {
      const double eta = *distance / rise_;
      if (eta < InSeconds(wanted) * 4) wanted = Times(std::chrono::seconds(1), eta / 4);
    }
  }
  if (now < restless_until_) wanted = std::min(wanted, Restless(distance));
  return std::clamp(wanted, settings_.fastest, std::max(settings_.fastest, settings_.slowest));
}

// From two jumps away on, movement matters less the farther the threshold is.
Duration Pace::Restless(std::optional<double> distance) const {
  if (!distance) return settings_.fastest;
  return std::min(Times(settings_.fastest, *distance / (2 * kJump)), settings_.near);
}

std::optional<double> Pace::DistanceUp(double pressure) const {
  const Thresholds& at = settings_.thresholds;
  for (const double threshold : {at.normal, at.pressure, at.critical, at.emergency}) {
    if (pressure < threshold) return threshold - pressure;
  }
  return std::nullopt;
}

}  // namespace spillway
