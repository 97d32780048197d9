// SPDX-License-Identifier: Apache-2.0
// The C ABI: step graphs. The time of each call is the system clock's, as for a cache.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "capi/convert.h"
#include "capi/guard.h"
#include "capi/handle.h"
#include "spillway/clock.h"
#include "spillway/spillway.h"

namespace spillway::capi {

// Names of agents in the order in which an external graph last put them.
class AgentList {
 public:
  void Set(std::vector<std::string> names) {
    const MutexLock lock(mutex_);
    names_ = std::move(names);
  }
  std::vector<std::string> Get() {
    const MutexLock lock(mutex_);
    return names_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> names_ SPILLWAY_GUARDED_BY(mutex_);
};

namespace {

using Json = nlohmann::json;

TimePoint Now() { return SystemClock()->Now(); }

// Names need not be UTF-8. Bytes that are not are replaced by U+FFFD.
char* NewJson(const Json& json) {
  return NewText(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json NumberOrNull(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

Json ToJson(const StepFacts& step) {
  return {{"id", step.id},
          {"agent", step.agent},
          {"state", Name(step.state)},
          {"visits", step.visits},
          {"steps", step.steps ? Json(*step.steps) : Json(nullptr)},
          {"eta_ms", NumberOrNull(step.eta_ms)},
          {"p", step.p},
          {"conf", step.conf}};
}

using Names = std::initializer_list<std::pair<spillway_bytes, const char*>>;

// Checks the arguments and calls `tell` with the graph and the time.
template <typename Tell>
spillway_code Told(spillway_graph* graph, Names names, Tell&& tell) {
  return Guarded([&]() -> Status {
    if (graph == nullptr) return Bad("graph is NULL");
    for (const auto& [bytes, name] : names) {
      if (Status ok = CheckBytes(bytes, name); !ok) return ok;
    }
    return tell(*graph->graph, Now());
  });
}

Result<std::vector<std::string>> NamesOf(const spillway_bytes* names, std::size_t count) {
  const Result<std::vector<std::string_view>> views = KeysOf(names, count);
  if (!views) return views.error();
  return std::vector<std::string>(views->begin(), views->end());
}

Status Visit(const std::vector<std::string>& keys, spillway_key_visitor visit, void* context) {
  for (const std::string& key : keys) {
    if (visit(BytesOf(key), context) != 0) break;
  }
  return {};
}

}  // namespace
}  // namespace spillway::capi

using namespace spillway;        // NOLINT(google-build-using-namespace)
using namespace spillway::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

spillway_code spillway_graph_open(spillway_graph** graph) {
  return Guarded([&]() -> Status {
    if (graph == nullptr) return Bad("graph is NULL");
    *graph = nullptr;
    *graph = new spillway_graph{std::make_shared<StepGraph>()};
    return {};
  });
}

spillway_code spillway_graph_close(spillway_graph* graph) {
  return Guarded([&]() -> Status {
    delete graph;
    return {};
  });
}

spillway_code spillway_cache_attach(spillway_cache* cache, spillway_graph* graph) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    const MutexLock lock(cache->agents_mutex);
    cache->cache->Attach(graph == nullptr ? nullptr : graph->graph);
    cache->agents = nullptr;
    return {};
  });
}

spillway_code spillway_cache_graph(spillway_cache* cache, spillway_graph** graph) {
  return Guarded([&]() -> Status {
    if (graph == nullptr) return Bad("graph is NULL");
    *graph = nullptr;
    if (Status ok = CheckHandle(cache); !ok) return ok;
    auto handle = std::make_unique<spillway_graph>();
    handle->graph = cache->cache->step_graph();
    *graph = handle.release();
    return {};
  });
}

spillway_code spillway_cache_attach_agents(spillway_cache* cache, const spillway_bytes* agents,
                                           std::size_t count) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    Result<std::vector<std::string>> names = NamesOf(agents, count);
    if (!names) return names.error();
    const MutexLock lock(cache->agents_mutex);
    if (cache->agents != nullptr) {
      cache->agents->Set(std::move(*names));
      return {};
    }
    auto list = std::make_shared<AgentList>();
    list->Set(std::move(*names));
    cache->cache->Attach([list] { return list->Get(); });
    cache->agents = std::move(list);
    return {};
  });
}

