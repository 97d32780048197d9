// What the library has to say besides its answers: seldom, a line each, and
// nothing that could not be asked for as well. It goes to standard error, or to
// whoever wants it; standard output belongs to the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "spillway/export.h"

namespace spillway {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError, kOff };

SPILLWAY_API std::string_view Name(LogLevel level);  // "warning"

// Called from any thread, one line at a time. Must not call the library.
using LogCall = std::function<void(LogLevel level, std::string_view text)>;

// For the whole process, from now on: what is less serious than `least` is not
// said (kOff: nothing is); the rest goes to `call`, or, if that is empty, to
// standard error. Before the first call it is kInfo and standard error.
SPILLWAY_API void SetLog(LogLevel least, LogCall call = {});

}  // namespace spillway
