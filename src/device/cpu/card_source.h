// SPDX-License-Identifier: Apache-2.0
// The memory pressure that a device reports itself: the default source of a cache.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/device.h"
#include "spillway/pressure.h"

namespace spillway {

class CardSource final : public PressureSource {
 public:
  // `card` may be empty (a private card).
  CardSource(std::shared_ptr<Device> device, std::string_view card);

  Result<Reading> Read() override { return device_->ReadMemory(); }
  // "card:demo"; "card" for a private card; for a GPU its own name, "cuda:0".
  std::string_view name() const override { return name_; }

 private:
  const std::shared_ptr<Device> device_;  // Shared, since a reading may outlast the cache.
  const std::string name_;
};

}  // namespace spillway
