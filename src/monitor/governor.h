// The Governor turns pressure into a level: upwards at once, with the very
// sample that reaches a threshold; downwards only after pressure has been
// `exit_band` under it for `dwell`. Pure but for its memory of the past; time
// comes in with each call, from the engine's strand.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "spillway/mode.h"
#include "spillway/options.h"
#include "spillway/result.h"
#include "spillway/units.h"

namespace spillway {

// Pressure in billionths. What was computed is compared as integers, so that
// 0.70 - 0.02 is 0.68 in every build.
using Ppb = std::int64_t;
Ppb ToPpb(double pressure);

class Governor {
 public:
  struct Settings {
    Thresholds thresholds;
    double exit_band = 0.02;
    Duration dwell = std::chrono::seconds(2);
  };
  // Thresholds must rise and lie in (0, 1], the band must not be wider than
  // the narrowest level; otherwise InvalidArgument names the offender.
  static Status Check(const Settings& settings);

  explicit Governor(const Settings& settings);

  // A sample; empty: the reading failed, and the level stays.
  Level Sample(std::optional<double> pressure, TimePoint now);
  // Pressure as our own departures have changed it since the last sample. It
  // never raises the level, and lowers it only as time passes.
  Level Look(double pressure, TimePoint now);
  // The same, of a moment that is not looked at: dwell counts from the move
  // that brought pressure under a level's exit, not from the next look.
  void Note(double pressure, TimePoint now);
  // Back to the start: no pressure known, RELAXED.
  void Reset();

  Level level() const { return level_; }
  bool unknown() const { return unknown_; }
  double entered_at(Level level) const;
  // Pressure at or under which `level` begins to be left.
  double left_at(Level level) const;

 private:
  void NoteBelow(double pressure, TimePoint now);
  Level Lowered(TimePoint now) const;

  const Settings settings_;
  Level level_ = Level::kRelaxed;
  bool unknown_ = false;
  // Since when pressure has been under each level's exit; empty: it is not.
  std::array<std::optional<TimePoint>, kLevels> below_since_;
};

}  // namespace spillway
