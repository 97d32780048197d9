// SPDX-License-Identifier: Apache-2.0
// The `PressureEstimator` holds the last sample of a tier's pressure and corrects it by what was
// freed since, so that a plan can see how far it has come before the next sample. New
// entries never raise the estimate: only a sample does.
//
// It also measures how much memory others take from one sample to the next. That never
// changes a level; it raises the reserve for a while: a process that has just taken
// memory usually takes more, sooner than we could sample and act.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway {

class PressureEstimator {
 public:
  // `total` 0: shares can't be computed, and nothing is corrected. `others`: bytes in
  // use that are not ours. `promised`: of the bytes taken since the last sample, those
  // that had been granted to their takers: they are expected and do not raise the
  // reserve.
  void Sampled(double pressure, Bytes total, Bytes ours, double others, TimePoint now,
               Bytes promised = 0) {
    SeeOthers(others, total, now, static_cast<double>(promised));
    sample_ = pressure;
    total_ = total;
    ours_at_sample_ = ours;
    unknown_ = false;
  }
  void Failed() {
    unknown_ = true;
    others_at_.reset();
    taken_lately_ = 0;
    high_ = 0;
  }
  void Reset() { *this = PressureEstimator(); }

  bool unknown() const { return unknown_; }
  Bytes total() const { return total_; }
  // The last good sample, corrected; 0 before the first.
  double Corrected(Bytes ours) const {
    if (total_ == 0 || ours >= ours_at_sample_) return sample_;
    const double share = static_cast<double>(ours_at_sample_ - ours) / static_cast<double>(total_);
    return sample_ > share ? sample_ - share : 0;
  }
  // Free memory, by the last good sample and our own changes since.
  Bytes Free(Bytes ours) const {
    const double taken = sample_ * static_cast<double>(total_) + static_cast<double>(ours) -
                         static_cast<double>(ours_at_sample_);
    // A source may report a wrong total: never convert a value that Bytes can't hold.
    const double free = static_cast<double>(total_) - taken;
    if (free >= static_cast<double>(total_)) return total_;  // Also by rounding.
    return free > 0 ? static_cast<Bytes>(free) : 0;
  }
  // `reserve` plus what others took lately; that addition never raises it above a tenth
  // of the card.
  Bytes Raised(Bytes reserve) const {
    // NOLINTNEXTLINE(bugprone-integer-division): a tenth in whole bytes, as everywhere.
    const double room = static_cast<double>(total_ / 10) - static_cast<double>(reserve);
    const double more = std::min(taken_lately_, room);
    return more > 0 ? reserve + static_cast<Bytes>(more) : reserve;
  }

 private:
  // What was taken counts half after this long: programs load over seconds.
  static constexpr double kHalfLifeSeconds = 2;

  // Halves what was noted for every half-life that has passed, then adds what others
  // hold above their recent maximum. That maximum decays, too, so that a later rise
  // counts again.
  void SeeOthers(double others, Bytes total, TimePoint now, double promised) {
    if (others_at_ && total == total_ && now > *others_at_) {
      const double passed = std::chrono::duration<double>(now - *others_at_).count();
      const double left = std::exp2(-passed / kHalfLifeSeconds);
      high_ = others_ + (high_ - others_) * left;
      taken_lately_ = taken_lately_ * left + std::max(0.0, others - high_ - promised);
      high_ = std::max(high_, others);
    } else {
      high_ = others;
    }
    others_ = others;
    others_at_ = now;
  }

  double sample_ = 0;
  double others_ = 0;                   // Bytes that are not ours, by the last sample.
  std::optional<TimePoint> others_at_;  // Empty: there is none to compare with.
  double taken_lately_ = 0;             // Bytes others took, decaying; frees do not lower it.
  // The most others held lately, decaying towards what they hold now. Variation below
  // it does not count as taken: our own changes can blur the account by as much.
  double high_ = 0;
  Bytes total_ = 0;
  Bytes ours_at_sample_ = 0;
  bool unknown_ = false;
};

}  // namespace spillway
