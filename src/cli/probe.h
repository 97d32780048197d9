// SPDX-License-Identifier: Apache-2.0
// `spillway probe`: the pressure sources this machine offers, and what a cache would choose here.
#pragma once

namespace spillway {

// argv[0] is the command's own name. Returns the exit code: 0, even if nothing was found; 2 for
// wrong arguments.
int RunProbe(int argc, char** argv);

}  // namespace spillway
