// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "capi/convert.h"

namespace spillway::capi {

spillway_stats FromStats(const Stats& from) {
  static_assert(kReasons <= SPILLWAY_REASONS_MAX && kActions <= SPILLWAY_ACTIONS_MAX);
  spillway_stats to{};
  to.size = sizeof to;
  to.entries = from.entries;
  to.tokens = from.tokens;
  to.leases = from.leases;
  to.hits = from.hits;
  to.misses = from.misses;
  to.sets = from.sets;
  to.refused_blocked = from.refused_blocked;
  to.refused_budget = from.refused_budget;
  to.refused_other = from.refused_other;
  to.level_changes = from.level_changes;
  to.samples = from.samples;
  to.samples_failed = from.samples_failed;
  to.reservations = from.reservations;
  to.index_bytes = from.index_bytes;
  std::copy(from.removed_by_reason.begin(), from.removed_by_reason.end(), to.removed_by_reason);
  std::copy(from.removed_bytes_by_reason.begin(), from.removed_bytes_by_reason.end(),
            to.removed_bytes_by_reason);
  std::copy(from.removed_by_action.begin(), from.removed_by_action.end(), to.removed_by_action);
  std::copy(from.destroyed_by_reason.begin(), from.destroyed_by_reason.end(),
            to.destroyed_by_reason);
  std::copy(from.destroyed_bytes_by_reason.begin(), from.destroyed_bytes_by_reason.end(),
            to.destroyed_bytes_by_reason);
  to.device_capacity_bytes = from.device.capacity;
  to.device_bytes = from.device.bytes;
  to.device_held_bytes = from.device.held;
  to.device_total_bytes = from.device.total;
  to.device_free_bytes = from.device.free;
  to.device_reserve_bytes = from.device.reserve;
  to.device_level = static_cast<std::int32_t>(from.device.level);
  to.device_pressure_known = from.device.pressure ? 1 : 0;
  to.device_pressure = from.device.pressure.value_or(0);
  to.device_clean_bytes = from.device.clean;
  to.host_capacity_bytes = from.host.capacity;
  to.host_bytes = from.host.bytes;
  to.host_held_bytes = from.host.held;
  to.host_clean_bytes = from.host.clean;
  to.disk_capacity_bytes = from.disk.capacity;
  to.disk_bytes = from.disk.bytes;
  to.disk_held_bytes = from.disk.held;
  to.disk_written_bytes = from.disk.files.written;
  to.transferred_down_bytes = from.moves.bytes_down;
  to.transferred_up_bytes = from.moves.bytes_up;
  to.transfers_in_flight = from.moves.in_flight;
  to.fetches = from.moves.fetches;
  to.corrupt = from.moves.corrupt;
  to.disk_deletes_pending = from.disk.files.deletes_pending;
  to.disk_delete_flush_failures = from.disk.files.delete_flush_failures;
  return to;
}

}  // namespace spillway::capi
