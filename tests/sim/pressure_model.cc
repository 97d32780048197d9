// SPDX-License-Identifier: Apache-2.0
#include "sim/pressure_model.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim {

PressureModel::PressureModel(const Options& options, bool corrects)
    : thresholds_(options.thresholds),
      exit_band_(options.exit_band),
      dwell_(options.dwell),
      corrects_(corrects) {}

std::int64_t PressureModel::Grain(double pressure) { return std::llround(pressure * 1e9); }

double PressureModel::Threshold(int level) const {
  const double values[] = {0, thresholds_.normal, thresholds_.pressure, thresholds_.critical,
                           thresholds_.emergency};
  return values[level];
}

bool PressureModel::Under(int level, const Seen& seen) const {
  if (!seen.pressure) return false;
  if (exit_band_ == 0) return *seen.pressure < Threshold(level);
  return Grain(*seen.pressure) <= Grain(Threshold(level)) - Grain(exit_band_);
}

// Whether every pressure seen since some moment `dwell` ago or longer was under the
// exit value of `level`.
bool PressureModel::UnderForDwell(int level, TimePoint now) const {
  std::optional<TimePoint> since;
  for (auto seen = seen_.rbegin(); seen != seen_.rend() && Under(level, *seen); ++seen) {
    since = seen->at;
  }
  return since && now - *since >= dwell_;
}

void PressureModel::See(std::optional<double> pressure, TimePoint now) {
  // A pressure seen between two equal ones does not matter.
  if (seen_.size() >= 2 && seen_.back().pressure == pressure &&
      seen_[seen_.size() - 2].pressure == pressure) {
    seen_.back().at = now;
  } else {
    seen_.push_back({now, pressure});
  }
  while (seen_.size() > 2 && now - seen_[1].at >= dwell_) seen_.pop_front();
}

void PressureModel::Lower(TimePoint now) {
  while (level_ != Level::kRelaxed && UnderForDwell(static_cast<int>(level_), now)) {
    level_ = static_cast<Level>(static_cast<int>(level_) - 1);
  }
}

void PressureModel::Sample(std::optional<double> pressure, Bytes total, Bytes ours, TimePoint now) {
  if (!pressure) {
    if (!unknown_) ceiling_ = ours;
    unknown_ = true;
    others_.reset();
    others_took_ = 0;
    others_most_ = 0;
    See(std::nullopt, now);
    return;
  }
  unknown_ = false;
  sampled_at_ = now;
  sample_ = *pressure;
  total_ = corrects_ ? total : 0;
  ours_then_ = ours;
  const Others others{*pressure * static_cast<double>(total_) - static_cast<double>(ours), total_,
                      now};
  const bool comparable = others_ && others_->total == others.total && now > others_->at;
  if (comparable) {
    // Within two seconds the taken bytes halve, and so does the distance to the most.
    const double left = std::exp2(-std::chrono::duration<double>(now - others_->at).count() / 2.0);
    const double most = others_->bytes + (others_most_ - others_->bytes) * left;
    others_took_ *= left;
    if (others.bytes > most) others_took_ += others.bytes - most;
    others_most_ = std::max(most, others.bytes);
  } else {
    others_most_ = others.bytes;
  }
  others_ = others;
  for (int level = 1; level < kLevels; ++level) {
    if (*pressure >= Threshold(level)) level_ = std::max(level_, static_cast<Level>(level));
  }
  See(*pressure, now);
  Lower(now);
}

void PressureModel::CheckAge(Bytes ours, TimePoint now) {
  if (period_ == Duration::zero() || unknown_) return;
  if (now - sampled_at_ > 3 * period_) Sample(std::nullopt, 0, ours, now);
}

void PressureModel::Look(Bytes ours, TimePoint now) {
  CheckAge(ours, now);
  if (unknown_) return;
  See(Corrected(ours), now);
  Lower(now);
}

void PressureModel::Moved(Bytes ours, TimePoint now) {
  if (!unknown_) See(Corrected(ours), now);
}

void PressureModel::ExpectSamplesEvery(Duration period, TimePoint now) {
  period_ = period;
  sampled_at_ = now;
}

void PressureModel::Forget() {
  level_ = Level::kRelaxed;
  seen_.clear();
  sample_ = 0;
  total_ = 0;
  ours_then_ = 0;
  unknown_ = false;
  others_.reset();
  others_took_ = 0;
  others_most_ = 0;
}

double PressureModel::Corrected(Bytes ours) const {
  if (total_ == 0 || ours >= ours_then_) return sample_;
  return std::max(0.0,
                  sample_ - static_cast<double>(ours_then_ - ours) / static_cast<double>(total_));
}

Bytes PressureModel::Raised(Bytes reserve) const {
  const Bytes most = total_ / 10;
  if (reserve >= most) return reserve;
  const double soon = others_took_;
  if (soon >= static_cast<double>(most) - static_cast<double>(reserve)) return most;
  return soon > 0 ? reserve + static_cast<Bytes>(soon) : reserve;
}

Bytes PressureModel::Free(Bytes ours) const {
  const auto total = static_cast<double>(total_);
  const double taken =
      sample_ * total + static_cast<double>(ours) - static_cast<double>(ours_then_);
  if (total - taken >= total) return total_;
  return taken < total ? static_cast<Bytes>(total - taken) : 0;
}

}  // namespace spillway::sim
