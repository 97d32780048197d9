// SPDX-License-Identifier: Apache-2.0
// The planted bugs that the simulator of the daemon must see, and worlds to run with
// them.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/mutant.h"
#include "sim/runner.h"

namespace spillway::serversim {

struct PlantedBug {
  Mutant mutant = Mutant::kNone;
  std::string_view name;
  std::string_view breaks;  // What a client is promised.
  // One of the first so many seeds must catch it. About six do (--rates counts them), so
  // that some are left when a change makes all seeds draw other events.
  std::uint64_t seeds = 0;
};
std::span<const PlantedBug> PlantedBugs();
// Empty: it is not one of ours.
std::string_view Name(Mutant mutant);

// `without`: what is not drawn (plan.h).
sim::RunResult RunSeeds(const sim::RunOptions& options, const std::set<std::string>& without = {});
// One seed in this process; `verbose` tells every event.
bool RunOne(std::uint64_t seed, std::uint64_t events, Mutant mutant, bool verbose,
            const std::set<std::string>& without, sim::Failure* failure,
            std::uint64_t* fingerprint);

}  // namespace spillway::serversim
