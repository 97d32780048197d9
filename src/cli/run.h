// SPDX-License-Identifier: Apache-2.0
// `spillway run -- CMD ...`: runs CMD with libspillway_ask.so preloaded, which asks the caches for
// memory when an allocation of CMD fails.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns CMD's exit code; 128 plus the signal that ended it;
// 127 or 126 if it cannot be run, also because nothing can be preloaded into it; 2 for wrong
// arguments.
int RunRun(int argc, char** argv);

}  // namespace spillway
