#include "http/metrics.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/times.h"
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
  to->Gauge("spillway_entries", "Entries that can be found.", stats.entries);
  to->Gauge("spillway_tokens", "Tokens of all entries.", stats.tokens);
  to->Gauge("spillway_leases", "Leases held now.", stats.leases);
  to->Counter("spillway_hits_total", "Gets that found their entry.", stats.hits);
  to->Counter("spillway_misses_total", "Gets that did not.", stats.misses);
  to->Counter("spillway_sets_total", "Entries set.", stats.sets);
  to->Counter("spillway_sets_refused_total", "Sets refused, by why.");
  to->Sample(stats.refused_blocked, {{"why", "blocked"}});
  to->Sample(stats.refused_budget, {{"why", "budget"}});
  to->Sample(stats.refused_other, {{"why", "other"}});
  to->Gauge("spillway_sets_under_way", "Sets admitted and not done yet.", stats.reservations);
  to->Gauge("spillway_index_bytes", "Host memory of the index.", stats.index_bytes);
  to->Gauge("spillway_loading", "1 while the disk tier is being read in.", stats.loading ? 1 : 0);
}

void AddDepartures(const Stats& stats, Exposition* to) {
  to->Counter("spillway_departures_total", "Entries that left a tier, by the reason.");
  for (std::size_t i = 0; i < stats.left_by_reason.size(); ++i) {
    to->Sample(stats.left_by_reason.at(i), {{"reason", Name(static_cast<Reason>(i))}});
  }
  to->Counter("spillway_departed_bytes_total", "Their bytes, by the reason.");
  for (std::size_t i = 0; i < stats.left_bytes_by_reason.size(); ++i) {
    to->Sample(stats.left_bytes_by_reason.at(i), {{"reason", Name(static_cast<Reason>(i))}});
  }
  to->Counter("spillway_actions_total", "What was done to entries, by the action.");
  for (std::size_t i = 0; i < stats.left_by_action.size(); ++i) {
    to->Sample(stats.left_by_action.at(i), {{"action", Name(static_cast<Action>(i))}});
  }
}

void AddTierMoves(const std::vector<const TierStats*>& tiers, Exposition* to) {
  to->Counter("spillway_tier_copied_bytes_total", "Bytes copied into it, by direction.");
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
  counter("spillway_tier_actions_total", "What was done to entries in it, by the action.",
          &TierStats::left_by_action);
  counter("spillway_tier_actions_bytes_total", "Their bytes.", &TierStats::left_bytes_by_action);
}

void AddGiveBack(const GiveBackStats& given, Exposition* to) {
  to->Histogram("spillway_give_back_seconds",
                "Time from a request for memory until the last of it was free.", given.kBounds,
                given.within, InSeconds(given.total));
  to->Counter("spillway_give_back_bytes_total", "Given back on request.", given.bytes);
}

