// `spillway squeeze 4GiB`: a neighbour to try Spillway with. It takes real
// memory of a GPU or a virtual card, holds it, and gives it back.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0, also when a
// signal ended it; 1 when the device cannot be opened or does not have all that
// was asked for; 2 when the arguments are wrong.
int RunSqueeze(int argc, char** argv);

}  // namespace spillway
