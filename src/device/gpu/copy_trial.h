// SPDX-License-Identifier: Apache-2.0
// Measures the two ways to copy scattered pieces: gathered on the device into
// one piece, or one by one with the copy engines. Which is faster for which
// size depends on the GPU, its driver and the link.
#pragma once

#include <memory>
#include <vector>

#include "device/gpu/gpu_copies.h"
#include "device/gpu/gpu_driver.h"
#include "device/gpu/host_pins.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

struct CopyTrial {
  struct Row {
    Bytes piece = 0;
    Duration gathered{};  // To the device and back, the best of a few.
    Duration direct{};
  };
  std::vector<Row> rows;  // By size, smallest first.

  // Pieces smaller than this should be gathered. 0: none.
  Bytes GatherBelow() const;
};

// Allocates memory for the duration of the trial: twice `most` on the device and
// `most` on the host. Unavailable: this GPU supports only one of the two ways.
Result<CopyTrial> TryCopies(const std::shared_ptr<const GpuDriver>& driver, int device,
                            GpuContext context, HostPins* pins, const GpuCopies::Settings& settings,
                            Bytes most);

}  // namespace spillway
