// The dozen agents and the order in which they work: a plan, three who act on
// it side by side, a review; round after round. The three are the researchers
// in one round, then the builders, then the writers; every third review is the
// auditor's. So some contexts are wanted all the time and some rest for long.
#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "demo/agent.h"
#include "spillway/cache.h"

namespace spillway::demo {

class Workflow {
 public:
  // `cache` is borrowed.
  Workflow(const AgentSettings& settings, Cache* cache);

  // All have come after `arrival`; then rounds until stopped.
  void Run(Duration arrival, const std::stop_token& stop);

  // From any thread.
  std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }
  std::vector<AgentView> views() const;
  AgentCounts counts() const;

 private:
  void Gather(Duration arrival, const std::stop_token& stop);
  void RunRound(std::uint64_t round, const std::stop_token& stop);

  std::vector<std::unique_ptr<Agent>> agents_;  // Constant after construction.
  std::atomic<std::uint64_t> rounds_{0};
};

}  // namespace spillway::demo
