#include "demo/workflow.h"

#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "demo/pause.h"

namespace spillway::demo {

namespace {

struct Role {
  std::string_view name;
  Conversation shape;  // Of different lengths, so that they do not all end at once.
};

constexpr std::size_t kTrios = 3;
constexpr std::uint64_t kRounds = kTrios;  // Of a job: everybody's turn comes.
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

std::size_t ActorOf(std::uint64_t round, std::size_t i) {
  return kFirstActor + kTrios * (round % kTrios) + i;
}
std::size_t ReviewerOf(std::uint64_t round) {
  return round % kTrios == kTrios - 1 ? kAuditor : kReviewer;
}

// Names of a job and its steps.
std::string JobOf(std::uint64_t round) { return fmt::format("job-{}", round / kRounds + 1); }
std::string StepOf(std::string_view what, std::uint64_t round) {
  return fmt::format("{}-{}", what, round % kRounds + 1);
}
std::string ActOf(std::uint64_t round, std::size_t i) {
  return fmt::format("{}-{}", StepOf("act", round), i + 1);
}

}  // namespace

std::string JobDocument(std::uint64_t job) {
  using Json = nlohmann::ordered_json;
  Json steps = Json::array();
  Json edges = Json::array();
  const auto step = [&](const std::string& id, std::size_t agent) {
    steps.push_back({{"id", id}, {"agent", kRoles.at(agent).name}});
  };
  const auto edge = [&](const std::string& from, const std::string& to) {
    edges.push_back({{"from", from}, {"to", to}});
  };
  for (std::uint64_t round = job * kRounds; round < (job + 1) * kRounds; ++round) {
    const std::string plan = StepOf("plan", round);
    const std::string review = StepOf("review", round);
    if (round > job * kRounds) edge(StepOf("review", round - 1), plan);
    step(plan, kPlanner);
    for (std::size_t i = 0; i < 3; ++i) {
      step(ActOf(round, i), ActorOf(round, i));
      edge(plan, ActOf(round, i));
      edge(ActOf(round, i), review);
    }
    step(review, ReviewerOf(round));
  }
  const Json document = {
      {"run", JobOf(job * kRounds)}, {"workflow", "demo"}, {"steps", steps}, {"edges", edges}};
  return document.dump();
}

Workflow::Workflow(const AgentSettings& settings, const MakeContexts& contexts, TellGraph tell,
                   Witness* witness, OnReview on_review)
    : tell_(std::move(tell)), on_review_(std::move(on_review)) {
  agents_.reserve(kRoles.size());
  for (const Role& role : kRoles) {
    agents_.push_back(
        std::make_unique<Agent>(std::string(role.name), role.shape, settings, contexts(), witness));
  }
}

void Workflow::Run(Duration arrival, const std::stop_token& stop) {
  Tell({"SPILL.GRAPH", "LOAD", JobDocument(0)});
  Gather(arrival, stop);
  RunRounds(stop);
}

void Workflow::RunAgain(const std::stop_token& stop) {
  for (const auto& agent : agents_) agent->Renew();
  next_round_ = (next_round_ + kRounds - 1) / kRounds * kRounds;
  Tell({"SPILL.GRAPH", "LOAD", JobDocument(next_round_ / kRounds)});
  RunRounds(stop);
}

void Workflow::RunRounds(const std::stop_token& stop) {
  std::uint64_t& round = next_round_;
  for (; !stop.stop_requested(); ++round) {
    // The next job is known before this one ends: nobody is out of work between.
    const bool last = round % kRounds == kRounds - 1;
    if (last) Tell({"SPILL.GRAPH", "LOAD", JobDocument(round / kRounds + 1)});
    RunRound(round, stop);
    if (last) Tell({"SPILL.GRAPH", "END", JobOf(round)});
    rounds_.fetch_add(1, std::memory_order_relaxed);
  }
  Tell({"SPILL.GRAPH", "END", JobOf(round)});
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
  RunStep(round, StepOf("plan", round), kPlanner, stop);
  if (stop.stop_requested()) return;
  {
    std::vector<std::jthread> trio;
    trio.reserve(3);
    for (std::size_t i = 0; i < 3; ++i) {
      trio.emplace_back(
          [this, round, i, &stop] { RunStep(round, ActOf(round, i), ActorOf(round, i), stop); });
    }
  }
  if (stop.stop_requested()) return;
  RunStep(round, StepOf("review", round), ReviewerOf(round), stop);
}

void Workflow::RunStep(std::uint64_t round, const std::string& step, std::size_t agent,
                       const std::stop_token& stop) {
  const std::string job = JobOf(round);
  Tell({"SPILL.GRAPH", "START", job, step});
  if (on_review_ && agent == ReviewerOf(round)) on_review_(*agents_[agent]);
  agents_[agent]->TakeTurn(stop);
  Tell({"SPILL.GRAPH", "FINISH", job, step});
}

void Workflow::Tell(const std::vector<std::string_view>& words) {
  if (!tell_(words)) untold_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<AgentView> Workflow::views() const {
  std::vector<AgentView> views;
  views.reserve(agents_.size());
  for (const auto& agent : agents_) views.push_back(agent->view());
  return views;
}

std::vector<Block> Workflow::AllBlocks() const {
  std::vector<Block> all;
  std::unordered_set<std::string_view> seen;
  for (const auto& agent : agents_) {
    for (const Block& block : agent->blocks()) {
      if (seen.insert(block.key).second) all.push_back(block);
    }
  }
  return all;
}

AgentCounts Workflow::counts() const {
  AgentCounts sum;
  for (const auto& agent : agents_) sum += agent->counts();
  return sum;
}

}  // namespace spillway::demo
