// SPDX-License-Identifier: Apache-2.0
// `spillway room 30GiB -- CMD ...`: asks the caches on a device for memory, runs CMD, and keeps the
// memory reserved while CMD runs.
#pragma once

namespace spillway {

inline constexpr int kNoRoom = 125;

// argv[0] is the command's own name. Returns CMD's exit code; 128 plus the signal that ended it;
// 127 or 126 if it cannot be run; kNoRoom if too little memory was freed; 2 for wrong arguments.
int RunRoom(int argc, char** argv);

}  // namespace spillway
