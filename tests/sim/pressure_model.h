// SPDX-License-Identifier: Apache-2.0
// Pressure and level as the mode table describes them, written naively: keeps the whole
// recent past and searches it each time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/pressure.h"
#include "spillway/units.h"

namespace spillway::sim {

class PressureModel {
 public:
  // `corrects`: freed bytes count before the next sample (not in preset seed).
  PressureModel(const Options& options, bool corrects);

  // --- what happens ---
  void Sample(std::optional<double> pressure, Bytes total, Bytes ours, TimePoint now);
  // A tick: the age of the last sample, then the dwell.
  void CheckAge(Bytes ours, TimePoint now);
  void Look(Bytes ours, TimePoint now);
  // Our bytes have changed, and with them the pressure.
  void Moved(Bytes ours, TimePoint now);
  void ExpectSamplesEvery(Duration period, TimePoint now);
  void Forget();

  // --- what follows ---
  Level level() const { return level_; }
  bool unknown() const { return unknown_; }
  double Corrected(Bytes ours) const;
  Bytes total() const { return total_; }
  // Free memory of the card as far as we know.
  Bytes Free(Bytes ours) const;
  // `reserve`, and what others took lately.
  Bytes Raised(Bytes reserve) const;
  // While unknown: the most we may hold.
  Bytes ceiling() const { return ceiling_; }

  // Billionths: the grain in which pressures are compared.
  static std::int64_t Grain(double pressure);

 private:
  struct Seen {
    TimePoint at;
    std::optional<double> pressure;  // Empty: unknown.
  };
  double Threshold(int level) const;
  bool Under(int level, const Seen& seen) const;
  bool UnderForDwell(int level, TimePoint now) const;
  void See(std::optional<double> pressure, TimePoint now);
  void Lower(TimePoint now);

  const Thresholds thresholds_;
  const double exit_band_;
  const Duration dwell_;
  const bool corrects_;

  Level level_ = Level::kRelaxed;
  std::deque<Seen> seen_;  // At least all of the last `dwell`.
  double sample_ = 0;
  Bytes total_ = 0;
  Bytes ours_then_ = 0;
  bool unknown_ = false;
  Bytes ceiling_ = 0;
  // What others held by the last good sample, and when; empty after a failed one.
  // `others_took_`: bytes by which they exceeded their most, decaying; the most decays
  // towards what they have.
  struct Others {
    double bytes;
    Bytes total;
    TimePoint at;
  };
  std::optional<Others> others_;
  double others_took_ = 0;
  double others_most_ = 0;
  TimePoint sampled_at_;
  Duration period_{};
};

}  // namespace spillway::sim
