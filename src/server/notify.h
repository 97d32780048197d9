// Tells the service manager how we are, by its own protocol: a datagram to the
// socket it names. Without one nothing happens.
#pragma once

#include <string_view>

namespace spillway::server {

// "READY=1", "STOPPING=1", "RELOADING=1".
void NotifyManager(std::string_view state);

}  // namespace spillway::server
