// Pressure of a device as it reports it itself: the default source of a cache.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/device.h"
#include "spillway/pressure.h"

namespace spillway {

class CardSource final : public PressureSource {
 public:
  // `card` may be empty (private).
  CardSource(std::shared_ptr<Device> device, std::string_view card);

  Result<Reading> Read() override { return device_->ReadMemory(); }
  // "card:demo"; "card" for a private one; a GPU's own, "cuda:0".
  std::string_view name() const override { return name_; }

 private:
  const std::shared_ptr<Device> device_;  // A reading may outlast the cache.
  const std::string name_;
};

}  // namespace spillway
