// SPDX-License-Identifier: Apache-2.0
// What the engine reports about itself: pressure, free memory, why a set is refused,
// and its counts.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "cache/engine.h"

namespace spillway {

std::optional<double> Engine::pressure(TierId id) const {
  const TierState& tier = state(id);
  if (tier.estimator.unknown()) return std::nullopt;
  return Pressure(tier);
}

// Sets are refused for pressure only if no tier takes them.
bool Engine::is_blocked() const {
  for (const TierState* tier = top_; tier != nullptr; tier = tier->below) {
    if (!tier->blocked()) return false;
  }
  return true;
}

Bytes Engine::capacity(TierId tier) const {
  const bool none = tier == TierId::kDevice && settings_.options.unlimited;
  return none ? Tier::kUnlimited : store_->capacity(tier);
}

// Physical: by the last good sample and our own changes since.
Bytes Engine::FreeMemory(const TierState& tier) const {
  const Bytes available = tier.estimator.Free(DirtyBytes(tier));
  const Bytes clean = single() ? 0 : store_->clean(tier.id);
  return available - std::min(available, clean);
}

Status Engine::WhyBlocked(std::string_view what) const {
  std::string text = fmt::format("{}: ", what);
  for (const TierState* tier = top_; tier != nullptr; tier = tier->below) {
    text += fmt::format(
        "{}the {} tier is in emergency (pressure {:.3f}) and takes nothing new "
        "until pressure has been {:.3f} or less for {} ms{}",
        tier == top_ ? "" : "; ", store_->name(tier->id), Pressure(*tier),
        tier->governor->left_at(Level::kEmergency),
        std::chrono::duration_cast<std::chrono::milliseconds>(settings_.options.dwell).count(),
        ReservedForPeers(*tier));
  }
  return Error{Code::kBlocked, std::move(text)};
}

void Engine::CountInto(Stats* stats) const {
  stats->entries = store_->entries();
  stats->tokens = store_->tokens();
  stats->sets = sets_;
  stats->refused_blocked = refused_blocked_;
  stats->refused_budget = refused_budget_;
  stats->refused_other = refused_other_;
  stats->level_changes = top_->level_changes;
  stats->samples = top_->samples;
  stats->samples_failed = top_->samples_failed;
  stats->reservations = store_->reservations();
  stats->index_bytes = store_->index_bytes();
  log_.CountInto(stats);
  counts_.CountInto(&stats->moves);
  stats->moves.in_flight = transfers_.size();
  stats->moves.staging_bytes = store_->staging_bytes();
  stats->loading = loading_;
  CountScores(&stats->score);
  for (const TierState* tier = top_; tier != nullptr; tier = tier->below) {
    TierStats& to = tier->id == TierId::kDevice ? stats->device
                    : tier->id == TierId::kHost ? stats->host
                                                : stats->disk;
    CountTier(*tier, &to);
  }
}

void Engine::CountTier(const TierState& tier, TierStats* stats) const {
  stats->name = store_->name(tier.id);
  stats->capacity = capacity(tier.id) == Tier::kUnlimited ? 0 : capacity(tier.id);
  stats->entries = store_->entries(tier.id);
  stats->bytes = store_->bytes(tier.id);
  stats->clean = store_->clean_bytes(tier.id);
  stats->clean_chunks = single() ? 0 : store_->clean(tier.id);
  stats->held = store_->held(tier.id);
  stats->total = tier.estimator.total();
  stats->free = FreeMemory(tier);
  stats->slack = stats->held - std::min(stats->held, stats->bytes);
  const Bytes taken = stats->total - std::min(stats->total, stats->free);
  stats->others = taken - std::min(taken, stats->held + stats->overhead);
  stats->reserve = tier.reserve == 0 ? 0 : tier.estimator.Raised(tier.reserve);
  stats->granted = tier.reservations.left();
  stats->pressure = pressure(tier.id);
  stats->level = tier.level.load(std::memory_order_relaxed);
  stats->level_since = tier.level_since;
  stats->level_changes = tier.level_changes;
  stats->no_room_below = tier.no_room_below;
  stats->failed_moves = tier.failed_moves;
  stats->copied_down = counts_.down.at(IndexOf(tier.id));
  stats->copied_up = counts_.up.at(IndexOf(tier.id));
  log_.CountInto(tier.id, stats);
  if (tier.id == TierId::kDisk) {
    const BlobStoreStats files = store_->disk()->stats();
    stats->files = {files.written,
                    files.value_written,
                    files.read,
                    files.corrupt,
                    files.io_errors,
                    files.syncs,
                    files.sync_failures,
                    files.recovered,
                    files.recovery_rejected,
                    files.recovery_mended,
                    files.recovery_given_up,
                    files.deletes_pending,
                    files.delete_flush_failures,
                    files.voided,
                    files.quarantined,
                    files.direct,
                    store_->disk()->why()};
  }
}

}  // namespace spillway
