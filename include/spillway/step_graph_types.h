// The words of the step graph: what it is told and what it answers.
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

// READY is derived from what came before, never set.
enum class StepState : std::uint8_t { kPending, kReady, kRunning, kDone, kSkipped, kFailed };

// How many of the steps before it a step waits for.
enum class Join : std::uint8_t { kAll, kAny, kKOf };

// A BACK edge closes a loop; its target is the loop's head.
enum class EdgeKind : std::uint8_t { kForward, kBack };

// What a key holds for its agent. FIXED and HISTORY come back with the agent's
// next step; VOLATILE is of no use once the step that made it is over.
enum class KeyKind : std::uint8_t { kFixed, kHistory, kVolatile };

// What a failed step means to those after it: they ignore it (skip), those that
// need it never run (poison), or it will be tried again (retry).
enum class OnFail : std::uint8_t { kSkip, kPoison, kRetry };

SPILLWAY_API std::string_view Name(RunState state);
SPILLWAY_API std::string_view Name(StepState state);
SPILLWAY_API std::string_view Name(Join join);
SPILLWAY_API std::string_view Name(EdgeKind kind);
SPILLWAY_API std::string_view Name(KeyKind kind);
SPILLWAY_API std::string_view Name(OnFail on_fail);

// All of it has a bound; beyond it calls say `Busy`.
struct StepGraphOptions {
  std::size_t runs_max = 1'000'000;
  std::size_t steps_max = 4'000'000;
  std::size_t edges_max = 16'000'000;
  std::size_t keys_max = 4'000'000;
  // A run nobody spoke of for so long expires.
  Duration run_idle_max = std::chrono::hours(1);
  // Etas of keys are as of at most this long ago; looking at every running
  // step again costs a millisecond or two for 10,000 live steps.
  Duration eta_tick = std::chrono::seconds(1);
};

struct RunSpec {
  std::string client = {};    // Names of agents are local to it.
  std::string workflow = {};  // Runs of the same workflow learn from one another.
  double weight = 1;
  std::optional<Duration> deadline = {};  // From the beginning on; then it expires.
};

struct StepSpec {
  std::string id;          // Unique in its run.
  std::string agent = {};  // Empty: named as the step is.
  Join join = Join::kAll;
  std::uint32_t k = 0;                           // For kKOf: 1 or more.
  std::optional<double> est_ms = {};             // With the wait for its tools; empty: learnt.
  std::optional<std::uint32_t> max_visits = {};  // Empty: unbounded.
};

struct EdgeSpec {
  std::string from;
  std::string to;
  EdgeKind kind = EdgeKind::kForward;
  std::optional<double> prob = {};  // In (0, 1]; empty: 1, or among exclusive ones learnt.
  std::string choice = {};          // Edges of one step with the same choice exclude one another.
};

struct StepFacts {
  std::string id;
  std::string agent;
  StepState state = StepState::kPending;
  std::uint32_t visits = 0;
  std::optional<std::uint32_t> steps = {};  // To execution; empty: never.
  double eta_ms = 0;                        // Until it can start; infinite: never.
  double p = 0;                             // An upper bound of the probability that it will.
  double conf = 1;                          // Falls while a step on the way is overdue.
};

// A live run as a whole, for whoever draws it.
struct RunView {
  struct Edge {
    std::uint32_t from = 0;  // Places in `steps`.
    std::uint32_t to = 0;
    EdgeKind kind = EdgeKind::kForward;
    double prob = 1;
    bool dead = false;  // Its step went elsewhere.
  };
  // What belongs to an agent of its steps.
  struct Agent {
    std::string name;
    std::vector<std::string> keys = {};
    std::size_t keys_more = 0;  // And so many that are not told.
  };
  std::string run;
  std::string client;
  std::string workflow;
  std::vector<StepFacts> steps = {};
  std::vector<Join> joins = {};  // Beside the steps.
  std::size_t steps_more = 0;    // And so many that are not told, nor their edges.
  std::vector<Edge> edges = {};
  std::vector<Agent> agents = {};
};
struct ViewQuery {
  std::size_t runs = 32;
  std::size_t steps = 1000;  // Of all of them;
  std::size_t keys = 2000;   // likewise.
};

struct KeyFacts {
  bool known = false;                       // False: the graph was never told of it.
  std::optional<std::uint32_t> steps = {};  // Of the soonest step that wants it.
  double eta_ms = 0;                        // Infinite: never.
  double p = 0;
  double conf = 1;
  bool retired = false;          // Known, and nobody wants it any more.
  bool running = false;          // A running step uses it,
  TimePoint running_since = {};  // which started at this time (the latest of them).
  double weight = 1;             // The largest among the runs that want it.
  std::uint64_t version = 0;     // At which these facts last changed.
};

struct Changes {
  std::vector<std::string> keys;
  std::uint64_t version = 0;
};

// What else whoever follows the changes wants to know.
struct Pulse {
  std::uint64_t version = 0;         // From which to ask next.
  bool attached = false;             // At least one run is live.
  std::uint64_t starts = 0;          // Of steps, ever;
  std::uint64_t mispredictions = 0;  // and what was not expected.
};
using KeyVisitor = std::function<void(std::string_view key, const KeyFacts& facts)>;

struct PrefetchQuery {
  std::uint32_t lookahead = 1;  // Keys with 1 to so many steps to go,
  Duration within = {};         // and keys whose eta is less than this.
  double p_min = 0;
  std::size_t most = 1024;
};

struct PrefetchCandidate {
  std::string key;
  std::optional<std::uint32_t> steps = {};
  double eta_ms = 0;
  double p = 0;
  double conf = 1;
};

// Why a key is wanted: one of the steps, soonest first.
struct KeyWant {
  std::string run;
  std::string client;
  StepFacts step = {};
};

struct KeyExplanation {
  KeyFacts facts = {};
  std::vector<KeyWant> wants = {};  // At most 16,
  std::size_t wants_more = 0;       // and so many more.
  bool advised = false;
  std::string text = {};  // The same in words.
};

// Something in a run that is allowed and probably not meant.
struct Finding {
  enum class What : std::uint8_t {
    kForwardCycle,  // Steps that wait for one another.
    kNeverStarts,   // No way leads to it.
    kTooFewForK,    // K_OF(k) with fewer than k edges into it.
    kChoiceSum,     // Probabilities of a choice that do not add up to 1.
    kClosesNoLoop,  // A BACK edge whose source can't be reached from its target.
  };
  What what = What::kForwardCycle;
  std::vector<std::string> steps = {};
  std::string message = {};
};

struct StepGraphStats {
  std::size_t runs = 0;
  std::size_t steps = 0;
  std::size_t edges = 0;
  std::size_t agents = 0;
  std::size_t keys = 0;
  std::uint64_t mispredictions = 0;
  std::uint64_t runs_expired = 0;
  std::uint64_t evaluations = 0;  // Steps looked at again, since the beginning.
  std::uint64_t version = 0;
};

}  // namespace spillway
