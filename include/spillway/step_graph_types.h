// SPDX-License-Identifier: Apache-2.0
// The types of the step graph's interface: what callers tell it and what it answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spillway/export.h"
#include "spillway/units.h"

namespace spillway {

enum class RunState : std::uint8_t { kLive, kFinished, kFailed, kCancelled, kExpired };

// kReady is derived from the steps before it, never set by a caller.
enum class StepState : std::uint8_t { kPending, kReady, kRunning, kDone, kSkipped, kFailed };

// How many of the steps with an edge to this one must be done before it can start.
enum class Join : std::uint8_t { kAll, kAny, kKOf };

// A kBack edge closes a loop; its target is the first step of the loop.
enum class EdgeKind : std::uint8_t { kForward, kBack };

// How an agent uses a key. kFixed and kHistory keys are used again by the agent's next step; a
// kVolatile key is not used after the step that made it.
enum class KeyKind : std::uint8_t { kFixed, kHistory, kVolatile };

// What a failed step means for the steps after it: they ignore the failure (skip), those that
// depend on it never run (poison), or the step will run again (retry).
enum class OnFail : std::uint8_t { kSkip, kPoison, kRetry };

// Lower-case names, as used in JSON and messages.
SPILLWAY_API std::string_view Name(RunState state);
SPILLWAY_API std::string_view Name(StepState state);
SPILLWAY_API std::string_view Name(Join join);
SPILLWAY_API std::string_view Name(EdgeKind kind);
SPILLWAY_API std::string_view Name(KeyKind kind);
SPILLWAY_API std::string_view Name(OnFail on_fail);

// Limits. A call that would exceed one returns `Busy`.
struct StepGraphOptions {
  std::size_t runs_max = 1'000'000;
  std::size_t steps_max = 4'000'000;
  std::size_t edges_max = 16'000'000;
  std::size_t keys_max = 4'000'000;
  // A run without any call about it for this long expires.
  Duration run_idle_max = std::chrono::hours(1);
  // Etas of keys are at most this old. Computing them anew takes a millisecond or two for 10,000
  // live steps.
  Duration eta_tick = std::chrono::seconds(1);
};

// The arguments of StepGraph::BeginRun.
struct RunSpec {
  std::string client = {};    // Agent names are separate for each client.
  std::string workflow = {};  // Durations and choices are learned per workflow name.
  double weight = 1;
  std::optional<Duration> deadline = {};  // Counted from BeginRun; then the run expires.
};

// The arguments of StepGraph::AddStep.
struct StepSpec {
  std::string id;          // Unique in its run.
  std::string agent = {};  // Empty: the same as `id`.
  Join join = Join::kAll;
  std::uint32_t k = 0;                // Only for kKOf; at least 1.
  std::optional<double> est_ms = {};  // Duration in ms, including tool calls. Empty: learned.
  std::optional<std::uint32_t> max_visits = {};  // Empty: no limit.
};

// The arguments of StepGraph::AddEdge.
struct EdgeSpec {
  std::string from;
  std::string to;
  EdgeKind kind = EdgeKind::kForward;
  std::optional<double> prob = {};  // In (0, 1]. Empty: 1, or learned for exclusive edges.
  std::string choice = {};          // Edges of one step with the same choice exclude each other.
};

// A step's state, and when its next execution is expected.
struct StepFacts {
  std::string id;
  std::string agent;
  StepState state = StepState::kPending;
  std::uint32_t visits = 0;
  std::optional<std::uint32_t> steps = {};  // Step completions until it can start. Empty: never.
  double eta_ms = 0;                        // Until it can start; infinite: never.
  double p = 0;                             // Upper bound of the probability that it will run.
  double conf = 1;                          // Confidence; falls while a step before it is overdue.
};

// A live run with all its steps, edges and agents, for display.
struct RunView {
  struct Edge {
    std::uint32_t from = 0;  // Index in `steps`.
    std::uint32_t to = 0;
    EdgeKind kind = EdgeKind::kForward;
    double prob = 1;
    bool dead = false;  // Not taken: the step chose another edge.
  };
  // An agent of the run and the keys that belong to it.
  struct Agent {
    std::string name;
    std::vector<std::string> keys = {};
    std::size_t keys_more = 0;  // Number of keys left out.
  };
  std::string run;
  std::string client;
  std::string workflow;
  std::vector<StepFacts> steps = {};
  std::vector<Join> joins = {};  // joins[i] belongs to steps[i].
  std::size_t steps_more = 0;    // Number of steps left out; their edges are left out, too.
  std::vector<Edge> edges = {};
  std::vector<Agent> agents = {};
};
// Limits of StepGraph::View.
struct ViewQuery {
  std::size_t runs = 32;
  std::size_t steps = 1000;  // Over all runs.
  std::size_t keys = 2000;   // Over all runs.
};

// When a key is expected to be used, as derived from all live runs and advice.
struct KeyFacts {
  bool known = false;  // False: the graph has no information about the key.
  // Steps until the first step that uses it. Empty: never.
  std::optional<std::uint32_t> steps = {};
  double eta_ms = 0;  // Infinite: never.
  double p = 0;
  double conf = 1;
  bool retired = false;          // Known, but no live run needs it any more.
  bool running = false;          // A running step uses it.
  TimePoint running_since = {};  // If running: start time of the last such step.
  double weight = 1;             // The largest weight among the runs that need it.
  std::uint64_t version = 0;     // The graph's version when these facts last changed.
};

// The answer of StepGraph::ChangedSince.
struct Changes {
  std::vector<std::string> keys;
  std::uint64_t version = 0;
};

// The answer of StepGraph::VisitChanges.
struct Pulse {
  std::uint64_t version = 0;         // The version to pass next time.
  bool attached = false;             // At least one run is live.
  std::uint64_t starts = 0;          // Steps started since the graph was made.
  std::uint64_t mispredictions = 0;  // Steps that started against the prediction.
};
using KeyVisitor = std::function<void(std::string_view key, const KeyFacts& facts)>;

// The argument of StepGraph::prefetch_candidates.
struct PrefetchQuery {
  std::uint32_t lookahead = 1;  // Selects keys that are 1 to this many steps away,
  Duration within = {};         // and keys whose eta is below this.
  double p_min = 0;
  std::size_t most = 1024;
};

// A key that will be needed soon.
struct PrefetchCandidate {
  std::string key;
  std::optional<std::uint32_t> steps = {};
  double eta_ms = 0;
  double p = 0;
  double conf = 1;
};

// One reason a key is needed: a step that uses it.
struct KeyWant {
  std::string run;
  std::string client;
  StepFacts step = {};
};

// The answer of StepGraph::Explain.
struct KeyExplanation {
  KeyFacts facts = {};
  std::vector<KeyWant> wants = {};  // Soonest first, at most 16.
  std::size_t wants_more = 0;       // Number of reasons left out.
  bool advised = false;
  std::string text = {};  // The same, in words.
};

// Something in a run that is allowed but probably a mistake.
struct Finding {
  enum class What : std::uint8_t {
    kForwardCycle,  // Steps that depend on each other in a circle.
    kNeverStarts,   // No path leads to the step.
    kTooFewForK,    // K_OF(k) with fewer than k edges into it.
    kChoiceSum,     // Probabilities of a choice that do not add up to 1.
    kClosesNoLoop,  // A BACK edge whose source cannot be reached from its target.
  };
  What what = What::kForwardCycle;
  std::vector<std::string> steps = {};
  std::string message = {};
};

// Live objects and counters of a step graph.
struct StepGraphStats {
  std::size_t runs = 0;
  std::size_t steps = 0;
  std::size_t edges = 0;
  std::size_t agents = 0;
  std::size_t keys = 0;
  std::uint64_t mispredictions = 0;
  std::uint64_t runs_expired = 0;
  std::uint64_t evaluations = 0;  // Steps evaluated again since the graph was made.
  std::uint64_t version = 0;
};

}  // namespace spillway
