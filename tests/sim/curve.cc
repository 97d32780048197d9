// SPDX-License-Identifier: Apache-2.0
#include "sim/curve.h"

#include <algorithm>

namespace spillway::sim {

namespace {
double Chance(std::uint64_t seed, std::uint64_t at) {
  return static_cast<double>(Mix(seed ^ Mix(at)) >> 11) * 0x1p-53;
}
}  // namespace

Curve::Curve(Shape shape, double low, double high, Duration period, std::uint64_t seed)
    : shape_(shape), low_(low), high_(high), period_(period), seed_(seed) {}

double Curve::At(TimePoint now) {
  const auto ns = static_cast<std::uint64_t>(now.time_since_epoch().count());
  const auto period = static_cast<std::uint64_t>(period_.count());
  const double phase = static_cast<double>(ns % period) / static_cast<double>(period);
  return low_ + (high_ - low_) * Share(ns / period, phase);
}

double Curve::Share(std::uint64_t cycle, double phase) {
  switch (shape_) {
    case Shape::kFlat:
      return 1;
    case Shape::kSine: {  // Two parabolas approximate it well enough.
      const double half = phase < 0.5 ? phase * 2 : (phase - 0.5) * 2;
      const double bow = 2 * half * (1 - half);
      return phase < 0.5 ? 0.5 + bow : 0.5 - bow;
    }
    case Shape::kSteps:
      return Chance(seed_, cycle * 4 + static_cast<std::uint64_t>(phase * 4));
    case Shape::kSawtooth:
      return phase;
    case Shape::kWalk: {
      const std::uint64_t at = cycle * 16 + static_cast<std::uint64_t>(phase * 16);
      // A long jump of the clock is not done step by step.
      walked_ = std::max(walked_, at > 64 ? at - 64 : 0);
      for (; walked_ < at; ++walked_) {
        walk_ = std::clamp(walk_ + (Chance(seed_, walked_) - 0.5) * 0.3, 0.0, 1.0);
      }
      return walk_;
    }
    case Shape::kSpikes:
      return phase < 0.15 && Chance(seed_, cycle) < 0.5 ? Chance(seed_ + 1, cycle) : 0;
  }
  return 0;
}

}  // namespace spillway::sim
