// SPDX-License-Identifier: Apache-2.0
// Runs a program as a shell does: passes signals on to it, and returns how it ended.
#pragma once

namespace spillway {

inline constexpr int kCanNotRun = 126;  // The same numbers as in `env` and `timeout`.
inline constexpr int kNotFound = 127;

// `argv` ends with a null pointer. Returns the program's exit code; 128 plus the signal that ended
// it; or one of the above, with a message on stderr that begins with `who`.
int RunChild(const char* who, char** argv);

}  // namespace spillway
