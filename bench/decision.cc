// SPDX-License-Identifier: Apache-2.0
// The cost of one eviction decision among a million entries. Without a graph; with a graph that
// knows none of them; and with 10,000 live steps whose keys are in the cache, in a hundred runs and
// in one long run; with LRU and with the learned score; and one state change of the graph followed
// by 100 evictions. Measured are whole sets that evict one entry each, and sets for which there is
// room; the difference is the decision and the eviction. Every eighth set is followed by a read, so
// that there is something to learn. Time advances by 50 us with each.
#include <random>
#include <vector>

#include <fmt/format.h>

#include "bench/support/measure.h"
#include "bench/support/report.h"
#include "cache/core.h"
#include "spillway/testing.h"
#include "tier/virtual_tier.h"

namespace spillway::bench {
namespace {

constexpr Bytes kEntry = 4096;
constexpr std::size_t kVictims = 100;

[[noreturn]] void Stop(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}
void Must(const Status& status) {
  if (!status) Stop(status.error().message);
}

struct World {
  World(std::string_view policy, std::size_t entry_count, int run_count, int step_count,
        bool with_graph)
      : entries(entry_count), runs(run_count), steps(step_count) {
    Options options;
    options.policy = policy;
    options.clock = clock;
    options.ttl.reset();
    options.token_budget.reset();
    Core::Parts parts;
    parts.tiers.device = std::make_unique<VirtualTier>(entries * kEntry);
    parts.total = entries * kEntry;
    auto opened = Core::Open(options, std::move(parts));
    if (!opened) Stop(opened.error().message);
    core = std::move(*opened);
    if (with_graph) core->Attach(graph, {});
    // Keys of the runs are spread among the others.
    const auto every = entries / static_cast<std::size_t>(std::max(runs * steps, 1));
    std::size_t bound = 0;
    for (std::size_t at = 0; at < entries; ++at) {
      const bool of_run =
          runs > 0 && at % every == 0 && bound < static_cast<std::size_t>(runs * steps);
      of_run ? Set(Key(static_cast<int>(bound) / steps, static_cast<int>(bound) % steps)) : Next();
      bound += of_run ? 1 : 0;
    }
    for (int run = 0; run < runs; ++run) Build(run);
    if (runs > 0) Advance(0);
  }
  ~World() { (void)core->Close(); }

  static std::string Run(int run) { return fmt::format("run{}", run); }
  static std::string Step(int step) { return fmt::format("step{}", step); }
  static std::string Key(int run, int step) { return fmt::format("{}:{}", run, step); }
  TimePoint now() const { return core->clock().Now(); }

  void Build(int run) {
    const std::string name = Run(run);
    Must(graph->BeginRun(name, {name, "bench"}, now()));
    for (int step = 0; step < steps; ++step) {
      Must(graph->AddStep(name, {Step(step), Step(step), Join::kAll, 0, 1000.0}, now()));
      if (step > 0) Must(graph->AddEdge(name, {Step(step - 1), Step(step)}, now()));
    }
    Must(graph->AddEdge(name, {Step(steps - 1), Step(0), EdgeKind::kBack}, now()));
    for (int step = 0; step < steps; ++step) {
      Must(graph->Bind(name, Step(step), Key(run, step), KeyKind::kFixed, now()));
    }
    at_.push_back(0);
  }
  void Advance(int run) {
    int& half = at_[static_cast<std::size_t>(run)];
    const std::string step = Step(half / 2);
    if (half % 2 == 0) {
      Must(graph->Start(Run(run), step, now()));
    } else {
      Must(graph->Finish(Run(run), step, now()));
      if (half / 2 + 1 == steps) Must(graph->Loop(Run(run), step, Step(0), now()));
    }
    half = (half + 1) % (2 * steps);
  }
  void Set(std::string_view key) {
    static constexpr char kByte = 0;
    Must(core->Set(key, Source(&kByte, kEntry), {}));
  }
  void Next() {
    clock->Advance(std::chrono::microseconds(50));
    Set(fmt::format("k{}", next_++));
    if (next_ % 8 != 0) return;
    // One of the later half, most of which are in the cache.
    Lease lease;
    (void)core->Get(fmt::format("k{}", next_ - 1 - random_() % (1 + std::min(next_ - 1, half()))),
                    &lease);
  }
  std::uint64_t half() const { return entries / 2; }
  // Spread among the later ones.
  void EraseSome(std::size_t count) {
    constexpr std::uint64_t kEvery = 7;
    for (std::uint64_t at = next_; count > 0 && at > kEvery; at -= kEvery) {
      count -= core->Erase(fmt::format("k{}", at)) ? 1 : 0;
    }
  }

