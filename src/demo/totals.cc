#include "demo/totals.h"

#include <algorithm>
#include <string>

namespace spillway::demo {

namespace {

std::uint64_t Of(const Stats& stats, Action action) {
  return stats.left_by_action.at(static_cast<std::size_t>(action));
}
std::uint64_t Of(const Stats& stats, Reason reason) {
  return stats.left_by_reason.at(static_cast<std::size_t>(reason));
}

// Of all that was destroyed, what nobody had wanted to be.
std::uint64_t Unwanted(std::uint64_t destroyed, std::uint64_t wanted) {
  return destroyed - std::min(destroyed, wanted);
}

}  // namespace

Totals& Totals::operator+=(const Totals& other) {
  hits += other.hits;
  misses += other.misses;
  sets += other.sets;
  dropped += other.dropped;
  destroyed += other.destroyed;
  ahead += other.ahead;
  return *this;
}

Totals TotalsOf(const Stats& stats) {
  Totals totals;
  totals.hits = stats.hits;
  totals.misses = stats.misses;
  totals.sets = stats.sets;
  totals.dropped = Of(stats, Action::kDrop);
  totals.destroyed = Unwanted(
      Of(stats, Action::kDestroy),
      Of(stats, Reason::kErased) + Of(stats, Reason::kReplaced) + Of(stats, Reason::kCleared));
  totals.ahead = stats.moves.ahead_bytes;
  return totals;
}

Totals TotalsOf(const MetricsPage& page) {
  const auto count = [&](const std::string& sample) {
    return static_cast<std::uint64_t>(page[sample]);
  };
  const auto left = [&](const char* reason) {
    return count(std::string("spillway_departures_total{reason=\"") + reason + "\"}");
  };
  Totals totals;
  totals.hits = count("spillway_hits_total");
  totals.misses = count("spillway_misses_total");
  totals.sets = count("spillway_sets_total");
  totals.dropped = count("spillway_actions_total{action=\"drop\"}");
  totals.destroyed = Unwanted(count("spillway_actions_total{action=\"destroy\"}"),
                              left("erased") + left("replaced") + left("cleared"));
  for (const char* outcome : {"useful", "late", "wasted"}) {
    totals.ahead += count(std::string("spillway_ahead_bytes_total{outcome=\"") + outcome + "\"}");
  }
  totals.ahead += count("spillway_ahead_waiting_bytes");
  return totals;
}

}  // namespace spillway::demo
