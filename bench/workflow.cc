// SPDX-License-Identifier: Apache-2.0
// The benefit of a step graph, on a machine with virtual time: the real engine, a GPU and a host
// tier that only count bytes, and a link of a given speed. The same figures on every machine;
// docs/reference/workflow.md has them.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cache/testing/virtual_machine.h"

namespace spillway::bench {
namespace {

using testing::VirtualMachine;

constexpr Bytes kContext = 8192 * 131'072;  // 8192 tokens of an 8B model: 1 GiB.
bool all_held = true;

std::string Agent(std::size_t at) { return fmt::format("agent{}", at); }

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }
Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

void Hold(bool holds, const std::string& what) {
  fmt::print("  {}  {}\n", holds ? "holds " : "FAILED", what);
  all_held = all_held && holds;
}

void Must(const Status& status) {
  if (status) return;
  fmt::print(stderr, "{}\n", status.error().message);
  std::exit(1);
}

struct Result {
  std::size_t steps = 0;
  std::size_t hits = 0;
  Duration stall{};
  Bytes moved = 0;
  TransferStats moves;

  double hit_ratio() const { return static_cast<double>(hits) / static_cast<double>(steps); }
  double stall_s() const { return Seconds(stall) / static_cast<double>(steps); }
};

// Agents with one context each, and a graph in which they follow one another.
class Ring {
 public:
  Ring(const VirtualMachine::Settings& settings, std::size_t agents)
      : machine_(settings), agents_(agents), told_(settings.graph) {
    for (std::size_t at = 0; at < agents_; ++at) machine_.Set(Agent(at), kContext);
    if (!told_) return;
    StepGraph& graph = machine_.graph();
    Must(graph.BeginRun("r", {}, machine_.now()));
    for (std::size_t at = 0; at < agents_; ++at) {
      Must(graph.AddStep("r", {Agent(at), Agent(at)}, machine_.now()));
      if (at > 0) Must(graph.AddEdge("r", {Agent(at - 1), Agent(at)}, machine_.now()));
    }
    Must(graph.AddEdge("r", {Agent(agents_ - 1), Agent(0), EdgeKind::kBack}, machine_.now()));
    for (std::size_t at = 0; at < agents_; ++at) {
      Must(graph.Bind("r", Agent(at), Agent(at), KeyKind::kFixed, machine_.now()));
    }
  }
  // The graph is told of step `told`; the context of `used` is read.
  void Step(std::size_t told, std::size_t used, double work_s) {
    if (told_) (void)machine_.graph().Start("r", Agent(told), machine_.now());
    ++result_.steps;
    result_.hits += machine_.OnDevice(Agent(used)) ? 1 : 0;
    result_.stall += *machine_.Get(Agent(used));
    machine_.Work(FromSeconds(work_s));
    if (!told_) return;
    (void)machine_.graph().Finish("r", Agent(told), machine_.now());
    if (told + 1 == agents_)
      (void)machine_.graph().Loop("r", Agent(told), Agent(0), machine_.now());
  }
  void Rounds(std::size_t rounds, double work_s) {
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t at = 0; at < agents_; ++at) Step(at, at, work_s);
    }
  }
  Result Take() {
    Result result = std::exchange(result_, {});
    result.moves = machine_.stats().moves;
    result.moved = machine_.moved();
    return result;
  }

 private:
  VirtualMachine machine_;
  const std::size_t agents_;
  const bool told_;
  Result result_;
};

VirtualMachine::Settings Room(std::size_t contexts, double link = 55e9) {
  VirtualMachine::Settings settings;
  settings.device = contexts * kContext;
  settings.host = 64 * kContext;
  settings.link_bytes_per_s = link;
  return settings;
}

void Circle() {
  fmt::print(
      "a circle of n agents, room for c, 2,000 rounds: share of steps that find their context\n");
  fmt::print("  n   c   lru     graph   (c-1)/(n-1)  graph, prefetch after the first round\n");
  for (const auto& [n, c] : {std::pair<std::size_t, std::size_t>{10, 6}, {10, 9}, {8, 3}}) {
    VirtualMachine::Settings lru = Room(c);
    lru.graph = false;
    VirtualMachine::Settings reactive = Room(c);
    reactive.prefetch = false;
    Ring by_lru(lru, n);
    by_lru.Rounds(2000, 0.5);
    Ring by_graph(reactive, n);
    by_graph.Rounds(2000, 0.5);
    Ring ahead(Room(c), n);
    ahead.Rounds(1, 0.5);
    ahead.Take();
    ahead.Rounds(2000, 0.5);
    const double best = static_cast<double>(c - 1) / static_cast<double>(n - 1);
    const double got = by_graph.Take().hit_ratio();
    const double with_prefetch = ahead.Take().hit_ratio();
    fmt::print("  {:<3} {:<3} {:.4f}  {:.4f}  {:.4f}       {:.4f}\n", n, c,
               by_lru.Take().hit_ratio(), got, best, with_prefetch);
    Hold(std::abs(got - best) <= 0.001, "within 0.001");
    Hold(with_prefetch == 1, "with prefetch every step");
  }
}

