// `spillway selftest`: what this machine's GPUs and their drivers can do, tried
// out on the spot within a bounded share of what is free, and the virtual card
// besides.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0 when nothing failed,
// 1 when something did, 2 when the arguments are wrong.
int RunSelftest(int argc, char** argv);

}  // namespace spillway
