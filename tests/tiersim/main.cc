// SPDX-License-Identifier: Apache-2.0
// spillway_tiersim: draws worlds of several tiers from seeds and checks that the cache
// does what must hold.
//
//   spillway_tiersim --seeds 2000 --events 5000      all of them
//   spillway_tiersim --seed 17 --verbose             one, printed event by event
//   spillway_tiersim --mutant all                    does it find planted bugs?
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tiersim/mutants.h"
#include "tiersim/plan.h"

namespace {

using spillway::kFirstIndexMutant;
using spillway::kFirstTierMutant;
using spillway::Mutant;
using spillway::sim::Failure;
using spillway::sim::RunOptions;
using spillway::sim::RunResult;
namespace tiersim = spillway::tiersim;

void Print(const Failure& failure, const RunOptions& options) {
  const std::string_view mutant = tiersim::Name(options.mutant);
  fmt::print(
      "FAILED seed {} event {}: {}: {}\n  replay: spillway_tiersim --seed {} --events {}{}\n",
      failure.seed, failure.event,
      failure.invariant == 0
          ? "stopped"
          : fmt::format("invariant {} (ARCHITECTURE.md, What must hold)", failure.invariant),
      failure.what, failure.seed, options.events,
      mutant.empty() ? "" : fmt::format(" --mutant {}", mutant));
}

int RunMutants(RunOptions options, const std::vector<Mutant>& mutants) {
  options.stop_at_failure = true;
  options.quiet = true;
  options.jobs = 1;  // So that the number of seeds is the same each time.
  int missed = 0;
  fmt::print("{:24} {:>4}  {:>5} {:>7}  caught by\n", "mutant", "line", "seeds", "event");
  for (const Mutant mutant : mutants) {
    options.mutant = mutant;
    const RunResult result = tiersim::RunSeeds(options);
    if (result.failures.empty()) {
      ++missed;
      fmt::print("{:24} {:>4}  {:>5}          NOT CAUGHT\n", tiersim::Name(mutant),
                 tiersim::InvariantOf(mutant), result.seeds);
      continue;
    }
    const Failure& failure = result.failures.front();
    fmt::print("{:24} {:>4}  {:>5} {:>7}  {}: {}\n", tiersim::Name(mutant),
               tiersim::InvariantOf(mutant), failure.seed - options.first + 1, failure.event,
               failure.invariant, failure.what);
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

int RunAll(const RunOptions& options, bool fingerprints, bool digest) {
  const RunResult result = tiersim::RunSeeds(options);
  if (fingerprints) {
    for (std::size_t i = 0; i < result.fingerprints.size(); ++i) {
      fmt::print("{} {:016x}\n", options.first + i, result.fingerprints[i]);
    }
  }
  for (const Failure& failure : result.failures) Print(failure, options);
  if (digest) {
    fmt::print("digest {:016x}\n", spillway::sim::DigestOf(result));
    return result.failures.empty() ? 0 : 1;
  }
  fmt::print(
      "{} seeds x {} events, {} seeds run twice with equal events\n"
      "{} failures; {:.1f} s, {:.1f} seeds/s, {:.0f} events/s\n",
      result.seeds, options.events, result.twice, result.failures.size(), result.seconds,
      static_cast<double>(result.seeds) / result.seconds,
      static_cast<double>(result.events) / result.seconds);
  return result.failures.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulated worlds for a cache of several tiers: same seed, same events.");
  RunOptions options;
  options.seeds = 100;
  options.events = 5000;
  std::optional<std::uint64_t> seed;
  std::string mutant;
  bool list = false;
  bool fingerprints = false;
  bool digest = false;
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
  app.add_flag("--verbose", verbose, "with --seed: tell every event");
  CLI11_PARSE(app, argc, argv);
  // Some planted bugs need a rare world.
  if (!mutant.empty() && app.count("--seeds") == 0) options.seeds = 400;

  std::vector<Mutant> mutants;
  for (int i = static_cast<int>(kFirstTierMutant); i < static_cast<int>(kFirstIndexMutant); ++i) {
    const auto one = static_cast<Mutant>(i);
    if (list) fmt::print("{:24} breaks line {}\n", tiersim::Name(one), tiersim::InvariantOf(one));
    if (mutant == "all" || mutant == tiersim::Name(one)) mutants.push_back(one);
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
    fmt::print("{}", tiersim::Plan::Draw(*seed).Describe());
    const bool ok =
        tiersim::RunOne(*seed, options.events, options.mutant, verbose, &failure, &fingerprint);
    if (!ok) Print(failure, options);
    fmt::print("seed {}: {}, fingerprint {:016x}\n", *seed, ok ? "ok" : "failed", fingerprint);
    return ok ? 0 : 1;
  }
  if (!mutants.empty()) return RunMutants(options, mutants);
  return RunAll(options, fingerprints, digest);
}