void AddTiers(const Stats& stats, Exposition* to) {
  const std::vector<const TierStats*> tiers = TiersOf(stats);
  const auto gauge = [&](std::string_view name, std::string_view help, auto TierStats::* field) {
    to->Gauge(name, help);
    for (const TierStats* tier : tiers) to->Sample(tier->*field, {{"tier", tier->name}});
  };
  gauge("spillway_tier_capacity_bytes", "Most it may hold; 0: no bound.", &TierStats::capacity);
  gauge("spillway_tier_bytes", "Bytes of entries, and of those on their way.", &TierStats::bytes);
  gauge("spillway_tier_backed_bytes", "Of these, with a copy further down.", &TierStats::backed);
  gauge("spillway_tier_held_bytes", "Memory taken from the device.", &TierStats::held);
  gauge("spillway_tier_clean_bytes", "Of that, what could be returned at once.", &TierStats::clean);
  gauge("spillway_tier_slack_bytes", "Of that, what no entry uses.", &TierStats::slack);
  gauge("spillway_tier_overhead_bytes", "Taken besides.", &TierStats::overhead);
  gauge("spillway_tier_others_bytes", "What everybody else holds.", &TierStats::others);
  gauge("spillway_tier_size_bytes", "Size of the device, by its last reading.", &TierStats::total);
  gauge("spillway_tier_free_bytes", "Free on it, by its last reading.", &TierStats::free);
  gauge("spillway_tier_reserve_bytes", "Kept free for others.", &TierStats::reserve);
  gauge("spillway_tier_granted_bytes", "Kept free for those who asked.", &TierStats::granted);
  gauge("spillway_tier_entries", "Entries with a copy in it.", &TierStats::entries);
  to->Gauge("spillway_tier_pressure_ratio", "1 - available / total; none while it is unknown.");
  for (const TierStats* tier : tiers) {
    if (tier->pressure) to->Sample(*tier->pressure, {{"tier", tier->name}});
  }
  to->Gauge("spillway_tier_pressure_known", "1 if the pressure is known.");
  for (const TierStats* tier : tiers) {
    to->Sample(tier->pressure ? 1 : 0, {{"tier", tier->name}});
  }
  to->Gauge("spillway_tier_level", "1 for the level it is at, 0 for the others.");
  for (const TierStats* tier : tiers) {
    for (int i = 0; i < kLevels; ++i) {
      const auto level = static_cast<Level>(i);
      to->Sample(tier->level == level ? 1 : 0, {{"tier", tier->name}, {"level", Name(level)}});
    }
  }
  to->Counter("spillway_tier_level_changes_total", "Changes of level.");
  for (const TierStats* tier : tiers) to->Sample(tier->level_changes, {{"tier", tier->name}});
  to->Counter("spillway_tier_failed_moves_total", "Moves into it that failed.");
  for (const TierStats* tier : tiers) to->Sample(tier->failed_moves, {{"tier", tier->name}});
  AddTierMoves(tiers, to);
}

void AddMoves(const MoveStats& moves, Exposition* to) {
  to->Counter("spillway_moved_bytes_total", "Bytes copied between tiers, by direction.");
  to->Sample(moves.bytes_down, {{"direction", "down"}});
  to->Sample(moves.bytes_up, {{"direction", "up"}});
  to->Counter("spillway_fetches_total", "Gets that waited for a copy to come up.", moves.fetches);
  to->Counter("spillway_fetches_failed_total", "Of these, in vain.", moves.fetches_failed);
  to->Counter("spillway_promoted_total", "Entries brought up since they were read.",
              moves.promoted);
  to->Counter("spillway_prefetched_total", "Entries brought up ahead of a read.", moves.prefetched);
  to->Counter("spillway_ahead_bytes_total", "Bytes a step graph had brought up ahead, by outcome.");
  to->Sample(moves.ahead_useful_bytes, {{"outcome", "useful"}});
  to->Sample(moves.ahead_late_bytes, {{"outcome", "late"}});
  to->Sample(moves.ahead_wasted_bytes, {{"outcome", "wasted"}});
  to->Gauge("spillway_ahead_waiting_bytes", "Of these, not read yet.",
            moves.ahead_bytes -
                std::min(moves.ahead_bytes, moves.ahead_useful_bytes + moves.ahead_late_bytes +
                                                moves.ahead_wasted_bytes));
  to->Counter("spillway_moves_cancelled_total", "Moves called off.", moves.cancelled);
  to->Counter("spillway_corrupt_copies_total", "Copies that did not match their checksums.",
              moves.corrupt);
  to->Counter("spillway_scrubbed_total", "Copies verified again while idle.", moves.scrubbed);
  to->Gauge("spillway_moves_under_way", "Moves now.", moves.under_way);
  to->Gauge("spillway_passing_bytes", "Lent from memory of no tier, now.", moves.passing_bytes);
}

