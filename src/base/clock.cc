// SPDX-License-Identifier: Apache-2.0
// The system clock, and the clock that tests advance by hand.
#include "spillway/clock.h"

#include <time.h>

#include "spillway/testing.h"

namespace spillway {

Clock::~Clock() = default;
PressureSource::~PressureSource() = default;

namespace {

// Resolution of last-use stamps: a hit writes its stamp at most ten times a second.
constexpr Duration::rep kTickNs = 100'000'000;

TimePoint Read(clockid_t which) {
  timespec ts{};
  clock_gettime(which, &ts);
  return TimePoint(std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec));
}

class RealClock final : public Clock {
 public:
  TimePoint Now() const override { return Read(CLOCK_MONOTONIC); }
  TimePoint Coarse() const override {
    const Duration::rep now = Read(CLOCK_MONOTONIC_COARSE).time_since_epoch().count();
    return TimePoint(Duration(now - now % kTickNs));
  }
};

}  // namespace

std::shared_ptr<Clock> SystemClock() {
  static const std::shared_ptr<Clock> kClock = std::make_shared<RealClock>();
  return kClock;
}

namespace testing {

TimePoint ManualClock::Now() const {
  return TimePoint(Duration(now_.load(std::memory_order_acquire)));
}

void ManualClock::Advance(Duration by) { Set(Now() + by); }

void ManualClock::Set(TimePoint to) {
  Duration::rep now = now_.load(std::memory_order_relaxed);
  const Duration::rep then = to.time_since_epoch().count();
  while (then > now && !now_.compare_exchange_weak(now, then, std::memory_order_acq_rel)) {
  }
}

ManualPressure::ManualPressure(Bytes total) : total_(total) {}

Result<Reading> ManualPressure::Read() {
  const std::lock_guard lock(mutex_);
  if (!pressure_) return Error{Code::kUnavailable, "manual pressure: none was given"};
  const double free = (1 - *pressure_) * static_cast<double>(total_);
  return Reading{total_, static_cast<Bytes>(free)};
}

void ManualPressure::Set(std::optional<double> pressure) {
  const std::lock_guard lock(mutex_);
  pressure_ = pressure;
}

}  // namespace testing
}  // namespace spillway
