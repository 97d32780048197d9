// What a demo came to, in a few lines.
#pragma once

#include <string>
#include <vector>

#include "demo/agent.h"
#include "demo/event_log.h"
#include "demo/level_log.h"
#include "demo/neighbours.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Outcome {
  std::string card;
  Bytes card_bytes = 0;
  Duration length{};
  std::uint64_t rounds = 0;
  std::size_t agents = 0;
  AgentCounts counts;
  Duration prefill_per_token{};  // Declared.
  Stats stats;
  LevelLog levels;
  std::vector<EventTally> left;
  std::vector<Neighbour> neighbours;
};

std::vector<std::string> Summary(const Outcome& outcome);

}  // namespace spillway::demo
