// SPDX-License-Identifier: Apache-2.0
// Runs many worlds in several processes: a world that breaks the program
// breaks only its process, and is reported like any other failure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/mutant.h"
#include "sim/coverage.h"
#include "sim/verdict.h"

namespace spillway::sim {

struct RunOptions {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1;
  std::uint64_t events = 20000;
  unsigned jobs = 0;  // 0: as many as there are cores.
  Mutant mutant = Mutant::kNone;
  bool stop_at_failure = false;
  bool quiet = false;  // The output of a dying process is not shown.
};

struct Failure {
  std::uint64_t seed = 0;
  std::uint64_t event = 0;
  int invariant = 0;  // Line of ARCHITECTURE.md, "What must hold"; 0: the program stopped.
  std::string what;
};

struct RunResult {
  std::uint64_t seeds = 0;   // Without second runs.
  std::uint64_t events = 0;  // With second runs.
  std::uint64_t twice = 0;   // Seeds run a second time.
  std::uint64_t large = 0;   // Seeds with over 1,000 live entries at some time.
  double seconds = 0;
  std::vector<Failure> failures;
  std::vector<std::uint64_t> fingerprints;  // By seed.
  Coverage coverage;
};

// One number for the events of all seeds: a change of the code that leaves every event
// as it was leaves the number, too. No text goes into it.
std::uint64_t DigestOf(const RunResult& result);

// Runs one world from start to end. `coverage` may be null; `told` is called with a
// failure at once.
using Live = std::function<Outcome(std::uint64_t seed, std::uint64_t events, Coverage* coverage,
                                   const std::function<void(const Verdict&)>& told)>;
RunResult RunSeeds(const RunOptions& options, const Live& live);
// With the worlds of one tier.
RunResult RunSeeds(const RunOptions& options);
// One seed in this process; `verbose` prints every event.
bool RunOne(std::uint64_t seed, std::uint64_t events, Mutant mutant, bool verbose, Failure* failure,
            std::uint64_t* fingerprint, std::size_t* most_live);

// "kEvictsLeased" without the k; all of them by number.
std::string_view Name(Mutant mutant);
// Which line of ARCHITECTURE.md, "What must hold" it breaks.
int InvariantOf(Mutant mutant);

}  // namespace spillway::sim
