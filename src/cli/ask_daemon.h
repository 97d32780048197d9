// SPDX-License-Identifier: Apache-2.0
// spillway stats and spillway explain: the state of a running spillwayd, and where one key is.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0; 1 if no daemon answers or nothing is
// known of the key; 2 for wrong arguments.
int RunStats(int argc, char** argv);
int RunExplain(int argc, char** argv);

}  // namespace spillway
