// SPDX-License-Identifier: Apache-2.0
#include "http/metrics.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/times.h"
#include "cache/loss_log.h"
#include "spillway/mode.h"
#include "spillway/version.h"

namespace spillway::http {

namespace {

std::vector<const TierStats*> TiersOf(const Stats& stats) {
  std::vector<const TierStats*> tiers;
  for (const TierStats* tier : {&stats.device, &stats.host, &stats.disk}) {
    if (!tier->name.empty()) tiers.push_back(tier);
  }
  return tiers;
}

void AddEntries(const Stats& stats, Exposition* to) {
  to->Gauge("spillway_entries", "Live entries.", stats.entries);
  to->Gauge("spillway_tokens", "Tokens of all live entries.", stats.tokens);
  to->Gauge("spillway_leases", "Leases held now.", stats.leases);
  to->Counter("spillway_hits_total", "Gets that found their entry.", stats.hits);
  to->Counter("spillway_misses_total", "Gets that did not find their entry.", stats.misses);
  to->Counter("spillway_sets_total", "Entries set.", stats.sets);
  to->Counter("spillway_sets_refused_total", "Sets refused, by cause.");
  to->Sample(stats.refused_blocked, {{"why", "blocked"}});
  to->Sample(stats.refused_budget, {{"why", "budget"}});
  to->Sample(stats.refused_other, {{"why", "other"}});
  to->Gauge("spillway_sets_in_flight", "Sets that have reserved memory and are not yet visible.",
            stats.reservations);
  to->Gauge("spillway_index_bytes", "Host memory of the index, in bytes.", stats.index_bytes);
  to->Gauge("spillway_loading", "1 while the disk tier reads its files after open.",
            stats.loading ? 1 : 0);
}

void AddRemovals(const Stats& stats, Exposition* to) {
  to->Counter("spillway_removals_total", "Copies removed from a tier, by reason.");
  for (std::size_t i = 0; i < stats.removed_by_reason.size(); ++i) {
    to->Sample(stats.removed_by_reason.at(i), {{"reason", Name(static_cast<Reason>(i))}});
  }
  to->Counter("spillway_removed_bytes_total", "Bytes removed from a tier, by reason.");
  for (std::size_t i = 0; i < stats.removed_bytes_by_reason.size(); ++i) {
    to->Sample(stats.removed_bytes_by_reason.at(i), {{"reason", Name(static_cast<Reason>(i))}});
  }
  to->Counter("spillway_destroyed_total",
              "Entries lost: last copies destroyed though nothing erased them and they had not "
              "expired, by reason.");
  for (std::size_t i = 0; i < stats.destroyed_by_reason.size(); ++i) {
    if (!IsLoss(Action::kDestroy, static_cast<Reason>(i))) continue;
    to->Sample(stats.destroyed_by_reason.at(i), {{"reason", Name(static_cast<Reason>(i))}});
  }
  to->Counter("spillway_destroyed_bytes_total", "Bytes of lost entries, by reason.");
  for (std::size_t i = 0; i < stats.destroyed_bytes_by_reason.size(); ++i) {
    if (!IsLoss(Action::kDestroy, static_cast<Reason>(i))) continue;
    to->Sample(stats.destroyed_bytes_by_reason.at(i), {{"reason", Name(static_cast<Reason>(i))}});
  }
  to->Counter("spillway_actions_total", "Actions on entries' copies, by action.");
  for (std::size_t i = 0; i < stats.removed_by_action.size(); ++i) {
    to->Sample(stats.removed_by_action.at(i), {{"action", Name(static_cast<Action>(i))}});
  }
}

void AddTierMoves(const std::vector<const TierStats*>& tiers, Exposition* to) {
  to->Counter("spillway_tier_copied_bytes_total", "Bytes copied into the tier, by direction.");
  for (const TierStats* tier : tiers) {
    to->Sample(tier->copied_down, {{"tier", tier->name}, {"direction", "down"}});
    to->Sample(tier->copied_up, {{"tier", tier->name}, {"direction", "up"}});
  }
  const auto counter = [&](std::string_view name, std::string_view help, auto TierStats::* field) {
    to->Counter(name, help);
    for (const TierStats* tier : tiers) {
      for (std::size_t i = 0; i < kActions; ++i) {
        to->Sample((tier->*field).at(i),
                   {{"tier", tier->name}, {"action", Name(static_cast<Action>(i))}});
      }
    }
  };
  counter("spillway_tier_actions_total", "Actions on copies in the tier, by action.",
          &TierStats::removed_by_action);
  counter("spillway_tier_actions_bytes_total", "Bytes of the copies acted on, by action.",
          &TierStats::removed_bytes_by_action);
}

void AddGiveBack(const GiveBackStats& given, Exposition* to) {
  to->Histogram("spillway_give_back_seconds",
                "Time from a request for memory until its last byte was free.", given.kBounds,
                given.within, InSeconds(given.total));
  to->Counter("spillway_give_back_bytes_total", "Bytes given back on request.", given.bytes);
}

void AddTiers(const Stats& stats, Exposition* to) {
  const std::vector<const TierStats*> tiers = TiersOf(stats);
  const auto gauge = [&](std::string_view name, std::string_view help, auto TierStats::* field) {
    to->Gauge(name, help);
    for (const TierStats* tier : tiers) to->Sample(tier->*field, {{"tier", tier->name}});
  };
  gauge("spillway_tier_capacity_bytes", "Capacity of the tier; 0: no limit.", &TierStats::capacity);
  gauge("spillway_tier_bytes", "Bytes of entries and of reservations in flight.",
        &TierStats::bytes);
  gauge("spillway_tier_clean_bytes", "Bytes of clean entries: those with a copy in a lower tier.",
        &TierStats::clean);
  gauge("spillway_tier_held_bytes", "Memory the tier has taken from its device.", &TierStats::held);
  gauge("spillway_tier_reclaimable_bytes",
        "Held memory that can be given back at once: its chunks contain only clean bytes.",
        &TierStats::clean_chunks);
  gauge("spillway_tier_slack_bytes", "Held memory that no entry uses.", &TierStats::slack);
  gauge("spillway_tier_overhead_bytes", "Further memory taken: driver contexts and registrations.",
        &TierStats::overhead);
  gauge("spillway_tier_other_processes_bytes", "Memory held by other processes.",
        &TierStats::others);
  gauge("spillway_tier_size_bytes", "Size of the device, by its last reading.", &TierStats::total);
  gauge("spillway_tier_free_bytes", "Free memory of the device, by its last reading.",
        &TierStats::free);
  gauge("spillway_tier_reserve_bytes", "Memory kept free for other processes.",
        &TierStats::reserve);
  gauge("spillway_tier_peer_reserved_bytes",
        "Memory kept free for processes that asked for it and have not allocated it yet.",
        &TierStats::granted);
  gauge("spillway_tier_entries", "Entries with a copy in the tier.", &TierStats::entries);
  to->Gauge("spillway_tier_pressure_ratio", "1 - available / total; absent while it is unknown.");
  for (const TierStats* tier : tiers) {
    if (tier->pressure) to->Sample(*tier->pressure, {{"tier", tier->name}});
  }
  to->Gauge("spillway_tier_pressure_known", "1 if the pressure is known.");
  for (const TierStats* tier : tiers) {
    to->Sample(tier->pressure ? 1 : 0, {{"tier", tier->name}});
  }
  to->Gauge("spillway_tier_level", "1 for the tier's level, 0 for the other levels.");
  for (const TierStats* tier : tiers) {
    for (int i = 0; i < kLevels; ++i) {
      const auto level = static_cast<Level>(i);
      to->Sample(tier->level == level ? 1 : 0, {{"tier", tier->name}, {"level", Name(level)}});
    }
  }
  to->Gauge("spillway_tier_no_room_below",
            "1 if the level stands because no lower tier has room for copies.");
  for (const TierStats* tier : tiers) {
    to->Sample(tier->no_room_below ? 1 : 0, {{"tier", tier->name}});
  }
  to->Counter("spillway_tier_level_changes_total", "Changes of level.");
  for (const TierStats* tier : tiers) to->Sample(tier->level_changes, {{"tier", tier->name}});
  to->Counter("spillway_tier_failed_transfers_total", "Failed copies into the tier.");
  for (const TierStats* tier : tiers) to->Sample(tier->failed_moves, {{"tier", tier->name}});
  AddTierMoves(tiers, to);
}

void AddMoves(const TransferStats& transfers, Exposition* to) {
  to->Counter("spillway_transferred_bytes_total", "Bytes copied between tiers, by direction.");
  to->Sample(transfers.bytes_down, {{"direction", "down"}});
  to->Sample(transfers.bytes_up, {{"direction", "up"}});
  to->Counter("spillway_fetches_total", "Gets that waited for a copy from a lower tier.",
              transfers.fetches);
  to->Counter("spillway_fetches_failed_total", "Fetches that failed.", transfers.fetches_failed);
  to->Counter("spillway_promoted_total", "Entries copied to a higher tier because they were read.",
              transfers.promoted);
  to->Counter("spillway_prefetched_total", "Entries copied to a higher tier ahead of a read.",
              transfers.prefetched);
  to->Counter("spillway_prefetched_bytes_total", "Bytes prefetched for a step graph, by outcome.");
  to->Sample(transfers.ahead_useful_bytes, {{"outcome", "useful"}});
  to->Sample(transfers.ahead_late_bytes, {{"outcome", "late"}});
  to->Sample(transfers.ahead_wasted_bytes, {{"outcome", "wasted"}});
  to->Gauge(
      "spillway_prefetched_unread_bytes", "Prefetched bytes not read yet.",
      transfers.ahead_bytes - std::min(transfers.ahead_bytes, transfers.ahead_useful_bytes +
                                                                  transfers.ahead_late_bytes +
                                                                  transfers.ahead_wasted_bytes));
  to->Counter("spillway_transfers_cancelled_total", "Copies between tiers that were cancelled.",
              transfers.cancelled);
  to->Counter("spillway_corrupt_copies_total", "Copies that did not match their checksums.",
              transfers.corrupt);
  to->Counter("spillway_scrubbed_total", "Copies verified again while idle.", transfers.scrubbed);
  to->Gauge("spillway_transfers_in_flight", "Copies between tiers in flight now.",
            transfers.in_flight);
  to->Gauge("spillway_staging_bytes", "Bytes of staging buffers lent to readers now.",
            transfers.staging_bytes);
}

void AddScore(const ScoreStats& score, Exposition* to) {
  if (!score.in_use) return;
  to->Gauge("spillway_score_active", "1 while the learned score ranks, 0 while LRU does.",
            score.active ? 1 : 0);
  to->Counter("spillway_score_reuses_total", "Repeated uses the score has learned from.",
              score.returns);
  to->Gauge("spillway_score_history_entries", "Keys in the score's history whose entries are gone.",
            score.remembered);
  to->Counter("spillway_score_fallbacks_total",
              "Times LRU performed better and replaced the score.", score.fallbacks);
  to->Counter("spillway_score_ghost_hits_total",
              "Gets and sets of keys in the score's history whose entries are gone.",
              score.ghost_hits);
  to->Counter("spillway_score_admitted_below_total",
              "Inserts that admission placed in a lower tier.", score.sent_below);
}

void AddFiles(const FileStats& files, Exposition* to) {
  to->Counter("spillway_disk_written_bytes_total", "Bytes written to the disk tier's files.",
              files.written);
  to->Counter("spillway_disk_value_bytes_total",
              "Bytes of values written to the disk tier's files.", files.value_written);
  to->Counter("spillway_disk_read_bytes_total", "Bytes read from the disk tier's files.",
              files.read);
  to->Counter("spillway_disk_corrupt_total", "Blobs that failed verification.", files.corrupt);
  to->Counter("spillway_disk_errors_total", "File operations that failed.", files.io_errors);
  to->Counter("spillway_disk_syncs_total", "Waits for stable storage.", files.syncs);
  to->Counter("spillway_disk_sync_failures_total", "Waits for stable storage that failed.",
              files.sync_failures);
  to->Counter("spillway_disk_resets_total",
              "Resets of the disk tier: pending deletes could not be written.", files.voided);
  to->Counter("spillway_disk_delete_flush_failures_total", "Waits for pending deletes that failed.",
              files.delete_flush_failures);
  to->Gauge("spillway_disk_deletes_pending",
            "Deletes that are not on disk yet; after a crash these values could come back.",
            files.deletes_pending);
  to->Gauge("spillway_disk_recovered", "Blobs found at open.", files.recovered);
  to->Gauge("spillway_disk_rejected", "Journal records or ranges that could not be read at open.",
            files.recovery_rejected);
  to->Gauge("spillway_disk_repaired", "Damaged journal records repaired at open.",
            files.recovery_mended);
  to->Gauge("spillway_disk_dropped", "Blobs dropped at open because they may be out of date.",
            files.recovery_given_up);
  to->Gauge("spillway_disk_quarantined_bytes", "Space of damaged blobs, kept out of use.",
            files.quarantined);
  to->Gauge("spillway_disk_up", "1 if the disk tier works.", files.trouble.empty() ? 1 : 0);
}

void AddSources(const Stats& stats, Exposition* to) {
  struct Of {
    const TierStats* tier;
    const SourceStats* source;
  };
  std::vector<Of> sources;
  for (const Of& of : {Of{&stats.device, &stats.source}, Of{&stats.host, &stats.host_source},
                       Of{&stats.disk, &stats.disk_source}}) {
    if (!of.tier->name.empty()) sources.push_back(of);
  }
  to->Counter("spillway_readings_total", "Readings of pressure.");
  for (const Of& of : sources) to->Sample(of.source->reads, {{"tier", of.tier->name}});
  to->Counter("spillway_readings_failed_total", "Readings that failed.");
  for (const Of& of : sources) to->Sample(of.source->failures, {{"tier", of.tier->name}});
  to->Counter("spillway_reading_hangs_total", "Readings that did not return in time.");
  for (const Of& of : sources) to->Sample(of.source->hangs, {{"tier", of.tier->name}});
  to->Gauge("spillway_other_processes_growth_timestamp_seconds",
            "When other processes last began to take memory, by the first reading that showed it; "
            "0: never.");
  for (const Of& of : sources) {
    to->Sample(static_cast<double>(of.source->others_rose_unix_us) / 1e6,
               {{"tier", of.tier->name}});
  }
  to->Gauge("spillway_reading_age_seconds", "Age of the last good reading.");
  for (const Of& of : sources) {
    if (of.source->reading) to->Sample(InSeconds(of.source->age), {{"tier", of.tier->name}});
  }
}

}  // namespace

void AddCacheMetrics(const Stats& stats, Exposition* to) {
  to->Gauge("spillway_build_info", "1; the version is a label.");
  to->Sample(1, {{"version", SPILLWAY_VERSION}});
  AddEntries(stats, to);
  AddRemovals(stats, to);
  AddTiers(stats, to);
  AddMoves(stats.moves, to);
  AddScore(stats.score, to);
  if (!stats.trace.file.empty()) {
    to->Counter("spillway_trace_requests_total", "Requests written to the file `trace` names.",
                stats.trace.requests);
    to->Counter("spillway_trace_lost_total",
                "Requests that could not be written to the file `trace` names.", stats.trace.lost);
  }
  if (!stats.disk.name.empty()) AddFiles(stats.disk.files, to);
  AddSources(stats, to);
  AddGiveBack(stats.give_back, to);
  to->Gauge("spillway_prefill_seconds_per_token",
            "Seconds to compute a token again, as clients declare it; by default those of an 8B "
            "model on an H200.",
            stats.score.prefill_s);
  to->Counter("spillway_asks_total", "Requests for memory from other processes.", stats.ask.asks);
  to->Counter("spillway_asks_freed_bytes_total", "Bytes given back on those requests.",
              stats.ask.freed);
  to->Counter("spillway_asks_refused_total", "Requests and connections refused on the ask socket.",
              stats.ask.errors);
}

}  // namespace spillway::http