  const std::size_t entries;
  const int runs;
  const int steps;
  const std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
  const std::shared_ptr<StepGraph> graph = std::make_shared<StepGraph>();
  std::shared_ptr<Core> core;

 private:
  std::vector<int> at_;
  std::uint64_t next_ = 0;
  std::mt19937_64 random_{3};
};

double PerSet(World* world, std::size_t sets) {
  const double start = ThreadCpuSeconds();
  for (std::size_t i = 0; i < sets; ++i) world->Next();
  return (ThreadCpuSeconds() - start) / static_cast<double>(sets) * 1e9;
}

// The same with room, since an entry is erased first. The difference to the above is the cost of
// choosing one of a million entries and evicting it.
double PerSetInRoom(World* world, std::size_t sets) {
  const std::size_t room = std::min(sets, world->entries / 10);
  world->EraseSome(room);
  return PerSet(world, room);
}

struct Case {
  const char* what;
  std::string_view policy;
  int runs;
  int steps;
  bool graph;
};
constexpr Case kCases[] = {
    {"lru, no graph", "lru", 0, 0, false},
    {"lru, attached, no live run", "lru", 0, 0, true},
    {"lru, 100 runs of 100 live steps", "lru", 100, 100, true},
    {"lru, one run of 10,000 live steps", "lru", 1, 10'000, true},
    {"score, no graph", "score", 0, 0, false},
    {"score, one run of 10,000 live steps", "score", 1, 10'000, true},
};

// One state change, then 100 sets with an eviction each.
std::pair<double, double> Changes(World* world, int events) {
  std::vector<double> change;
  std::vector<double> hundred;
  std::mt19937_64 random(7);
  for (int event = 0; event < events; ++event) {
    const double start = ThreadCpuSeconds();
    world->Advance(static_cast<int>(random() % static_cast<std::uint64_t>(world->runs)));
    const double changed = ThreadCpuSeconds();
    for (std::size_t i = 0; i < kVictims; ++i) world->Next();
    change.push_back((changed - start) * 1e6);
    hundred.push_back((ThreadCpuSeconds() - start) * 1e6);
  }
  return {Median(change), Median(hundred)};
}

int Main(int argc, char** argv) {
  const Settings settings = ParseArguments(argc, argv, "decisions");
  const std::size_t entries = settings.quick ? 50'000 : 1'000'000;
  const std::size_t sets = settings.quick ? 50'000 : 1'000'000;
  Report report(settings);
  report.Begin("decision");
  report.Table(fmt::format("{} entries, each set lets one leave", entries),
               {"order", "ns a set", "where there is room", "the decision, ns", "change, us",
                "change + 100 victims, us"});
  for (const Case& each : kCases) {
    World world(each.policy, entries, each.runs, each.steps, each.graph);
    (void)PerSet(&world, sets);  // All initial entries have been evicted.
    std::vector<double> ns;
    for (int turn = 0; turn < 5; ++turn) ns.push_back(PerSet(&world, sets / 5));
    const double median = Median(ns);
    std::vector<double> in_room;
    for (int turn = 0; turn < 5; ++turn) in_room.push_back(PerSetInRoom(&world, sets / 5));
    const double decision = median - Median(in_room);
    std::string change = "-";
    std::string hundred = "-";
    if (each.runs > 0) {
      const auto [one, with] = Changes(&world, settings.quick ? 50 : 500);
      change = fmt::format("{:.1f}", one);
      hundred = fmt::format("{:.1f}", with);
      report.Add(
          {fmt::format("change + 100 victims, {}", each.what), with / 1000, 1, 0, false, "ms"});
    }
    const bool leads = each.policy != "score" || world.core->stats().score.active;
    report.Row({fmt::format("{}{}", each.what, leads ? "" : " (by last use!)"),
                fmt::format("{:.0f}", median), fmt::format("{:.0f}", Median(in_room)),
                fmt::format("{:.0f}", decision), change, hundred});
    report.Add({fmt::format("one decision, {}", each.what), decision / 1000, 2, 0, false, "us"});
  }
  report.End();
  return 0;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) { return spillway::bench::Main(argc, argv); }