void AddScore(const ScoreStats& score, Exposition* to) {
  if (!score.in_use) return;
  to->Gauge("spillway_score_leads", "1 while the learnt score ranks, 0 while last use does.",
            score.leads ? 1 : 0);
  to->Counter("spillway_score_returns_total", "Uses the score has learnt from.", score.returns);
  to->Gauge("spillway_score_remembered", "Keys remembered that are gone.", score.remembered);
  to->Counter("spillway_score_fallbacks_total", "Times last use did better, and took over.",
              score.fallbacks);
  to->Counter("spillway_score_ghost_hits_total", "Keys asked for or set anew that were gone.",
              score.ghost_hits);
  to->Counter("spillway_score_sent_below_total",
              "Sets that entered a lower tier, being worth less than who would have left.",
              score.sent_below);
}

void AddFiles(const FileStats& files, Exposition* to) {
  to->Counter("spillway_disk_written_bytes_total", "Written to the disk tier's files.",
              files.written);
  to->Counter("spillway_disk_value_bytes_total", "Of that, values.", files.value_written);
  to->Counter("spillway_disk_read_bytes_total", "Read from them.", files.read);
  to->Counter("spillway_disk_corrupt_total", "Blobs that were not what they should be.",
              files.corrupt);
  to->Counter("spillway_disk_errors_total", "Calls that failed.", files.io_errors);
  to->Counter("spillway_disk_syncs_total", "Waits for stable storage.", files.syncs);
  to->Counter("spillway_disk_sync_failures_total", "Of these, in vain.", files.sync_failures);
  to->Counter("spillway_disk_voided_total", "Times all was given up, lest some be too old.",
              files.voided);
  to->Counter("spillway_disk_settle_failures_total", "Times somebody waited in vain for deletes.",
              files.settle_failures);
  to->Gauge("spillway_disk_unsettled", "Deletes the disk has not been told of.", files.unsettled);
  to->Gauge("spillway_disk_recovered", "Blobs found at open.", files.recovered);
  to->Gauge("spillway_disk_rejected", "Blobs not believed at open.", files.recovery_rejected);
  to->Gauge("spillway_disk_quarantined_bytes", "Space of damaged blobs.", files.quarantined);
  to->Gauge("spillway_disk_up", "1 if the disk tier is fine.", files.trouble.empty() ? 1 : 0);
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
  to->Counter("spillway_readings_failed_total", "Readings that gave nothing.");
  for (const Of& of : sources) to->Sample(of.source->failures, {{"tier", of.tier->name}});
  to->Counter("spillway_reading_hangs_total", "Readings that did not return in time.");
  for (const Of& of : sources) to->Sample(of.source->hangs, {{"tier", of.tier->name}});
  to->Gauge(
      "spillway_others_rose_timestamp_seconds",
      "When others last began to take memory, by the first reading that showed it; 0: never.");
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
  to->Gauge("spillway_build_info", "1; its version is a label.");
  to->Sample(1, {{"version", SPILLWAY_VERSION}});
  AddEntries(stats, to);
  AddDepartures(stats, to);
  AddTiers(stats, to);
  AddMoves(stats.moves, to);
  AddScore(stats.score, to);
  if (!stats.trace.file.empty()) {
    to->Counter("spillway_trace_requests_total", "Requests written to the file `trace` names.",
                stats.trace.requests);
    to->Counter("spillway_trace_lost_total", "Requests that could not be written there.",
                stats.trace.lost);
  }
  if (!stats.disk.name.empty()) AddFiles(stats.disk.files, to);
  AddSources(stats, to);
  AddGiveBack(stats.give_back, to);
  to->Gauge("spillway_prefill_seconds_per_token",
            "What computing a token anew costs, as clients declare it; else an 8B model's on an "
            "H200.",
            stats.score.prefill_s);
  to->Counter("spillway_asks_total", "Neighbours' requests for memory.", stats.ask.asks);
  to->Counter("spillway_asks_freed_bytes_total", "Given back for them.", stats.ask.freed);
  to->Counter("spillway_asks_refused_total", "Lines and connections refused.", stats.ask.errors);
}

}  // namespace spillway::http
