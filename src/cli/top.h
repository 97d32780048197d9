// SPDX-License-Identifier: Apache-2.0
// `spillway top`: shows what a running daemon holds and does, live in a terminal; without a daemon,
// how full this machine's memory is.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0; 1 if a daemon was named and does not
// answer; 2 for wrong arguments.
int RunTop(int argc, char** argv);

}  // namespace spillway
