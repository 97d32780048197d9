// SPDX-License-Identifier: Apache-2.0
#include "cli/llama_slots.h"

#include "base/errors.h"
#include "cli/complain.h"

namespace spillway {

int RunLlamaSlots(int /*argc*/, char** /*argv*/) {
  return Complain("llama-slots", Bad("the sidecar of llama-server is part of the Python package: "
                                     "python3 -m spillway.llama_slots --help"));
}

}  // namespace spillway
