// SPDX-License-Identifier: Apache-2.0
// server_sim: draws worlds from seeds, runs the daemon in them, and holds every reply
// against a model of Redis.
//
//   server_sim --seeds 2000                     all of them
//   server_sim --seed 17 --verbose              one, told event by event
//   server_sim --mutant all                     does it see planted bugs?
//   server_sim --seeds 100 --without multi,crash   not all that may be drawn
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "serversim/mutants.h"
#include "serversim/plan.h"

namespace {

using spillway::Mutant;
using spillway::sim::Failure;
using spillway::sim::RunOptions;
using spillway::sim::RunResult;
namespace serversim = spillway::serversim;
using Names = std::set<std::string>;
using PlantedBugs = std::vector<serversim::PlantedBug>;

void Print(const Failure& failure, const RunOptions& options) {
  const std::string_view mutant = serversim::Name(options.mutant);
  fmt::print("FAILED seed {} event {}: {}: {}\n  replay: server_sim --seed {} --events {}{}\n",
             failure.seed, failure.event,
             failure.invariant == 0
                 ? "stopped"
                 : fmt::format("invariant {} (ARCHITECTURE.md, What must hold)", failure.invariant),
             failure.what, failure.seed, options.events,
             mutant.empty() ? "" : fmt::format(" --mutant {}", mutant));
}

// By how many of its seeds each planted bug is caught.
int PrintRates(RunOptions options, const Names& without, const PlantedBugs& bugs) {
  options.quiet = true;
  fmt::print("{:24} {:>6} {:>9}\n", "mutant", "seeds", "caught by");
  int missed = 0;
  for (const serversim::PlantedBug& bug : bugs) {
    RunOptions one = options;
    one.mutant = bug.mutant;
    if (one.seeds == 0) one.seeds = bug.seeds;
    const RunResult result = serversim::RunSeeds(one, without);
    missed += result.failures.empty() ? 1 : 0;
    fmt::print("{:24} {:>6} {:>9}\n", bug.name, result.seeds, result.failures.size());
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

int RunMutants(RunOptions options, const Names& without, const PlantedBugs& bugs) {
  options.stop_at_failure = true;
  options.quiet = true;
  options.jobs = 1;  // So that the number of seeds it took is the same each time.
  int missed = 0;
  fmt::print("{:24} {:>5} {:>7}  caught by\n", "mutant", "seeds", "event");
  for (const serversim::PlantedBug& bug : bugs) {
    RunOptions one = options;
    one.mutant = bug.mutant;
    if (one.seeds == 0) one.seeds = bug.seeds;
    const RunResult result = serversim::RunSeeds(one, without);
    if (result.failures.empty()) {
      ++missed;
      fmt::print("{:24} {:>5}          NOT CAUGHT\n", bug.name, result.seeds);
      continue;
    }
    const Failure& failure = result.failures.front();
    fmt::print("{:24} {:>5} {:>7}  {}: {}\n", bug.name, failure.seed - one.first + 1, failure.event,
               failure.invariant, failure.what);
    std::fflush(stdout);
  }
  fmt::print("{} of {} planted bugs are caught\n", bugs.size() - static_cast<std::size_t>(missed),
             bugs.size());
  return missed == 0 ? 0 : 1;
}

int RunAll(const RunOptions& options, const Names& without, bool fingerprints, bool digest) {
  const RunResult result = serversim::RunSeeds(options, without);
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
  CLI::App app("Simulated worlds for the whole daemon: same seed, same events.");
  RunOptions options;
  options.seeds = 0;
  options.events = 4000;
  std::optional<std::uint64_t> seed;
  std::string mutant;
  std::vector<std::string> left_out;
  bool list = false;
  bool rates = false;
  bool fingerprints = false;
  bool digest = false;
  bool verbose = false;
  app.add_option("--seeds", options.seeds,
                 "how many worlds; 100, and with --mutant as many as each needs");
  app.add_option("--events", options.events, "how many events in each");
  app.add_option("--first", options.first, "the first seed");
  app.add_option("--jobs", options.jobs, "processes; 0: one per core");
  app.add_option("--seed", seed, "replay this one in this process");
  app.add_option("--mutant", mutant, "with this planted bug, or 'all' one after another");
  app.add_option("--without", left_out,
                 "names of commands, and of multi, large, faults, crash, restart, disconnect and "
                 "network, that are not drawn")
      ->delimiter(',');
  app.add_flag("--rates", rates, "with --mutant: how many of its seeds catch it");
  app.add_flag("--list-mutants", list);
  app.add_flag("--fingerprints", fingerprints, "print each seed's");
  app.add_flag("--digest", digest, "print one number for the events of all seeds, and no time");
  app.add_flag("--verbose", verbose, "with --seed: tell every event");
  CLI11_PARSE(app, argc, argv);

  const Names without(left_out.begin(), left_out.end());
  PlantedBugs bugs;
  for (const serversim::PlantedBug& bug : serversim::PlantedBugs()) {
    if (list) fmt::print("{:24} {}\n", bug.name, bug.breaks);
    if (mutant == "all" || mutant == bug.name) bugs.push_back(bug);
  }
  if (list) return 0;
  if (!mutant.empty() && bugs.empty()) {
    fmt::print(stderr, "no mutant is called '{}'; --list-mutants names them\n", mutant);
    return 2;
  }
  if (seed) {
    options.mutant = bugs.empty() ? Mutant::kNone : bugs.front().mutant;
    Failure failure;
    std::uint64_t fingerprint = 0;
    fmt::print("{}", serversim::Plan::Draw(*seed, without).Describe());
    const bool ok = serversim::RunOne(*seed, options.events, options.mutant, verbose, without,
                                      &failure, &fingerprint);
    if (!ok) Print(failure, options);
    fmt::print("seed {}: {}, fingerprint {:016x}\n", *seed, ok ? "ok" : "failed", fingerprint);
    return ok ? 0 : 1;
  }
  if (!bugs.empty()) return (rates ? PrintRates : RunMutants)(options, without, bugs);
  if (options.seeds == 0) options.seeds = 100;
  return RunAll(options, without, fingerprints, digest);
}
