// Runs a program as a shell would and stands in for it: signals are passed on,
// and so is how it ended.
#pragma once

namespace spillway {

inline constexpr int kCanNotRun = 126;  // As `env` and `timeout` say it.
inline constexpr int kNotFound = 127;

// `argv` ends with a null pointer. Returns the program's exit code, 128 and the
// signal that ended it, or one of the above, said on stderr in `who`'s name.
int RunChild(const char* who, char** argv);

}  // namespace spillway
