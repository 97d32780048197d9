// What the demo plays: the settings it runs under and when the neighbour comes.
#pragma once

#include <string>
#include <vector>

#include "spillway/options.h"
#include "spillway/units.h"

namespace spillway::demo {

// The neighbour comes at `at`, takes so much that pressure becomes `to`, and
// leaves `hold` later. How much that is, the card says at that moment. Above 1
// it is more than is free: it gets the rest as we give it back.
struct Visit {
  Duration at{};
  Duration hold{};
  double to = 0;
};

// Waves of visits over a demo of this length. Each wave climbs level by level
// to EMERGENCY, goes, leaves time for RELAXED, and comes back wanting more
// than is free.
std::vector<Visit> VisitsFor(Duration length);

// How long the agents take to come.
Duration ArrivalFor(Duration length);

// Bytes the neighbour has to take for pressure to become `to`: at least a page,
// at most three quarters of the card.
Bytes BytesToReach(double to, Bytes total, Bytes free);

// The mode table's times are made for days; a demo has seconds. Idle limits, dwell
// and ttl are shorter here, and nothing else differs.
Options DemoCacheOptions(const std::string& card);
// Says so: "shorter: idle 4 s|1 s (usual 2 min|30 s), ...".
std::string HasteNote(const Options& options);

}  // namespace spillway::demo
