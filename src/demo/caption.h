// One sentence on what a scene has come to, from figures: those of the daemon and
// those the agents measured, now and when the scene began.
#pragma once

#include <string>
#include <vector>

#include "demo/agent.h"
#include "demo/neighbours.h"
#include "demo/script.h"
#include "spillway/stats.h"

namespace spillway::demo {

// At one moment.
struct Figures {
  Stats stats;
  AgentCounts counts;
};

// "a stranger: pid 4711 has 256 MiB after 11 ms; 14 dropped, 0 destroyed"
std::string Caption(Scene scene, const Figures& at_first, const Figures& now,
                    const std::vector<Neighbour>& neighbours, Duration prefill_per_token);

// Of the whole demo: what no tier has any more though nobody erased it.
std::uint64_t Destroyed(const Stats& stats);

}  // namespace spillway::demo
