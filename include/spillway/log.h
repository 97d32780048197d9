// SPDX-License-Identifier: Apache-2.0
// The library's log: rare lines of text about events that no call returns, such as a failing disk.
// All of it can also be queried through the API. Lines go to standard error or to a function the
// program sets; never to standard output, which belongs to the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "spillway/export.h"

namespace spillway {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError, kOff };

SPILLWAY_API std::string_view Name(LogLevel level);  // "warning"

// Receives one line of the log. May be called from any thread, one line at a time. Must not call
// the library.
using LogCall = std::function<void(LogLevel level, std::string_view text)>;

// Sets the log of the whole process. Lines less serious than `least` are dropped (kOff: all lines).
// The rest goes to `call`, or to standard error if `call` is empty. Default: kInfo, standard error.
SPILLWAY_API void SetLog(LogLevel least, LogCall call = {});

}  // namespace spillway
