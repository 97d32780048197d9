// SPDX-License-Identifier: Apache-2.0
#include "monitor/governor.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/mutant.h"

namespace spillway {

Ppb ToPpb(double pressure) { return std::llround(pressure * 1e9); }

Status Governor::Check(const Settings& settings) {
  const Thresholds& t = settings.thresholds;
  const std::array<std::pair<const char*, double>, 4> named = {{{"normal", t.normal},
                                                                {"pressure", t.pressure},
                                                                {"critical", t.critical},
                                                                {"emergency", t.emergency}}};
  double before = 0;
  const char* before_name = "0";
  for (const auto& [name, value] : named) {
    if (!(value > before && value <= 1)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("thresholds.{} is {}: thresholds must rise, each above the one "
                               "before ({}: {}) and none above 1",
                               name, value, before_name, before)};
    }
    before = value;
    before_name = name;
  }
  if (!(settings.exit_band >= 0 && settings.exit_band < t.normal)) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("exit_band is {}: it must be at least 0 and under thresholds.normal ({})",
                    settings.exit_band, t.normal)};
  }
  if (settings.dwell < Duration::zero()) {
    return Error{Code::kInvalidArgument, "dwell is negative: it must be at least 0"};
  }
  return {};
}

Governor::Governor(const Settings& settings) : settings_(settings) {}

double Governor::entered_at(Level level) const {
  switch (level) {
    case Level::kRelaxed:
      return 0;
    case Level::kNormal:
      return settings_.thresholds.normal;
    case Level::kPressure:
      return settings_.thresholds.pressure;
    case Level::kCritical:
      return settings_.thresholds.critical;
    case Level::kEmergency:
      return settings_.thresholds.emergency;
  }
  return 0;
}

double Governor::left_at(Level level) const { return entered_at(level) - settings_.exit_band; }

Level Governor::Sample(std::optional<double> pressure, TimePoint now) {
  if (!pressure && MutantOn(Mutant::kUnknownIsZero)) pressure = 0.0;
  unknown_ = !pressure.has_value();
  if (unknown_) {
    // Unknown pressure does not count as low.
    below_since_.fill(std::nullopt);
    return level_;
  }
  // A sample is compared unrounded: one bit under a threshold is under it.
  int reached = 0;
  while (reached + 1 < kLevels && *pressure >= entered_at(static_cast<Level>(reached + 1)))
    ++reached;
  if (reached > static_cast<int>(level_)) {
    level_ = MutantOn(Mutant::kSkipsOneLevelOnly) ? static_cast<Level>(static_cast<int>(level_) + 1)
                                                  : static_cast<Level>(reached);
  }
  NoteBelow(*pressure, now);
  level_ = Lowered(now);
  return level_;
}

Level Governor::Tick(double pressure, TimePoint now) {
  if (unknown_) return level_;
  NoteBelow(pressure, now);
  level_ = Lowered(now);
  return level_;
}

void Governor::Note(double pressure, TimePoint now) {
  if (!unknown_) NoteBelow(pressure, now);
}

void Governor::Reset() {
  level_ = Level::kRelaxed;
  unknown_ = false;
  below_since_.fill(std::nullopt);
}

void Governor::NoteBelow(double pressure, TimePoint now) {
  const Ppb band = ToPpb(settings_.exit_band);
  for (int level = 1; level < kLevels; ++level) {
    std::optional<TimePoint>& since = below_since_.at(static_cast<std::size_t>(level));
    const double enter = entered_at(static_cast<Level>(level));
    // Without a band, "below" must not include the threshold itself.
    const bool below = band > 0 ? ToPpb(pressure) <= ToPpb(enter) - band : pressure < enter;
    if (!below) {
      since.reset();
    } else if (!since) {
      since = now;
    }
  }
}

Level Governor::Lowered(TimePoint now) const {
  int level = static_cast<int>(level_);
  if (MutantOn(Mutant::kNeverLeavesEmergency) && level_ == Level::kEmergency) return level_;
  while (level > 0) {
    const std::optional<TimePoint>& since = below_since_.at(static_cast<std::size_t>(level));
    const bool left = since && (now - *since >= settings_.dwell || MutantOn(Mutant::kNoDwell));
    if (!left) break;
    --level;
  }
  return static_cast<Level>(level);
}

}  // namespace spillway
