// SPDX-License-Identifier: Apache-2.0
#include "cli/demo.h"

#include "base/errors.h"
#include "cli/complain.h"

namespace spillway {

int RunDemo(int /*argc*/, char** /*argv*/) {
  return Complain("demo", Bad("the demo is a program of its own: `make run` in the source tree, or "
                              "python3 examples/demo"));
}

}  // namespace spillway
