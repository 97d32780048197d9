// SPDX-License-Identifier: Apache-2.0
// Socket calls of the ask server and for short lines. None of them blocks.
#pragma once

#include <string>

namespace spillway {

// Returns a bound descriptor (closed on exec), or the negative errno.
int BindUnix(const std::string& path);

// Sends the whole text at once and never raises a signal. False: it did not fit, or the peer has
// closed.
bool SendWhole(int fd, const std::string& text);

}  // namespace spillway
