// What a demo came to, in a few lines. Every number in them stands on a page of
// /metrics: the daemon's own counters, and what the demo told it.
#pragma once

#include <string>
#include <vector>

#include "demo/caption.h"
#include "demo/metrics_page.h"
#include "spillway/units.h"

namespace spillway::demo {

struct Outcome {
  std::string place;  // "card demo-4711, 512 MiB of this machine's memory"
  std::string below;  // "128 MiB of RAM, 1.5 GiB of disk"
  Duration length{};
  MetricsPage page;  // Asked for when the last agent had stopped.
  std::vector<Stranger> strangers;
  std::vector<Killed> kills;
  Duration prefill_per_token{};  // Declared.
  Tokens replay_tokens = 0;      // Room that the replayed caches had; 0: nothing was replayed.
  std::string replay_trouble;    // Why it was not.
  std::uint64_t failures = 0;    // Turns given up: nobody answered, or with an error.
  std::string why_failed;        // The last of them, where an agent can tell.
  std::uint64_t untold = 0;      // Words to the step graph that were not taken.

  std::uint64_t wrong_bytes() const {
    return static_cast<std::uint64_t>(page["spillway_demo_wrong_bytes_total"]);
  }
};

std::vector<std::string> Summary(const Outcome& outcome);
// The same in one sentence.
std::string SummaryText(const MetricsPage& page);

// Three commands to type, at a daemon's socket and its HTTP port.
std::vector<std::string> Commands(const std::string& socket, std::uint16_t http_port);

}  // namespace spillway::demo
