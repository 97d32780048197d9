// SPDX-License-Identifier: Apache-2.0
#include "view/snapshot.h"

#include <algorithm>
#include <utility>

namespace spillway::view {

namespace {
TierRow RowOf(const TierStats& tier) {
  TierRow row;
  row.name = tier.name;
  row.held = tier.held > 0 ? tier.held : tier.bytes;
  row.capacity = tier.capacity;
  row.entries = tier.entries;
  row.pressure = tier.pressure;
  row.level = tier.level;
  return row;
}
}  // namespace

void Show(const Stats& stats, Snapshot* snapshot) {
  const TierStats& card = stats.device;
  snapshot->stats = stats;
  snapshot->level = card.level;
  snapshot->pressure = card.pressure;
  snapshot->memory.total = card.total;
  snapshot->memory.free = card.free;
  snapshot->memory.others = card.others;
  const Bytes ours = card.total - std::min(card.total, card.free + card.others);
  snapshot->memory.ours_clean = std::min(card.clean_chunks, ours);
  snapshot->memory.ours_dirty = ours - snapshot->memory.ours_clean;
  for (const TierStats* tier : {&stats.host, &stats.disk}) {
    if (!tier->name.empty()) snapshot->tiers.push_back(RowOf(*tier));
  }
}

}  // namespace spillway::view
