// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace spillway {

int RunSimulate(int argc, char** argv);

}  // namespace spillway
