// The few socket calls of an ask, none of which waits. They return a file
// descriptor (closed on exec), or minus the system's error.
#pragma once

#include <string>

namespace spillway {

// A full queue at the other side is EAGAIN.
int ConnectUnix(const std::string& path);
int BindUnix(const std::string& path);

// Sends all of it at once and never raises a signal. False: it did not fit, or
// nobody is there.
bool SendWhole(int fd, const std::string& text);

}  // namespace spillway
