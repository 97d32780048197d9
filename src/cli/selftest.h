// SPDX-License-Identifier: Apache-2.0
// `spillway selftest`: tests what this machine's GPUs and drivers can do, within a bounded share of
// the free memory, and tests the virtual card.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0 if nothing failed, 1 if something
// did, 2 for wrong arguments.
int RunSelftest(int argc, char** argv);

}  // namespace spillway
