// SPDX-License-Identifier: Apache-2.0
// `spillway squeeze 4GiB`: plays the neighbour process, to try Spillway with. It takes real memory
// of a GPU or a virtual card, holds it, and frees it.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0, also when a signal ended it; 1 if
// the device cannot be opened or does not have that much memory; 2 for wrong arguments.
int RunSqueeze(int argc, char** argv);

}  // namespace spillway
