// Pressure of a virtual card as the card itself reports it: the default source
// of a cache on the cpu device.
#pragma once

#include <string>
#include <string_view>

#include "device/device.h"
#include "spillway/pressure.h"

namespace spillway {

class CardSource final : public PressureSource {
 public:
  // `device` is borrowed and must outlive this. `card` may be empty (private).
  CardSource(Device* device, std::string_view card);

  Result<Reading> Read() override { return device_->ReadMemory(); }
  // "card:demo"; "card" for a private one.
  std::string_view name() const override { return name_; }

 private:
  Device* const device_;
  const std::string name_;
};

}  // namespace spillway
