// The Gauge holds the last sample of a tier's pressure and corrects it by what
// has left since, so that a plan can see how far it has come before the next
// sample tells. What entered since never raises it: only a sample can.
#pragma once

#include <optional>

#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

class Gauge {
 public:
  // `total` 0: shares can't be computed, and nothing is corrected.
  void Sampled(double pressure, Bytes total, Bytes ours) {
    sample_ = pressure;
    total_ = total;
    ours_at_sample_ = ours;
    unknown_ = false;
  }
  void Failed() { unknown_ = true; }
  void Reset() { *this = Gauge(); }

  bool unknown() const { return unknown_; }
  Bytes total() const { return total_; }
  // Pressure by the last good sample, corrected; 0 before the first.
  double Corrected(Bytes ours) const {
    if (total_ == 0 || ours >= ours_at_sample_) return sample_;
    const double share = static_cast<double>(ours_at_sample_ - ours) / static_cast<double>(total_);
    return sample_ > share ? sample_ - share : 0;
  }
  // Free memory by the last good sample and all that we did since.
  Bytes Free(Bytes ours) const {
    const double taken = sample_ * static_cast<double>(total_) + static_cast<double>(ours) -
                         static_cast<double>(ours_at_sample_);
    // A source may lie about its total: never convert what Bytes can't hold.
    if (taken <= 0) return total_;
    const double free = static_cast<double>(total_) - taken;
    return free > 0 ? static_cast<Bytes>(free) : 0;
  }

 private:
  double sample_ = 0;
  Bytes total_ = 0;
  Bytes ours_at_sample_ = 0;
  bool unknown_ = false;
};

}  // namespace spillway
