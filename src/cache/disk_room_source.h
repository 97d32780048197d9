// Pressure of a disk tier: how much it has taken of what it could have, its own
// files and what is free beside them. Files of others are not pressure by
// themselves (nothing of ours makes them smaller), only what they leave free.
#pragma once

#include <string>

#include "spillway/pressure.h"

namespace spillway {

class DiskRoomSource final : public PressureSource {
 public:
  explicit DiskRoomSource(std::string directory);
  Result<Reading> Read() override;
  std::string_view name() const override { return name_; }

 private:
  const std::string directory_;
  const std::string name_;
};

}  // namespace spillway
