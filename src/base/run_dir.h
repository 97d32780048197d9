// The run directory: where the processes of one machine meet. Cards and ask
// sockets live there.
#pragma once

#include <string>
#include <vector>

#include "spillway/result.h"

namespace spillway {

// $SPILLWAY_RUN_DIR, else /run/spillway, else $XDG_RUNTIME_DIR/spillway, else
// /tmp/spillway-<uid>: the first that exists or can be made (0700) and lets us
// write. A $SPILLWAY_RUN_DIR that does not is an error, not a reason to look
// further: two programs told to meet there would miss each other silently.
Result<std::string> RunDir();

// The same places for whoever only looks for others: all that exist and can be
// read, none is made. With $SPILLWAY_RUN_DIR that one alone.
std::vector<std::string> RunDirsToSearch();

}  // namespace spillway
