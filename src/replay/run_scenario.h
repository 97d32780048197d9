// SPDX-License-Identifier: Apache-2.0
// Runs a whole scenario, from a descriptor to a file.
#pragma once

#include <cstdio>

#include "replay/scenario.h"

namespace spillway {

// Runs every line of `in` and prints one line for each; blank lines are skipped. Output is flushed
// before it waits for input. Returns the exit status: 0; 2 after a malformed line, which is printed
// as {"error":...,"line":n} on `err`; 1 if `out` cannot be written.
int RunScenario(Scenario* scenario, int in, std::FILE* out, std::FILE* err);

}  // namespace spillway
