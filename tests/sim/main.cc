// SPDX-License-Identifier: Apache-2.0
// spillway_sim: draws worlds from seeds and checks that the cache does what must hold.
//
//   spillway_sim --seeds 2000 --events 20000          all of them
//   spillway_sim --seed 17 --events 20000             one, told event by event
//   spillway_sim --mutant all                         does it find planted bugs?
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/plan.h"
#include "sim/runner.h"

namespace {

using namespace spillway;       // NOLINT(google-build-using-namespace)
using namespace spillway::sim;  // NOLINT(google-build-using-namespace)

std::string MutantFlag(Mutant mutant) {
  return mutant == Mutant::kNone ? "" : fmt::format(" --mutant {}", sim::Name(mutant));
}

void Print(const Failure& failure, const RunOptions& options) {
  fmt::print("FAILED seed {} event {}: {}: {}\n  replay: spillway_sim --seed {} --events {}{}\n",
             failure.seed, failure.event,
             failure.invariant == 0
                 ? "stopped"
                 : fmt::format("invariant {} (ARCHITECTURE.md, What must hold)", failure.invariant),
             failure.what, failure.seed, options.events, MutantFlag(options.mutant));
}

int RunMutants(RunOptions options, const std::vector<Mutant>& mutants) {
  options.stop_at_failure = true;
  options.quiet = true;
  options.jobs = 1;  // So that the number of seeds is the same each time.
  int missed = 0;
  fmt::print("{:22} {:>4}  {:>5} {:>7}  caught by\n", "mutant", "line", "seeds", "event");
  for (const Mutant mutant : mutants) {
    options.mutant = mutant;
    const RunResult result = RunSeeds(options);
    if (result.failures.empty()) {
      ++missed;
      fmt::print("{:22} {:>4}  {:>5}          NOT CAUGHT\n", sim::Name(mutant), InvariantOf(mutant),
                 result.seeds);
      continue;
    }
    const Failure& failure = result.failures.front();
    fmt::print("{:22} {:>4}  {:>5} {:>7}  {}: {}\n", sim::Name(mutant), InvariantOf(mutant),
               failure.seed - options.first + 1, failure.event, failure.invariant, failure.what);
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

int RunAll(const RunOptions& options, bool fingerprints, bool digest, bool coverage) {
  const RunResult result = RunSeeds(options);
  if (fingerprints) {
    for (std::size_t i = 0; i < result.fingerprints.size(); ++i) {
      fmt::print("{} {:016x}\n", options.first + i, result.fingerprints[i]);
    }
  }
  const bool is_long = options.seeds * options.events >= 40'000'000;
  if (coverage || is_long) fmt::print("{}", result.coverage.Print());
  for (const Failure& failure : result.failures) Print(failure, options);
  if (digest) {
    fmt::print("digest {:016x}\n", spillway::sim::DigestOf(result));
    return result.failures.empty() ? 0 : 1;
  }
  fmt::print(
      "{} seeds x {} events, {} seeds run twice with equal events, {:.1f} % of the seeds held over "
      "1,000 entries, {} pairs of level, act, fault and lease missing\n"
      "{} failures; {:.1f} s, {:.1f} seeds/s, {:.0f} events/s\n",
      result.seeds, options.events, result.twice,
      100.0 * static_cast<double>(result.large) /
          static_cast<double>(std::max<std::uint64_t>(result.seeds, 1)),
      result.coverage.MissingPairs(), result.failures.size(), result.seconds,
      static_cast<double>(result.seeds) / result.seconds,
      static_cast<double>(result.events) / result.seconds);
  // Few or short worlds need not have covered everything.
  const bool trivial =
      is_long && (result.coverage.MissingPairs() > 0 || result.large * 10 < result.seeds);
  if (trivial) fmt::print("the worlds are too trivial: see --coverage\n");
  return result.failures.empty() && !trivial ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulated worlds for the cache: same seed, same events.");
  RunOptions options;
  options.seeds = 100;
  std::optional<std::uint64_t> seed;
  std::string mutant;
  bool list = false;
  bool fingerprints = false;
  bool digest = false;
  bool coverage = false;
  bool verbose = false;
  app.add_option("--seeds", options.seeds, "how many worlds");
  app.add_option("--events", options.events, "how many events in each");
  app.add_option("--first", options.first, "the first seed");
  app.add_option("--jobs", options.jobs, "processes; 0: one per core");
  app.add_option("--seed", seed, "replay this one in this process");
  app.add_option("--mutant", mutant, "with this planted bug, or 'all' one after another");
  app.add_flag("--list-mutants", list);
  app.add_flag("--fingerprints", fingerprints, "print each seed's");
  app.add_flag("--digest", digest, "print one number for the events of all seeds, and no time");
  app.add_flag("--coverage", coverage, "print what occurred together");
  app.add_flag("--verbose", verbose, "with --seed: tell every event");
  CLI11_PARSE(app, argc, argv);

  std::vector<Mutant> mutants;
  for (int i = 1; i < static_cast<int>(kFirstTierMutant); ++i) {
    const auto one = static_cast<Mutant>(i);
    if (list) fmt::print("{:22} breaks line {}\n", sim::Name(one), InvariantOf(one));
    if (mutant == "all" || mutant == sim::Name(one)) mutants.push_back(one);
  }
  if (list) return 0;
  if (!mutant.empty() && mutants.empty()) {
    fmt::print(stderr, "no mutant is called '{}'; --list-mutants names them\n", mutant);
    return 2;
  }
  if (seed) {
    options.mutant = mutants.empty() ? Mutant::kNone : mutants.front();
    Failure failure;
    std::uint64_t fingerprint = 0;
    std::size_t most_live = 0;
    fmt::print("{}", Plan::Draw(*seed).Describe());
    const bool ok =
        RunOne(*seed, options.events, options.mutant, verbose, &failure, &fingerprint, &most_live);
    if (!ok) Print(failure, options);
    fmt::print("seed {}: {}, at most {} entries, fingerprint {:016x}\n", *seed,
               ok ? "ok" : "failed", most_live, fingerprint);
    return ok ? 0 : 1;
  }
  if (!mutants.empty()) return RunMutants(options, mutants);
  return RunAll(options, fingerprints, digest, coverage);
}
