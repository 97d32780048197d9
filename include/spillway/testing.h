// For your own tests: time and pressure that move only when you say so.
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

// Starts at zero. Safe from any thread.
class SPILLWAY_API ManualClock final : public Clock {
 public:
  TimePoint Now() const override;
  void Advance(Duration by);
  // Never moves back: an earlier time is ignored.
  void Set(TimePoint to);

 private:
  std::atomic<Duration::rep> now_{0};
};

// Reports the pressure it was last given. Before that, none at all: 0.
class SPILLWAY_API ManualPressure final : public PressureSource {
 public:
  explicit ManualPressure(Bytes total = Bytes{128} << 30);
  Result<Reading> Read() override;
  std::string_view name() const override { return "manual"; }

  // Empty: reading fails, so pressure is UNKNOWN.
  void Set(std::optional<double> pressure);

 private:
  const Bytes total_;
  mutable std::mutex mutex_;
  std::optional<double> pressure_ = 0.0;
};

}  // namespace spillway::testing
