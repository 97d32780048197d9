// SPDX-License-Identifier: Apache-2.0
// The state directory: findings about this machine that are kept across
// processes and reboots. If it is lost they are measured again.
#pragma once

#include <string>
#include <vector>

#include "spillway/result.h"

namespace spillway {

// $SPILLWAY_STATE_DIR, otherwise /var/lib/spillway, otherwise
// $XDG_STATE_HOME/spillway, otherwise $HOME/.local/state/spillway: the first
// that exists or can be created (0755) and is writable. A $SPILLWAY_STATE_DIR
// that is not writable is an error.
Result<std::string> StateDir();

// The same directories for readers, in that order; none is created.
std::vector<std::string> StateDirsToSearch();

}  // namespace spillway
