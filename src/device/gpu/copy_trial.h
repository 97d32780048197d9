// A trial of the two ways in which scattered pieces can travel: gathered on the
// device into one, or by the copy engines piece by piece. Which is faster from
// what size on depends on the GPU, its driver and the link.
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
    Duration gathered{};  // There and back, the best of a few.
    Duration direct{};
  };
  std::vector<Row> rows;  // By size, the smallest first.

  // Pieces smaller than this had better be gathered. 0: none.
  Bytes GatherBelow() const;
};

// Takes memory of the device, twice `most`, and of the host, `most`, for its own
// time. Unavailable: this GPU has only one of the two ways.
Result<CopyTrial> TryCopies(const std::shared_ptr<const GpuDriver>& driver, int device,
                            GpuContext context, HostPins* pins, const GpuCopies::Settings& settings,
                            Bytes most);

}  // namespace spillway
