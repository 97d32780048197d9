// The state directory: what was found out about this machine, kept from one
// process to the next and over a reboot. Losing it costs finding out again.
#pragma once

#include <string>
#include <vector>

#include "spillway/result.h"

namespace spillway {

// $SPILLWAY_STATE_DIR, else /var/lib/spillway, else $XDG_STATE_HOME/spillway, else
// $HOME/.local/state/spillway: the first that exists or can be made (0755) and lets
// us write. A $SPILLWAY_STATE_DIR that does not is an error.
Result<std::string> StateDir();

// The same places for whoever only reads, in that order; none is made.
std::vector<std::string> StateDirsToSearch();

}  // namespace spillway
