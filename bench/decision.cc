// What one decision costs among a million entries: who leaves, so that one more
// can enter. Without a graph, with one that knows nobody, and with 10,000 live
// steps whose keys are in the cache; and one state change of these followed by
// 100 victims. A set does all it does besides: both sides are whole sets.
#include <random>
#include <vector>

#include <fmt/format.h>

#include "bench/support/measure.h"
#include "bench/support/report.h"
#include "cache/core.h"
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
  World(std::size_t entry_count, int run_count, int step_count, bool with_graph)
      : entries(entry_count), runs(run_count), steps(step_count) {
    Options options;
    options.policy = "lru";
    options.ttl.reset();
    options.token_budget.reset();
    Core::Parts parts;
    parts.tiers.device = std::make_unique<VirtualTier>(entries * kEntry);
    parts.total = entries * kEntry;
    auto opened = Core::Open(options, std::move(parts));
    if (!opened) Stop(opened.error().message);
    core = std::move(*opened);
    if (with_graph) core->Attach(graph, {});
    // Those of the runs lie between the others.
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
  void Next() { Set(fmt::format("k{}", next_++)); }

  const std::size_t entries;
  const int runs;
  const int steps;
  const std::shared_ptr<StepGraph> graph = std::make_shared<StepGraph>();
  std::shared_ptr<Core> core;

 private:
  std::vector<int> at_;
  std::uint64_t next_ = 0;
};

double PerSet(World* world, std::size_t sets) {
  const double start = ThreadCpuSeconds();
  for (std::size_t i = 0; i < sets; ++i) world->Next();
  return (ThreadCpuSeconds() - start) / static_cast<double>(sets) * 1e9;
}

int Main(int argc, char** argv) {
  const Settings settings = ParseArguments(argc, argv, "decisions");
  const std::size_t entries = settings.quick ? 50'000 : 1'000'000;
  const std::size_t sets = settings.quick ? 20'000 : 200'000;
  Report report(settings);
  report.Begin("decision");
  report.Table(fmt::format("{} entries, each set lets one leave", entries),
               {"graph", "ns a set", "more than without, ns"});
  World none(entries, 0, 0, false);
  World idle(entries, 0, 0, true);
  World live(entries, 100, 100, true);
  std::vector<double> of_none, of_idle, of_live;
  for (int turn = 0; turn < 5; ++turn) {
    of_none.push_back(PerSet(&none, sets / 5));
    of_idle.push_back(PerSet(&idle, sets / 5));
    of_live.push_back(PerSet(&live, sets / 5));
  }
  const auto row = [&](const char* what, const std::vector<double>& ns) {
    report.Row({what, fmt::format("{:.0f}", Median(ns)),
                fmt::format("{:.0f}", Median(ns) - Median(of_none))});
  };
  row("none", of_none);
  row("attached, no live run", of_idle);
  row("10,000 live steps, their keys here", of_live);
  report.Add(
      {"a set with its victim, 10,000 live steps", Median(of_live) / 1000, 2, 0, false, "us"});

  std::vector<double> change;
  std::vector<double> hundred;
  std::mt19937_64 random(7);
  for (int event = 0; event < (settings.quick ? 100 : 1000); ++event) {
    const double start = ThreadCpuSeconds();
    live.Advance(static_cast<int>(random() % 100));
    const double changed = ThreadCpuSeconds();
    for (std::size_t i = 0; i < kVictims; ++i) live.Next();
    change.push_back((changed - start) * 1e9);
    hundred.push_back((ThreadCpuSeconds() - start) * 1e9);
  }
  report.Table("one state change of 10,000 live steps, heard, and 100 sets with a victim each",
               {"", "median us"});
  report.Row({"the change, heard by the cache", fmt::format("{:.1f}", Median(change) / 1000)});
  report.Row({"with 100 victims", fmt::format("{:.1f}", Median(hundred) / 1000)});
  report.Add({"change + 100 victims, median", Median(hundred) / 1e6, 1, 0, false, "ms"});
  report.End();
  return 0;
}

}  // namespace
}  // namespace spillway::bench

int main(int argc, char** argv) { return spillway::bench::Main(argc, argv); }
