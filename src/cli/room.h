// `spillway room 30GiB -- CMD ...`: asks the caches on a device for memory, runs
// CMD, and holds the room for its life.
#pragma once

namespace spillway {

inline constexpr int kNoRoom = 125;

// argv[0] is the command's own name. Returns CMD's exit code, 128 and the signal
// that ended it, 127 or 126 when it can't be run, kNoRoom when too little could
// be had; 2 when the arguments are wrong.
int RunRoom(int argc, char** argv);

}  // namespace spillway
