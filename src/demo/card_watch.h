// The card's own reading, as the cache asks for it, and what it was: relief
// follows a sample at once, so whoever looks at the cache afterwards no longer
// sees the pressure that raised the level.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "device/device.h"
#include "spillway/pressure.h"

namespace spillway::demo {

class CardWatch final : public PressureSource {
 public:
  // `device` is borrowed.
  CardWatch(Device* device, std::string_view card)
      : device_(device), name_("card:" + std::string(card)) {}

  Result<Reading> Read() override {
    Result<Reading> reading = device_->ReadMemory();
    if (reading && reading->total > 0) {
      const std::lock_guard lock(mutex_);
      peak_ = std::max(
          peak_, 1 - static_cast<double>(reading->free) / static_cast<double>(reading->total));
    }
    return reading;
  }
  std::string_view name() const override { return name_; }

  // The highest pressure read since the last call; 0 if none was.
  double TakePeak() {
    const std::lock_guard lock(mutex_);
    return std::exchange(peak_, 0);
  }

 private:
  Device* const device_;
  const std::string name_;
  std::mutex mutex_;
  double peak_ = 0;  // Guarded by mutex_.
};

}  // namespace spillway::demo
