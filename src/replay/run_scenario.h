// A whole scenario, from a descriptor to a file.
#pragma once

#include <cstdio>

#include "replay/scenario.h"

namespace spillway {

// Runs every line of `in` and prints a line for each; blank ones are passed
// over. What is printed is flushed before it waits for more. Returns the exit
// status: 0; 2 after a bad line, told as {"error":...,"line":n} on `err`; 1
// when `out` can't be written.
int RunScenario(Scenario* scenario, int in, std::FILE* out, std::FILE* err);

}  // namespace spillway
