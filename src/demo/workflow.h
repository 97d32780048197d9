// The dozen agents and the order in which they work: a plan, three who act on
// it side by side, a review; round after round. The three are the researchers
// in one round, then the builders, then the writers; every third review is the
// auditor's. So some contexts are wanted all the time and some rest for long.
//
// Three rounds are a job, and each job is told beforehand as a run of the step
// graph, each step as it begins and ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "demo/agent.h"
#include "demo/contexts.h"

namespace spillway::demo {

// Tells the graph: the words of a SPILL.GRAPH command. From any thread.
using TellGraph = std::function<Status(const std::vector<std::string_view>& words)>;
using MakeContexts = std::function<std::unique_ptr<Contexts>()>;
// Hears of a review when its step has begun and the reviewer has read nothing yet.
// On the workflow's thread.
using OnReview = std::function<void(const Agent& reviewer)>;

// A job's three rounds as SPILL.GRAPH LOAD takes them.
std::string JobDocument(std::uint64_t job);

class Workflow {
 public:
  // Each agent gets Contexts of its own. `witness` may be null, `on_review` empty.
  Workflow(const AgentSettings& settings, const MakeContexts& contexts, TellGraph tell,
           Witness* witness = nullptr, OnReview on_review = {});

  // All have come after `arrival`; then rounds until stopped.
  void Run(Duration arrival, const std::stop_token& stop);
  // After Run has been stopped: the daemon is another one, the agents are the same,
  // and go on with a new job.
  void RunAgain(const std::stop_token& stop);

  // From any thread.
  std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }
  // Words to the graph that were not taken.
  std::uint64_t untold() const { return untold_.load(std::memory_order_relaxed); }
  std::vector<AgentView> views() const;
  AgentCounts counts() const;
  // All blocks of all agents, each once. While nobody runs.
  std::vector<Block> AllBlocks() const;

 private:
  void RunRounds(const std::stop_token& stop);
  void Gather(Duration arrival, const std::stop_token& stop);
  void RunRound(std::uint64_t round, const std::stop_token& stop);
  void RunStep(std::uint64_t round, const std::string& step, std::size_t agent,
               const std::stop_token& stop);
  void Tell(const std::vector<std::string_view>& words);

  const TellGraph tell_;
  const OnReview on_review_;
  std::uint64_t next_round_ = 0;                // The running thread's.
  std::vector<std::unique_ptr<Agent>> agents_;  // Constant after construction.
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> untold_{0};
};

}  // namespace spillway::demo
