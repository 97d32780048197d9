// SPDX-License-Identifier: Apache-2.0
#include "base/renamed.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace spillway {
namespace {

using enum NameKind;

constexpr std::array kNames = {
    RenamedName{kSetting, "write_behind_after", "write_back_after"},
    RenamedName{kSetting, "write_behind_rate", "write_back_rate"},

    RenamedName{kMetric, "spillway_sets_under_way", "spillway_sets_in_flight"},
    RenamedName{kMetric, "spillway_departures_total", "spillway_removals_total"},
    RenamedName{kMetric, "spillway_departed_bytes_total", "spillway_removed_bytes_total"},
    RenamedName{kMetric, "spillway_tier_backed_bytes", "spillway_tier_clean_bytes"},
    RenamedName{kMetric, "spillway_tier_clean_bytes", "spillway_tier_reclaimable_bytes"},
    RenamedName{kMetric, "spillway_tier_others_bytes", "spillway_tier_other_processes_bytes"},
    RenamedName{kMetric, "spillway_tier_granted_bytes", "spillway_tier_peer_reserved_bytes"},
    RenamedName{kMetric, "spillway_tier_failed_moves_total",
                "spillway_tier_failed_transfers_total"},
    RenamedName{kMetric, "spillway_moved_bytes_total", "spillway_transferred_bytes_total"},
    RenamedName{kMetric, "spillway_moves_cancelled_total", "spillway_transfers_cancelled_total"},
    RenamedName{kMetric, "spillway_moves_under_way", "spillway_transfers_in_flight"},
    RenamedName{kMetric, "spillway_passing_bytes", "spillway_staging_bytes"},
    RenamedName{kMetric, "spillway_ahead_bytes_total", "spillway_prefetched_bytes_total"},
    RenamedName{kMetric, "spillway_ahead_waiting_bytes", "spillway_prefetched_unread_bytes"},
    RenamedName{kMetric, "spillway_score_leads", "spillway_score_active"},
    RenamedName{kMetric, "spillway_score_returns_total", "spillway_score_reuses_total"},
    RenamedName{kMetric, "spillway_score_remembered", "spillway_score_history_entries"},
    RenamedName{kMetric, "spillway_score_sent_below_total", "spillway_score_admitted_below_total"},
    RenamedName{kMetric, "spillway_disk_voided_total", "spillway_disk_resets_total"},
    RenamedName{kMetric, "spillway_disk_settle_failures_total",
                "spillway_disk_delete_flush_failures_total"},
    RenamedName{kMetric, "spillway_disk_unsettled", "spillway_disk_deletes_pending"},
    RenamedName{kMetric, "spillway_disk_mended", "spillway_disk_repaired"},
    RenamedName{kMetric, "spillway_disk_given_up", "spillway_disk_dropped"},
    RenamedName{kMetric, "spillway_others_rose_timestamp_seconds",
                "spillway_other_processes_growth_timestamp_seconds"},

    RenamedName{kC, "spillway_options.write_behind_after_ms",
                "spillway_options.write_back_after_ms"},
    RenamedName{kC, "spillway_options.write_behind_rate", "spillway_options.write_back_rate"},
    RenamedName{kC, "spillway_cache_settle", "spillway_cache_flush_deletes"},
    RenamedName{kC, "spillway_cache_leaving_order", "spillway_cache_eviction_order"},
    RenamedName{kC, "spillway_departure", "spillway_eviction"},
    RenamedName{kC, "spillway_departure_visitor", "spillway_eviction_visitor"},
    RenamedName{kC, "spillway_stats.left_by_reason", "spillway_stats.removed_by_reason"},
    RenamedName{kC, "spillway_stats.left_bytes_by_reason",
                "spillway_stats.removed_bytes_by_reason"},
    RenamedName{kC, "spillway_stats.left_by_action", "spillway_stats.removed_by_action"},
    RenamedName{kC, "spillway_stats.device_backed_bytes", "spillway_stats.device_clean_bytes"},
    RenamedName{kC, "spillway_stats.host_backed_bytes", "spillway_stats.host_clean_bytes"},
    RenamedName{kC, "spillway_stats.moved_down_bytes", "spillway_stats.transferred_down_bytes"},
    RenamedName{kC, "spillway_stats.moved_up_bytes", "spillway_stats.transferred_up_bytes"},
    RenamedName{kC, "spillway_stats.moves_under_way", "spillway_stats.transfers_in_flight"},
    RenamedName{kC, "spillway_stats.disk_unsettled", "spillway_stats.disk_deletes_pending"},
    RenamedName{kC, "spillway_stats.disk_settle_failures",
                "spillway_stats.disk_delete_flush_failures"},
};

constexpr std::string_view kHead = R"(# Renamed

<!-- Written by tools/write_settings_page.sh from src/base/renamed.cc; a test holds it to that. -->

Some settings, metrics and names of the C ABI had words of their own where caches and storage have
common ones. They were renamed before the first release. An old name of a setting, in a file, as a
flag, in `CONFIG GET`, `CONFIG SET` or as a keyword in Python, is an error that has the new name.
`/metrics` has each metric's old name in its help line. The names in JSON (`stats`, `/api/v1`,
`replay`), RESP and Python's own names are unchanged.

`spillway_tier_clean_bytes` is the one name with a new meaning: it is what was
`spillway_tier_backed_bytes`, and what it was is `spillway_tier_reclaimable_bytes` now.
)";

}  // namespace

std::span<const RenamedName> RenamedNames() { return kNames; }

std::string_view NewNameOf(NameKind kind, std::string_view old_name) {
  for (const RenamedName& each : kNames) {
    if (each.kind == kind && each.old_name == old_name) return each.name;
  }
  return {};
}

std::string_view OldNameOf(NameKind kind, std::string_view name) {
  for (const RenamedName& each : kNames) {
    if (each.kind == kind && each.name == name) return each.old_name;
  }
  return {};
}

std::string ItIsNow(std::string_view typed) {
  std::string name(typed);
  std::ranges::replace(name, '-', '_');
  const std::string_view now = NewNameOf(NameKind::kSetting, name);
  return now.empty() ? std::string() : fmt::format(": it is now {}", now);
}

std::string RenamedPage() {
  std::string page(kHead);
  for (const auto& [kind, title] :
       {std::pair{kSetting, "Settings"}, {kMetric, "Metrics"}, {kC, "C ABI"}}) {
    fmt::format_to(std::back_inserter(page), "\n## {}\n\n| was | is |\n|---|---|\n", title);
    for (const RenamedName& each : kNames) {
      if (each.kind != kind) continue;
      fmt::format_to(std::back_inserter(page), "| `{}` | `{}` |\n", each.old_name, each.name);
    }
  }
  page += R"(
In C++ `Options::write_behind_after` and `Options::write_behind_rate` have the names of their
settings, too.
)";
  return page;
}

}  // namespace spillway
