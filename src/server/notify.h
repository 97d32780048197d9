// SPDX-License-Identifier: Apache-2.0
// Reports the daemon's state to the service manager by systemd's protocol: a datagram to the socket
// in $NOTIFY_SOCKET. Without it nothing happens.
#pragma once

#include <string_view>

namespace spillway::server {

// "READY=1", "STOPPING=1", "RELOADING=1".
void NotifyManager(std::string_view state);

}  // namespace spillway::server
