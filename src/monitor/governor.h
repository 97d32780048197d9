// SPDX-License-Identifier: Apache-2.0
// The Governor turns pressure into a level: it rises at once, with the very
// sample that reaches a threshold, and falls only after pressure has been
// `exit_band` under the threshold for `dwell`. Pure apart from its memory of
// earlier samples; the time is an argument of each call. Engine's strand only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// Pressure in billionths. Computed values are compared as integers, so that
// 0.70 - 0.02 is 0.68 in every build.
using Ppb = std::int64_t;
Ppb ToPpb(double pressure);

class Governor {
 public:
  // Pressure at which each level is entered, how far under it a level is left,
  // and after how long.
  struct Settings {
    Thresholds thresholds;
    double exit_band = 0.02;
    Duration dwell = std::chrono::seconds(2);
  };
  // Thresholds must rise and lie in (0, 1], and the band must be narrower than
  // the lowest threshold; otherwise InvalidArgument names the wrong setting.
  static Status Check(const Settings& settings);

  explicit Governor(const Settings& settings);

  // A sample; empty: the reading failed, and the level stays.
  Level Sample(std::optional<double> pressure, TimePoint now);
  // Pressure as our own evictions have changed it since the last sample. Never
  // raises the level, and lowers it only as time passes.
  Level Tick(double pressure, TimePoint now);
  // Records such a change without returning a level: the dwell time counts from
  // the eviction that brought pressure under a level's exit, not from the next
  // call of Look.
  void Note(double pressure, TimePoint now);
  // Back to the start: no known pressure, RELAXED.
  void Reset();

  Level level() const { return level_; }
  bool unknown() const { return unknown_; }
  double entered_at(Level level) const;
  // The pressure at or under which the dwell time for leaving `level` begins.
  double left_at(Level level) const;

 private:
  // Updates below_since_.
  void NoteBelow(double pressure, TimePoint now);
  // The current level, or a lower one if its exit was undercut for `dwell`.
  Level Lowered(TimePoint now) const;

  const Settings settings_;
  Level level_ = Level::kRelaxed;
  bool unknown_ = false;
  // The time since which pressure has been under each level's exit; empty: it is not.
  std::array<std::optional<TimePoint>, kLevels> below_since_;
};

}  // namespace spillway
