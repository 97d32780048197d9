// SPDX-License-Identifier: Apache-2.0
#include "http/graph_json.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"

namespace spillway::http {

namespace {

constexpr std::size_t kMovesMax = 256;

Json StepJson(const StepFacts& step, Join join) {
  Json json = {{"id", Printable(step.id)},
               {"agent", Printable(step.agent)},
               {"state", std::string(Name(step.state))},
               {"join", std::string(Name(join))},
               {"visits", step.visits}};
  if (step.steps) json["steps"] = *step.steps;
  if (std::isfinite(step.eta_ms)) json["eta_ms"] = std::round(step.eta_ms);
  json["p"] = step.p;
  return json;
}

// Where an agent's entries are: number and bytes by their highest tier.
Json AgentJson(const RunView::Agent& agent, const Cache& cache,
               const std::set<std::string, std::less<>>& coming) {
  std::map<std::string, std::size_t> tiers;
  Bytes bytes = 0;
  std::size_t fetched = 0;
  std::size_t gone = 0;
  for (const std::string& key : agent.keys) {
    const bool there = cache.Visit(key, [&](const Cache::EntryInfo& entry) {
      ++tiers[std::string(entry.tier)];
      bytes += entry.bytes;
    });
    gone += there ? 0 : 1;
    fetched += coming.contains(key) ? 1 : 0;
  }
  return {{"agent", Printable(agent.name)},
          {"keys", agent.keys.size() + agent.keys_more},
          {"looked_at", agent.keys.size()},
          {"tiers", tiers},
          {"gone", gone},
          {"bytes", bytes},
          {"coming", fetched}};
}

Json RunJson(const RunView& run, const Cache& cache,
             const std::set<std::string, std::less<>>& coming) {
  Json json = {{"run", Printable(run.run)}};
  if (!run.client.empty()) json["client"] = Printable(run.client);
  if (!run.workflow.empty()) json["workflow"] = Printable(run.workflow);
  Json steps = Json::array();
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    steps.push_back(StepJson(run.steps[i], run.joins[i]));
  }
  Json edges = Json::array();
  for (const RunView::Edge& edge : run.edges) {
    Json one = {{"from", edge.from}, {"to", edge.to}, {"kind", std::string(Name(edge.kind))}};
    if (edge.prob < 1) one["prob"] = edge.prob;
    if (edge.dead) one["dead"] = true;
    edges.push_back(std::move(one));
  }
  Json agents = Json::array();
  for (const RunView::Agent& agent : run.agents) agents.push_back(AgentJson(agent, cache, coming));
  json["steps"] = std::move(steps);
  json["steps_more"] = run.steps_more;
  json["edges"] = std::move(edges);
  json["agents"] = std::move(agents);
  return json;
}

}  // namespace

Json GraphJson(const Cache& cache) {
  Json transfers = Json::array();
  std::set<std::string, std::less<>> coming;
  for (const Cache::InFlight& transfer : cache.TransfersInFlight(kMovesMax)) {
    const bool up = transfer.from == "disk" || transfer.to == "device";
    Json json = KeyJson(transfer.key);
    json["from"] = transfer.from;
    json["to"] = transfer.to;
    json["bytes"] = transfer.bytes;
    transfers.push_back(std::move(json));
    if (up) coming.insert(transfer.key);
  }
  Json json = {{"runs_live", 0}, {"runs", Json::array()}, {"moves", std::move(transfers)}};
  const std::shared_ptr<StepGraph> graph = cache.attached_graph();
  if (graph == nullptr) return json;
  const StepGraphStats stats = graph->stats();
  json["runs_live"] = stats.runs;
  json["steps_live"] = stats.steps;
  json["mispredictions"] = stats.mispredictions;
  for (const RunView& run : graph->View({}, cache.now())) {
    json["runs"].push_back(RunJson(run, cache, coming));
  }
  return json;
}

}  // namespace spillway::http
