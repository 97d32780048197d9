// SPDX-License-Identifier: Apache-2.0
// Asks whether the daemon's addresses can be had, before anything else is opened: a daemon that
// cannot serve must not begin a folder of the disk tier, nor lock one.
#pragma once

#include "server/settings.h"
#include "spillway/result.h"

namespace spillway::server {

// Binds both TCP ports and lets them go, and looks whether another process serves the Unix socket.
// The error names the address, and the setting that chooses another one. What is taken between this
// check and Server::Open is an error there.
Status CheckPorts(const Settings& settings);

}  // namespace spillway::server
