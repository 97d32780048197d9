// SPDX-License-Identifier: Apache-2.0
// A clock and a pressure source for your own tests: both change only when the test says so.
//
//   auto clock = std::make_shared<spillway::testing::ManualClock>();
//   auto pressure = std::make_shared<spillway::testing::ManualPressure>();
//   spillway::Options options;
//   options.clock = clock;
//   options.pressure = pressure;
//   auto cache = spillway::Cache::Open(options);
//   ...
//   pressure->Set(0.97);
//   (*cache)->Apply();   // EMERGENCY, now
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "spillway/clock.h"
#include "spillway/pressure.h"

namespace spillway::testing {

// A clock that starts at zero and moves only by Advance and Set. Safe from any thread.
class SPILLWAY_API ManualClock final : public Clock {
 public:
  TimePoint Now() const override;
  // Moves the time forward.
  void Advance(Duration by);
  // Sets the time. A time before the current one is ignored.
  void Set(TimePoint to);

 private:
  std::atomic<Duration::rep> now_{0};
};

// Reports the pressure it was last given; 0 before the first Set. Safe from any thread.
class SPILLWAY_API ManualPressure final : public PressureSource {
 public:
  // `total`: the size that readings report.
  explicit ManualPressure(Bytes total = Bytes{128} << 30);
  Result<Reading> Read() override;
  std::string_view name() const override { return "manual"; }

  // Sets the pressure (0 to 1). Empty: readings fail, so pressure is UNKNOWN.
  void Set(std::optional<double> pressure);

 private:
  const Bytes total_;
  mutable std::mutex mutex_;
  std::optional<double> pressure_ = 0.0;
};

}  // namespace spillway::testing
