#include "demo/workflow.h"

#include <string_view>

#include "demo/pause.h"

namespace spillway::demo {

namespace {

struct Role {
  std::string_view name;
  Conversation shape;  // Of different lengths, so that they do not all end at once.
};

constexpr std::size_t kTrios = 3;
constexpr std::size_t kPlanner = 0;
constexpr std::size_t kFirstActor = 1;  // Three trios, one after another.
constexpr std::size_t kReviewer = 10;
constexpr std::size_t kAuditor = 11;

constexpr std::array kRoles = {
    Role{"planner", {10, 20, 5}},      Role{"researcher-1", {15, 19, 7}},
    Role{"researcher-2", {14, 18, 6}}, Role{"researcher-3", {13, 17, 6}},
    Role{"coder", {15, 20, 7}},        Role{"tester", {12, 16, 5}},
    Role{"debugger", {13, 17, 6}},     Role{"writer", {14, 18, 6}},
    Role{"editor", {12, 16, 5}},       Role{"translator", {11, 15, 5}},
    Role{"reviewer", {10, 20, 5}},     Role{"auditor", {15, 20, 7}},
};

}  // namespace

Workflow::Workflow(const AgentSettings& settings, Cache* cache) {
  agents_.reserve(kRoles.size());
  for (const Role& role : kRoles) {
    agents_.push_back(std::make_unique<Agent>(std::string(role.name), role.shape, settings, cache));
  }
}

void Workflow::Run(Duration arrival, const std::stop_token& stop) {
  Gather(arrival, stop);
  for (std::uint64_t round = 0; !stop.stop_requested(); ++round) {
    RunRound(round, stop);
    rounds_.store(round + 1, std::memory_order_relaxed);
  }
}

// One after another they come, with all they remember.
void Workflow::Gather(Duration arrival, const std::stop_token& stop) {
  std::vector<std::jthread> arriving;
  arriving.reserve(agents_.size());
  for (const auto& agent : agents_) {
    arriving.emplace_back([&agent, &stop] { agent->TakeTurn(stop); });
    if (!PauseFor(stop, arrival / static_cast<Duration::rep>(agents_.size()))) return;
  }
}

void Workflow::RunRound(std::uint64_t round, const std::stop_token& stop) {
  agents_[kPlanner]->TakeTurn(stop);
  if (stop.stop_requested()) return;
  {
    const std::size_t first = kFirstActor + 3 * (round % kTrios);
    std::vector<std::jthread> trio;
    trio.reserve(3);
    for (std::size_t i = first; i < first + 3; ++i) {
      trio.emplace_back([agent = agents_[i].get(), &stop] { agent->TakeTurn(stop); });
    }
  }
  if (stop.stop_requested()) return;
  agents_[round % kTrios == kTrios - 1 ? kAuditor : kReviewer]->TakeTurn(stop);
}

std::vector<AgentView> Workflow::views() const {
  std::vector<AgentView> views;
  views.reserve(agents_.size());
  for (const auto& agent : agents_) views.push_back(agent->view());
  return views;
}

AgentCounts Workflow::counts() const {
  AgentCounts sum;
  for (const auto& agent : agents_) sum += agent->counts();
  return sum;
}

}  // namespace spillway::demo
