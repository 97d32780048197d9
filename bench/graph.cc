// SPDX-License-Identifier: Apache-2.0
// The step graph with 10,000 live steps and as many keys: one state change (a step starts or
// finishes) plus the 100 keys to evict first, in the shapes that cost least and most; and the cost
// of the same queries with no run attached. docs/reference/step-graph.md has the figures.
#include <algorithm>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "bench/support/measure.h"
#include "bench/support/report.h"
#include "spillway/step_graph.h"

namespace spillway::bench {
namespace {

constexpr std::size_t kVictims = 100;

[[noreturn]] void Stop(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}

void Must(const Status& status) {
  if (!status) Stop(status.error().message);
}

// `runs` runs of `steps` steps each: chains with a loop, and a join of two branches at every tenth
// step. Every step has an agent and a key of its own.
struct World {
  World(int run_count, int step_count) : runs(run_count), steps(step_count) {
    for (int run = 0; run < runs; ++run) Build(run);
  }

  static std::string Run(int run) { return fmt::format("run{}", run); }
  static std::string Step(int step) { return fmt::format("step{}", step); }

  void Build(int run) {
    const std::string name = Run(run);
    Must(graph.BeginRun(name, {name, "bench"}, now));
    for (int step = 0; step < steps; ++step) {
      Must(graph.AddStep(name, {Step(step), Step(step)}, now));
      Must(graph.Bind(name, Step(step), fmt::format("{}:{}", name, step), KeyKind::kFixed, now));
      if (step > 0) Must(graph.AddEdge(name, {Step(step - 1), Step(step)}, now));
      if (step % 10 == 9) Must(graph.AddEdge(name, {Step(step - 9), Step(step)}, now));
    }
    Must(graph.AddEdge(name, {Step(steps - 1), Step(0), EdgeKind::kBack}, now));
    at.push_back(0);
  }

  // The next event of that run.
  void Advance(int run) {
    int& half = at[static_cast<std::size_t>(run)];  // Two events per step.
    const std::string step = Step(half / 2);
    Must(half % 2 == 0 ? graph.Start(Run(run), step, now) : graph.Finish(Run(run), step, now));
    half = (half + 1) % (2 * steps);
  }

  const int runs;
  const int steps;
  StepGraph graph;
  TimePoint now = TimePoint(std::chrono::seconds(1));
  std::vector<int> at;
};

using Stamp = double (*)();  // Seconds.

struct Times {
  std::vector<double> change;   // With its 100 victims, ns.
  std::vector<double> refresh;  // The same, when time has advanced by a tick.
  std::vector<double> facts;
};

double Quantile(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1))];
}

// Time stands still except at every 50th event, when all running steps are evaluated again.
Times Measure(World* world, int events, Stamp stamp) {
  Times times;
  std::mt19937_64 random(7);
  for (int event = -events / 10; event < events; ++event) {
    const int run = static_cast<int>(random() % static_cast<unsigned>(world->runs));
    const bool tick = event % 50 == 0;
    if (tick) world->now += std::chrono::seconds(1);
    const double start = stamp();
    world->Advance(run);
    const auto victims = world->graph.eviction_order(kVictims, world->now);
    const double end = stamp();
    if (victims.size() != kVictims) Stop("too few victims");
    const KeyFacts facts = world->graph.Facts(victims.back(), world->now);
    const double asked = stamp();
    if (!facts.known) Stop("a victim nobody knows");
    if (event < 0) continue;
    (tick ? times.refresh : times.change).push_back((end - start) * 1e9);
    times.facts.push_back((asked - end) * 1e9);
  }
  return times;
}

std::string Micro(double ns) { return fmt::format("{:.1f}", ns / 1000); }

void MeasureShape(const char* what, int runs, int steps, const Settings& settings, Report* report) {
  World world(runs, steps);
  const std::uint64_t before = world.graph.stats().evaluations;
  const int events = settings.quick ? 200 : 5'000;
  const Times times = Measure(&world, events, settings.cpu_time ? ThreadCpuSeconds : Now);
  const double looked =
      static_cast<double>(world.graph.stats().evaluations - before) / (events * 1.1);
  report->Row({what, Micro(Quantile(times.change, 0.5)), Micro(Quantile(times.change, 0.99)),
               Micro(Quantile(times.refresh, 0.5)), fmt::format("{:.0f}", looked),
               fmt::format("{:.0f}", Quantile(times.facts, 0.5))});
  report->data()[what] = {
      {"change_ns", times.change}, {"refresh_ns", times.refresh}, {"facts_ns", times.facts}};
  report->Add({fmt::format("{}: change + 100 victims, median", what),
               Quantile(times.change, 0.5) / 1e6, 1, 0, false, "ms"});
}

void MeasureNone(const Settings& settings, Report* report) {
  const StepGraph graph;
  const Stamp stamp = settings.cpu_time ? ThreadCpuSeconds : Now;
  const TimePoint now = TimePoint(std::chrono::seconds(1));
  std::vector<double> order;
  std::vector<double> facts;
  for (int i = 0; i < (settings.quick ? 200 : 20'000); ++i) {
    const double start = stamp();
    if (!graph.eviction_order(kVictims, now).empty()) Stop("victims out of nowhere");
    const double ordered = stamp();
    if (graph.Facts("key", now).known) Stop("a key out of nowhere");
    facts.push_back((stamp() - ordered) * 1e9);
    order.push_back((ordered - start) * 1e9);
  }
  report->Row({"no run attached", Micro(Quantile(order, 0.5)), Micro(Quantile(order, 0.99)), "-",
               "0", fmt::format("{:.0f}", Quantile(facts, 0.5))});
}

int Main(int argc, char** argv) {
  const Settings settings = ParseArguments(argc, argv, "the step graph");
  Report report(settings);
  report.Begin("graph");
  report.Table("10,000 live steps and keys: one state change + 100 victims",
               {"shape", "median us", "p99 us", "with a tick, us", "steps looked at", "facts, ns"});
  MeasureShape("100 runs of 100 steps", 100, 100, settings, &report);
  MeasureShape("1,000 runs of 10 steps", 1000, 10, settings, &report);
  MeasureShape("1 run of 10,000 steps", 1, 10'000, settings, &report);
  MeasureNone(settings, &report);
  report.Note("One run in a row is the worst there is: all that follows moves with each step.");
  report.End();
  return 0;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) { return spillway::bench::Main(argc, argv); }
