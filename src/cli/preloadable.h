// SPDX-License-Identifier: Apache-2.0
// Whether the loader would load a library of ours into a program before it starts.
#pragma once

#include <string>

namespace spillway {

// Empty: it would, or the program is not there (then starting it says so). Otherwise why not, as
// the end of a sentence that begins with the program. `command` is searched in PATH as a shell
// does; a script counts as its interpreter.
std::string WhyNotPreloadable(const std::string& command);

}  // namespace spillway
