// SPDX-License-Identifier: Apache-2.0
// How full others keep the card, over time. Arithmetic only (no libm), so that every
// build computes the same curve.
#pragma once

#include <cstdint>

#include "sim/rng.h"
#include "spillway/units.h"

namespace spillway::sim {

class Curve {
 public:
  enum class Shape : std::uint8_t { kFlat, kSine, kSteps, kSawtooth, kWalk, kSpikes };
  static constexpr int kShapes = 6;

  Curve(Shape shape, double low, double high, Duration period, std::uint64_t seed);

  // From `low` to `high`. `now` must not fall.
  double At(TimePoint now);

 private:
  double Share(std::uint64_t cycle, double phase);

  const Shape shape_;
  const double low_;
  const double high_;
  const Duration period_;
  const std::uint64_t seed_;
  std::uint64_t walked_ = 0;
  double walk_ = 0.5;
};

}  // namespace spillway::sim