void KvFlowShape() {
  for (const double work : {0.64, 0.2}) {
    fmt::print(
        "\n10 agents x 8192 tokens (1 GiB), room for 6, {} s of work a step, 200 rounds:\n"
        "seconds stalled a step (GiB moved a step)\n"
        "  link       lru, reactive    graph, reactive  graph, prefetch\n",
        work);
    for (const double link : {2e9, 12e9, 55e9}) {
      std::string line = fmt::format("  {:>2.0f} GB/s ", link / 1e9);
      std::vector<double> stalls;
      for (int mode = 0; mode < 3; ++mode) {
        VirtualMachine::Settings settings = Room(6, link);
        settings.graph = mode > 0;
        settings.prefetch = mode > 1;
        Ring ring(settings, 10);
        ring.Rounds(200, work);
        const Result result = ring.Take();
        stalls.push_back(result.stall_s());
        line += fmt::format("   {:.4f} ({:.3f})", result.stall_s(),
                            static_cast<double>(result.moved) / static_cast<double>(kContext) /
                                static_cast<double>(result.steps));
      }
      fmt::print("{}\n", line);
      Hold(stalls[1] < stalls[0] && stalls[2] < stalls[1], "each stalls less than the one before");
    }
  }
}

// `lie`: the graph is told one order while the agents run in another.
Result Random(bool graph, bool lie, std::uint64_t seed, int steps) {
  VirtualMachine::Settings settings = Room(6, 12e9);
  settings.graph = graph;
  Ring ring(settings, 10);
  std::mt19937_64 random(seed);
  for (int step = 0; step < steps; ++step) {
    const std::size_t used = random() % 10;
    ring.Step(lie ? static_cast<std::size_t>(step) % 10 : used, used, 0.5);
  }
  return ring.Take();
}

