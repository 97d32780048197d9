// What a demo came to, in a few lines.
#pragma once

#include <string>
#include <vector>

#include "demo/agent.h"
#include "demo/level_log.h"
#include "demo/neighbours.h"
#include "spillway/stats.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Outcome {
  std::string card;
  Bytes card_bytes = 0;
  Bytes below_bytes = 0;
  Duration length{};
  std::uint64_t rounds = 0;
  std::size_t agents = 0;
  AgentCounts counts;
  Duration prefill_per_token{};  // Declared.
  Stats stats;                   // The daemon's own, asked for when the last agent had stopped.
  LevelLog levels;
  std::vector<Neighbour> neighbours;
  std::uint64_t graph_untold = 0;  // Words to the step graph that were not taken.
};

std::vector<std::string> Summary(const Outcome& outcome);

// Three commands to type, at a daemon's socket and its HTTP port.
std::vector<std::string> Commands(const std::string& socket, std::uint16_t http_port);

}  // namespace spillway::demo
