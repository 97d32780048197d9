// `spillway top`: what a running daemon holds and does, live in a terminal; without
// a daemon, how full this machine's memory is.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0; 1 if nobody answers
// where one was asked for; 2 when the arguments are wrong.
int RunTop(int argc, char** argv);

}  // namespace spillway
