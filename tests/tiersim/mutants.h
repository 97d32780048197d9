// SPDX-License-Identifier: Apache-2.0
// The planted bugs that need several tiers, and the worlds that find them.
#pragma once

#include <string_view>

#include "base/mutant.h"
#include "sim/runner.h"

namespace spillway::tiersim {

// "kTornMoveCommitted" without the k; empty: it is not one of these.
std::string_view Name(Mutant mutant);
// Which line of ARCHITECTURE.md, "What must hold" it breaks.
int InvariantOf(Mutant mutant);

sim::RunResult RunSeeds(const sim::RunOptions& options);
// One seed in this process; `verbose` prints every event.
bool RunOne(std::uint64_t seed, std::uint64_t events, Mutant mutant, bool verbose,
            sim::Failure* failure, std::uint64_t* fingerprint);

}  // namespace spillway::tiersim
