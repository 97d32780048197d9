// SPDX-License-Identifier: Apache-2.0
// Pressure of the disk tier: its own files as a share of their size plus the free space
// of the file system. Files of others count only through the space they leave free,
// since no eviction of ours makes them smaller.
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
