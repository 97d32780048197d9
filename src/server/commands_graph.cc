// SPDX-License-Identifier: Apache-2.0
// SPILL.GRAPH: the steps of agents, reported as they happen. Its keys are those of database 0.
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "server/commands.h"
#include "spillway/step_graph.h"

namespace spillway::server {

namespace {

void Answer(Call& call, const Status& status) {
  status ? call.reply.Ok() : call.Error(fmt::format("ERR {}", status.error().message));
}

TimePoint Now(Call& call) { return call.state.direct().Now(); }

}  // namespace

void GraphLoad(Call& call) {
  const Result<std::string> run = call.state.graph()->Load(call.arg(2), Now(call));
  run ? call.reply.Bulk(*run) : call.Error(fmt::format("ERR {}", run.error().message));
}

void GraphStart(Call& call) {
  Answer(call, call.state.graph()->Start(call.arg(2), call.arg(3), Now(call)));
}

// FINISH run step [TAKEN step...]
void GraphFinish(Call& call) {
  std::optional<std::vector<std::string>> taken;
  if (call.args.size() > 4) {
    if (!SameWord(call.arg(4), "taken")) return call.SyntaxError();
    taken.emplace(call.args.begin() + 5, call.args.end());
  }
  Answer(call, call.state.graph()->Finish(call.arg(2), call.arg(3), taken, Now(call)));
}

void GraphSkip(Call& call) {
  Answer(call, call.state.graph()->Skip(call.arg(2), call.arg(3), Now(call)));
}

void GraphLoop(Call& call) {
  Answer(call, call.state.graph()->Loop(call.arg(2), call.arg(3), call.arg(4), Now(call)));
}

void GraphEnd(Call& call) {
  Answer(call, call.state.graph()->EndRun(call.arg(2), RunState::kFinished, Now(call)));
}

// Each step and the number of completions before it can start. Null: it will not run.
void GraphSteps(Call& call) {
  const auto steps = call.state.graph()->Steps(call.arg(2), Now(call));
  if (!steps) return call.Error(fmt::format("ERR {}", steps.error().message));
  call.reply.Map(steps->size());
  for (const StepFacts& step : *steps) {
    call.reply.Bulk(step.id);
    step.steps ? call.reply.Integer(*step.steps) : call.reply.Null();
  }
}

// Keys in eviction order by the graph, evict-first in front.
void GraphOrder(Call& call) {
  constexpr std::size_t kMost = 1000;
  const std::vector<std::string> keys = call.state.graph()->eviction_order(kMost, Now(call));
  call.reply.Array(keys.size());
  for (const std::string& key : keys) call.reply.Bulk(key);
}

}  // namespace spillway::server
