// `spillway probe`: what this machine offers to sense memory pressure by, and
// what a cache would choose here.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0, also when
// nothing was found; 2 when the arguments are wrong.
int RunProbe(int argc, char** argv);

}  // namespace spillway
