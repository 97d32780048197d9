// SPDX-License-Identifier: Apache-2.0
// The run directory, through which the processes of one machine find each
// other. It contains cards and ask sockets.
#pragma once

#include <string>
#include <vector>

#include "spillway/result.h"

namespace spillway {

// $SPILLWAY_RUN_DIR, otherwise /run/spillway, otherwise
// $XDG_RUNTIME_DIR/spillway, otherwise /tmp/spillway-<uid>: the first that
// exists or can be created (0700) and is writable. A $SPILLWAY_RUN_DIR that is
// not writable is an error; falling back would let two programs that were told
// to use it miss each other silently.
Result<std::string> RunDir();

// The same directories for readers: all that exist and can be read; none is
// created. If $SPILLWAY_RUN_DIR is set, only that one.
std::vector<std::string> RunDirsToSearch();

}  // namespace spillway