spillway_code spillway_graph_load(spillway_graph* graph, spillway_bytes json, char** run) {
  return Told(graph, {{json, "json"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (run != nullptr) *run = nullptr;
    const Result<std::string> loaded = told.Load(View(json), now);
    if (!loaded) return loaded.error();
    if (run != nullptr) *run = NewText(*loaded);
    return {};
  });
}

spillway_code spillway_graph_begin(spillway_graph* graph, spillway_bytes run, spillway_bytes client,
                                   spillway_bytes workflow) {
  return Told(graph, {{run, "run"}, {client, "client"}, {workflow, "workflow"}},
              [&](StepGraph& told, TimePoint now) {
                RunSpec spec;
                spec.client = View(client);
                spec.workflow = View(workflow);
                return told.BeginRun(View(run), spec, now);
              });
}

spillway_code spillway_graph_add_step(spillway_graph* graph, spillway_bytes run,
                                      spillway_bytes step, spillway_bytes agent) {
  return Told(graph, {{run, "run"}, {step, "step"}, {agent, "agent"}},
              [&](StepGraph& told, TimePoint now) {
                StepSpec spec;
                spec.id = View(step);
                spec.agent = View(agent);
                return told.AddStep(View(run), spec, now);
              });
}

spillway_code spillway_graph_add_edge(spillway_graph* graph, spillway_bytes run,
                                      spillway_bytes from, spillway_bytes to, std::int32_t back,
                                      spillway_bytes choice) {
  return Told(graph, {{run, "run"}, {from, "from"}, {to, "to"}, {choice, "choice"}},
              [&](StepGraph& told, TimePoint now) {
                EdgeSpec spec;
                spec.from = View(from);
                spec.to = View(to);
                spec.kind = back != 0 ? EdgeKind::kBack : EdgeKind::kForward;
                spec.choice = View(choice);
                return told.AddEdge(View(run), spec, now);
              });
}

spillway_code spillway_graph_bind(spillway_graph* graph, spillway_bytes run, spillway_bytes agent,
                                  spillway_bytes key, std::int32_t kind) {
  return Told(graph, {{run, "run"}, {agent, "agent"}, {key, "key"}},
              [&](StepGraph& told, TimePoint now) -> Status {
                if (kind < SPILLWAY_KEY_FIXED || kind > SPILLWAY_KEY_VOLATILE) {
                  return Bad(fmt::format("kind is {}: it must be a spillway_key_kind", kind));
                }
                return told.Bind(View(run), View(agent), View(key), static_cast<KeyKind>(kind),
                                 now);
              });
}

spillway_code spillway_graph_start(spillway_graph* graph, spillway_bytes run, spillway_bytes step) {
  return Told(graph, {{run, "run"}, {step, "step"}}, [&](StepGraph& told, TimePoint now) {
    return told.Start(View(run), View(step), now);
  });
}

spillway_code spillway_graph_finish(spillway_graph* graph, spillway_bytes run, spillway_bytes step,
                                    const spillway_bytes* taken, std::size_t count) {
  return Told(graph, {{run, "run"}, {step, "step"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (taken == nullptr) return told.Finish(View(run), View(step), now);
    Result<std::vector<std::string>> names = NamesOf(taken, count);
    if (!names) return names.error();
    return told.Finish(View(run), View(step), std::move(*names), now);
  });
}

spillway_code spillway_graph_skip(spillway_graph* graph, spillway_bytes run, spillway_bytes step) {
  return Told(graph, {{run, "run"}, {step, "step"}}, [&](StepGraph& told, TimePoint now) {
    return told.Skip(View(run), View(step), now);
  });
}

spillway_code spillway_graph_fail(spillway_graph* graph, spillway_bytes run, spillway_bytes step,
                                  std::int32_t on_fail) {
  return Told(graph, {{run, "run"}, {step, "step"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (on_fail < SPILLWAY_FAIL_SKIP || on_fail > SPILLWAY_FAIL_RETRY) {
      return Bad(fmt::format("on_fail is {}: it must be a spillway_on_fail", on_fail));
    }
    return told.Fail(View(run), View(step), static_cast<OnFail>(on_fail), now);
  });
}

spillway_code spillway_graph_loop(spillway_graph* graph, spillway_bytes run, spillway_bytes from,
                                  spillway_bytes to) {
  return Told(graph, {{run, "run"}, {from, "from"}, {to, "to"}},
              [&](StepGraph& told, TimePoint now) {
                return told.Loop(View(run), View(from), View(to), now);
              });
}

spillway_code spillway_graph_end(spillway_graph* graph, spillway_bytes run, std::int32_t how) {
  return Told(graph, {{run, "run"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (how < SPILLWAY_RUN_FINISHED || how > SPILLWAY_RUN_CANCELLED) {
      return Bad(fmt::format("how is {}: it must be a spillway_run_end", how));
    }
    return told.EndRun(View(run), static_cast<RunState>(how), now);
  });
}

spillway_code spillway_graph_steps(spillway_graph* graph, spillway_bytes run, char** json) {
  return Told(graph, {{run, "run"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (json == nullptr) return Bad("json is NULL");
    *json = nullptr;
    const Result<std::vector<StepFacts>> steps = told.Steps(View(run), now);
    if (!steps) return steps.error();
    Json list = Json::array();
    for (const StepFacts& step : *steps) list.push_back(ToJson(step));
    *json = NewJson(list);
    return {};
  });
}

spillway_code spillway_graph_steps_to(spillway_graph* graph, spillway_bytes run,
                                      spillway_bytes step, std::int64_t* steps) {
  return Told(graph, {{run, "run"}, {step, "step"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (steps == nullptr) return Bad("steps is NULL");
    *steps = -1;
    const Result<std::optional<std::uint32_t>> read =
        told.steps_to_execution(View(run), View(step), now);
    if (!read) return read.error();
    if (*read) *steps = **read;
    return {};
  });
}

spillway_code spillway_graph_agents(spillway_graph* graph, spillway_bytes client, char** json) {
  return Told(graph, {{client, "client"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (json == nullptr) return Bad("json is NULL");
    *json = nullptr;
    *json = NewJson(told.get_eviction_priority_order(View(client), now));
    return {};
  });
}

spillway_code spillway_graph_order(spillway_graph* graph, std::size_t most,
                                   spillway_key_visitor visit, void* context) {
  return Told(graph, {}, [&](StepGraph& told, TimePoint now) -> Status {
    if (visit == nullptr) return Bad("visit is NULL");
    return Visit(told.eviction_order(most, now), visit, context);
  });
}

spillway_code spillway_graph_validate(spillway_graph* graph, spillway_bytes run, char** json) {
  return Told(graph, {{run, "run"}}, [&](StepGraph& told, TimePoint) -> Status {
    if (json == nullptr) return Bad("json is NULL");
    *json = nullptr;
    const Result<std::vector<Finding>> findings = told.Validate(View(run));
    if (!findings) return findings.error();
    Json list = Json::array();
    for (const Finding& finding : *findings) {
      list.push_back({{"message", finding.message}, {"steps", finding.steps}});
    }
    *json = NewJson(list);
    return {};
  });
}

spillway_code spillway_graph_explain(spillway_graph* graph, spillway_bytes key, char** text) {
  return Told(graph, {{key, "key"}}, [&](StepGraph& told, TimePoint now) -> Status {
    if (text == nullptr) return Bad("text is NULL");
    *text = nullptr;
    const std::optional<KeyExplanation> why = told.Explain(View(key), now);
    if (why) *text = NewText(why->text);
    return {};
  });
}

spillway_code spillway_cache_eviction_order(spillway_cache* cache, spillway_key_visitor visit,
                                            void* context) {
  return Guarded([&]() -> Status {
    if (Status ok = CheckHandle(cache); !ok) return ok;
    if (visit == nullptr) return Bad("visit is NULL");
    return Visit(cache->cache->EvictionOrder(), visit, context);
  });
}

}  // extern "C"
