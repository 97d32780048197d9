// SPDX-License-Identifier: Apache-2.0
// `spillway llama-slots`: tells where the program for llama-server is.
#pragma once

namespace spillway {

int RunLlamaSlots(int argc, char** argv);

}  // namespace spillway
