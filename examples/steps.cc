// SPDX-License-Identifier: Apache-2.0
// Three agents in a loop. Which context is used next, and which can be evicted?
#include <cstdio>
#include <cstdlib>

#include <spillway/step_graph.h>

namespace {

void Must(const spillway::Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

}  // namespace

int main() {
  using spillway::EdgeKind;
  spillway::StepGraph graph;
  const spillway::TimePoint now{};  // Any clock of yours that does not go back.

  Must(graph.BeginRun("run-1", {}, now));
  for (const char* agent : {"planner", "coder", "reviewer"}) {
    Must(graph.AddStep("run-1", {agent, agent}, now));
    Must(graph.Bind("run-1", agent, std::string("context:") + agent, spillway::KeyKind::kFixed,
                    now));
  }
  Must(graph.AddEdge("run-1", {"planner", "coder"}, now));
  Must(graph.AddEdge("run-1", {"coder", "reviewer"}, now));
  Must(graph.AddEdge("run-1", {"reviewer", "planner", EdgeKind::kBack}, now));

  Must(graph.Start("run-1", "planner", now));
  Must(graph.Finish("run-1", "planner", now));
  Must(graph.Start("run-1", "coder", now));

  std::printf("leaves first: ");
  for (const std::string& key : graph.eviction_order(10, now)) std::printf(" %s", key.c_str());
  std::printf("\nfetch ahead:  ");
  for (const auto& next : graph.prefetch_candidates({}, now)) std::printf(" %s", next.key.c_str());
  std::printf("\n");

  // The planner runs after the reviewer, so its context is evicted first.
  const bool right = graph.eviction_order(1, now).at(0) == "context:planner" &&
                     graph.Facts("context:reviewer", now).steps == 1U;
  return right ? 0 : 1;
}