void WrongGraph() {
  fmt::print("\na graph that is wrong: steps come in random order, room for 6 of 10, 12 GB/s\n");
  fmt::print("  seed  told              stall s/step with it, without  cost     bytes moved\n");
  for (const bool lie : {false, true}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const Result with = Random(true, lie, seed, 20'000);
      const Result without = Random(false, lie, seed, 20'000);
      const double cost = with.stall_s() / without.stall_s() - 1;
      const double bytes = static_cast<double>(with.moved) / static_cast<double>(without.moved) - 1;
      fmt::print("  {:<5} {}  {:.4f}  {:.4f}                 {:+.2f} %  {:+.2f} %\n", seed,
                 lie ? "of its own order" : "what happens    ", with.stall_s(), without.stall_s(),
                 cost * 100, bytes * 100);
      Hold(cost <= 0.05, "costs no more than 5 %");
    }
  }
}

void Deterministic() {
  fmt::print(
      "\nwhere the order is certain: of the next steps that are not there, how many come in "
      "time\n");
  fmt::print("  link      needed  in time  late  wasted bytes\n");
  for (const double link : {2e9, 12e9, 55e9}) {
    Ring ring(Room(6, link), 10);
    ring.Rounds(1, 0.64);
    const Result first = ring.Take();
    ring.Rounds(500, 0.64);
    const Result result = ring.Take();
    const auto gib = [](Bytes now, Bytes then) { return (now - then) / kContext; };
    const Bytes useful = gib(result.moves.ahead_useful_bytes, first.moves.ahead_useful_bytes);
    const Bytes late = gib(result.moves.ahead_late_bytes, first.moves.ahead_late_bytes);
    const Bytes wasted = gib(result.moves.ahead_wasted_bytes, first.moves.ahead_wasted_bytes);
    const Bytes begun = gib(result.moves.ahead_bytes, first.moves.ahead_bytes);
    const Bytes missed = result.steps - result.hits;
    const Bytes needed = useful + missed;
    const double in_time = static_cast<double>(useful) / static_cast<double>(needed);
    const double waste = static_cast<double>(wasted) / static_cast<double>(begun);
    fmt::print("  {:>2.0f} GB/s  {:<6}  {:.2f} %  {:<4}  {:.2f} %\n", link / 1e9, needed,
               in_time * 100, late, waste * 100);
    Hold(in_time >= 0.8 && waste <= 0.05, "at least 80 % in time, at most 5 % wasted");
  }
}

// Magentic-One: after the ledger comes the ledger again (.60), the coder (.29) or a tool (.11), and
// then the ledger. After a number of turns other processes take the card.
struct Branching {
  explicit Branching(std::size_t room) : machine(Room(room, 12e9)) {
    for (const std::string& name : names) machine.Set(name, kContext);
    Must(graph.BeginRun("m", {}, now()));
    for (const std::string& name : names) Must(graph.AddStep("m", {name, name}, now()));
    Must(graph.AddEdge("m", {"ledger", "coder", EdgeKind::kForward, 0.29, "next"}, now()));
    Must(graph.AddEdge("m", {"ledger", "tool", EdgeKind::kForward, 0.11, "next"}, now()));
    Must(graph.AddEdge("m", {"ledger", "ledger", EdgeKind::kBack, 0.60, "next"}, now()));
    Must(graph.AddEdge("m", {"coder", "ledger", EdgeKind::kBack}, now()));
    Must(graph.AddEdge("m", {"tool", "ledger", EdgeKind::kBack}, now()));
    for (const std::string& name : names) {
      Must(graph.Bind("m", name, name, KeyKind::kFixed, now()));
    }
  }
  TimePoint now() const { return machine.now(); }
  void Do(const std::string& step) {
    Must(graph.Start("m", step, now()));
    machine.Get(step);
    machine.Work(FromSeconds(1));
  }
  void Turn(double draw) {
    std::vector<std::string> absent;
    for (const char* name : {"coder", "tool"}) {
      if (!machine.OnDevice(name)) absent.emplace_back(name);
    }
    Do("ledger");
    for (const std::string& name : absent) {
      if (!machine.OnDevice(name)) continue;
      ++chosen;
      p_sum += graph.Facts(name, now()).p;
    }
    const std::string next = draw < 0.60 ? "ledger" : draw < 0.89 ? "coder" : "tool";
    Must(graph.Finish("m", "ledger", std::vector<std::string>{next}, now()));
    if (next != "ledger") {
      Do(next);
      Must(graph.Finish("m", next, now()));
    }
    Must(graph.Loop("m", next, "ledger", now()));
  }
  void OthersTakeTheCard() {
    RunOn(machine.core().strand(), [&] {
      bool more = false;
      machine.core().engine().GiveBack(TierId::kDevice, 64 * kContext, now(), &more);
    });
  }

  const std::vector<std::string> names = {"ledger", "coder", "tool"};
  VirtualMachine machine;
  StepGraph& graph = machine.graph();
  std::size_t chosen = 0;
  double p_sum = 0;
};

void Branches() {
  fmt::print(
      "\nbranches as Magentic-One takes them: ledger, then itself .60, coder .29, tool .11\n");
  fmt::print("  room  others come every  chosen  mean p of these  wasted  1 - p\n");
  for (const std::size_t room : {2U, 3U}) {
    for (const int every : {1, 3}) {
      Branching world(room);
      std::mt19937_64 random(11);
      for (int turn = 0; turn < 20'000; ++turn) {
        if (turn % every == 0) world.OthersTakeTheCard();
        world.Turn(static_cast<double>(random() % 10'000) / 10'000);
      }
      world.OthersTakeTheCard();
      const TransferStats transfers = world.machine.stats().moves;
      // The ledger itself is certain. Of prefetches chosen among branches:
      const double wasted = static_cast<double>(transfers.ahead_wasted_bytes / kContext) /
                            static_cast<double>(world.chosen);
      const double p = world.p_sum / static_cast<double>(world.chosen);
      fmt::print("  {:<5} {:<18} {:<7} {:.3f}            {:.3f}   {:.3f}\n", room, every,
                 world.chosen, p, wasted, 1 - p);
      // Two standard deviations for that many draws.
      const double noise = 2 * std::sqrt(p * (1 - p) / static_cast<double>(world.chosen));
      Hold(wasted <= 1 - p + noise, "wastes no more than 1 - p of what it chose");
    }
  }
}

}  // namespace
}  // namespace spillway::bench

int main() {
  using namespace spillway::bench;
  Circle();
  Deterministic();
  Branches();
  WrongGraph();
  KvFlowShape();
  return all_held ? 0 : 1;
}
